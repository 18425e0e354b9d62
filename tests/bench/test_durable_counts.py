"""What a durable run costs PostgreSQL, counted and not timed: statements of a drive, of a pause, of a decision."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from placet import Agent, RunConfig, function_tool
from placet.desk import Desk
from placet.service.driving import Contexts, RunDriver
from placet.stores.postgres import PostgresStore, connections
from placet.stores.sql.statements import Row, Statement
from placet.testing import function_call
from tests.desk.scenes import Planned
from tests.support.postgres import PostgresServer

TURNS = 5


class Statements:
    """The named statements that the store executes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[str] = []
        execute = connections.execute

        async def counted(db: connections.Connection, statement: Statement) -> list[Row]:
            self._seen.append(statement.name)
            return await execute(db, statement)

        monkeypatch.setattr(connections, "execute", counted)

    def since(self) -> Counter[str]:
        """How often each was executed since this was last asked."""
        found, self._seen[:] = Counter(self._seen), []
        return found


@function_tool
async def look_up(order: str) -> str:
    return f"found {order}"


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    return f"refunded {order}"


def support() -> Agent[Any]:
    """Three turns that look something up, one whose call waits, one that ends."""
    free = [[function_call("look_up", {"order": "7"}, call_id=f"c{number}")] for number in range(TURNS - 2)]
    gated = [function_call("refund", {"order": "7"}, call_id="gated")]
    return Agent("Support", tools=[look_up, refund], model=Planned(*free, gated))


async def test_a_durable_run_costs_as_many_statements_as_it_has_durable_points(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = Statements(monkeypatch)
    async with PostgresStore(postgres.store_database()) as store, Desk(store, agents=[support()], run=False) as desk:
        driver = RunDriver(store, [support()], Contexts(), RunConfig())
        run = await desk.start("Support", "x")
        statements.since()

        await driver.drive(run.id)
        to_the_pause = statements.since()
        (asked,) = await desk.pending(run_id=run.id)
        statements.since()
        await desk.decide(asked.id, "approve", by="ana")
        decision = statements.since()
        await driver.drive(run.id)
        to_the_end = statements.since()

    once = {"load_recent": 1, "lease": 1}
    # One append before each request, one before each tool function; the pause is the last. Holds are read before every
    # claim, standing grants when a call is held. The last append of a drive gives the lease back.
    # What the desk says about approvers of the tool is a record, read when a call is held.
    held = {"standing_grants": 1, "record": 1}
    assert to_the_pause == once | held | {"append": 2 * (TURNS - 2) + 2, "holds": TURNS - 2}
    assert decision == {"request": 1, "load_recent": 1, "record": 1, "append": 1}
    # The records are the four-eyes rule and what the desk says about approvers, read before an approved call begins.
    assert to_the_end == once | {"append": 3, "holds": 1, "record": 2}


async def test_a_durable_run_writes_ahead_and_keeps_no_more_than_its_budget(postgres: PostgresServer) -> None:
    """Without images of whole pages, which come after each checkpoint: the tests' server writes none."""
    async with PostgresStore(postgres.store_database()) as store, Desk(store, agents=[support()], run=False) as desk:
        driver = RunDriver(store, [support()], Contexts(), RunConfig())
        await one_run(desk, driver)
        written = await written_ahead(store)
        for _ in range(RUNS):
            await one_run(desk, driver)

        assert 5_000 < (await written_ahead(store) - written) / RUNS <= 15_500


RUNS = 20


async def one_run(desk: Desk, driver: RunDriver) -> None:
    run = await desk.start("Support", "x")
    await driver.drive(run.id)
    (asked,) = await desk.pending(run_id=run.id)
    await desk.decide(asked.id, "approve", by="ana")
    assert await driver.drive(run.id)


async def written_ahead(store: PostgresStore) -> int:
    ((at,),) = await store.query(b"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")
    return int(at)
