"""Somebody writes to the database past Placet: the audit finds it, and no reviewer is deceived.

Every column that a log can tell is changed by SQL, on both databases. What no log tells (leases, news, take-overs) is
not in here: it says who drives a run and when, never what is decided about.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from placet import Agent
from placet.core.fold import fold
from placet.core.log import Log
from placet.desk import Desk
from placet.desk.access.accounts import Accounts
from placet.facts.errors import IndexAltered, PlacetError
from placet.facts.events import RunStarted
from placet.ports import DeskStore
from placet.service.audit import Verdict, verify
from placet.stores.opening import open_store
from tests.desk.scenes import PATIENCE, Witness, support
from tests.support.postgres import PostgresServer

SQL = Callable[[str], list[tuple[Any, ...]]]


@dataclass
class Scene:
    url: str
    sql: SQL
    """A statement past Placet."""


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    if request.param == "sqlite":
        path = tmp_path / "placet.db"

        def in_file(statement: str) -> list[tuple[Any, ...]]:
            with sqlite3.connect(path) as db:
                return db.execute(statement).fetchall()

        return Scene(f"sqlite:///{path}", in_file)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url = postgres.store_database()

    def in_server(statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as db:
            done = db.execute(statement.encode())
            return done.fetchall() if done.description is not None else []

    return Scene(url, in_server)


@asynccontextmanager
async def desk_of(scene: Scene, witness: Witness, agent: Agent[Any] | None = None) -> AsyncIterator[Desk]:
    async with Desk(scene.url, agents=[agent or support(witness)]) as desk:
        yield desk


async def waits(desk: Desk) -> tuple[str, str]:
    """A run that waits, and its request."""
    run = await desk.start("Support", "Refund order 7", by="web-form")
    await desk.wait(run.id, until="paused", timeout=PATIENCE)
    (asked,) = await desk.pending(run_id=run.id)
    return run.id, asked.id


async def ends(desk: Desk) -> str:
    run_id, request_id = await waits(desk)
    await desk.decide(request_id, "reject", by="ana", reason="no")
    await desk.wait(run_id, timeout=PATIENCE)
    return run_id


async def broken(store: DeskStore) -> list[Verdict]:
    return [verdict async for verdict in verify(store) if not verdict.is_whole]


def in_data(scene: Scene, key: str, value: object) -> str:
    ((data,),) = scene.sql("SELECT data FROM placet_requests")
    text = json.dumps(json.loads(data) | {key: value}).replace("'", "''")
    return f"UPDATE placet_requests SET data = '{text}'"  # noqa: S608  # on purpose


OTHERWISE: dict[str, object] = {
    "id": "run_x:1.0#1", "run_id": "run_x", "call": "1.5", "number": 2, "kind": "in_doubt", "agent": "Other",
    "tool": "look_up", "arguments": '{"order": 1}', "digest": "0" * 64, "created_at": 1.0, "why": "harmless",
    "expires_at": 9e9, "questions": {"x": {"message": "?"}},
}  # fmt: skip
"""Another value for everything that a question says."""


@pytest.mark.promise("P22")
@pytest.mark.parametrize("key", OTHERWISE)
async def test_a_changed_question_is_found_and_nobody_is_shown_it_or_decides_it(
    scene: Scene, witness: Witness, key: str
) -> None:
    async with desk_of(scene, witness) as desk:
        run_id, request_id = await waits(desk)
        assert await broken(desk.store) == []
        scene.sql(in_data(scene, key, OTHERWISE[key]))

        with pytest.raises(IndexAltered, match="not what its run's log asks"):
            await desk.request(request_id)
        with pytest.raises(IndexAltered, match="Nothing was decided"):
            await desk.decide(request_id, "approve", by="ana")
        (found,) = await broken(desk.store)
        still = await desk.get(run_id)

    assert (found.run_id, found.verdict) == (run_id, "altered")
    assert still.status == "waiting"
    assert witness.lines() == []


COLUMNS = {
    "id": "id || 'x'",
    "run": "run + 100",
    "call": "'1.5'",
    "number": "5",
    "status": "'approved'",
    "agent": "'Other'",
    "tool": "'look_up'",
    "closing": '\'["mallory",1.0,"fine"]\'',
    "escalated_at": "1.0",
}


@pytest.mark.parametrize("column", COLUMNS)
async def test_every_changed_column_of_a_question_is_found_and_never_deceives(
    scene: Scene, witness: Witness, column: str
) -> None:
    async with desk_of(scene, witness) as desk:
        _, request_id = await waits(desk)
        (true,) = await desk.pending()
        scene.sql(f"UPDATE placet_requests SET {column} = {COLUMNS[column]}")  # noqa: S608  # on purpose

        try:
            shown = await desk.request(request_id)
        except PlacetError as error:
            alarm: str | None = error.code
        else:
            alarm = None if shown == true else "deceived"
        assert await broken(desk.store)

    assert alarm in (None, "index_altered", "not_pending")


async def test_a_question_is_stored_under_the_key_that_older_code_knows_too(scene: Scene, witness: Witness) -> None:
    async with desk_of(scene, witness) as desk:
        run_id, request_id = await waits(desk)
        ((key, data),) = scene.sql("SELECT id, data FROM placet_requests")

    assert request_id == f"{run_id}_t1c0_q1"
    assert key == json.loads(data)["id"] == f"{run_id}:1.0#1"


async def test_a_question_that_was_added_past_placet_cannot_be_shown_or_decided(scene: Scene, witness: Witness) -> None:
    async with desk_of(scene, witness) as desk:
        run_id, _ = await waits(desk)
        first, other = f"{run_id}:1.0#1", f"{run_id}:1.0#2"
        scene.sql(
            "INSERT INTO placet_requests (id, run, call, number, status, agent, tool, data) "  # noqa: S608  # on purpose
            f"SELECT '{other}', run, call, 2, 'pending', agent, tool, replace(data, '{first}', '{other}') "
            "FROM placet_requests"
        )

        with pytest.raises(IndexAltered, match="asks no such question"):
            await desk.decide(other, "approve", by="ana")
        (found,) = await broken(desk.store)

    assert found.run_id == run_id
    assert witness.lines() == []


RUNS = {
    "id": "id || 'x'", "agent": "'Other'", "status": "'waiting'", "length": "length - 1", "turn": "turn + 1",
    "session": "'s'", "final_output": "'\"all is well\"'", "stopped": "'because'", "started_by": "'mallory'",
    "wake_at": "5.0", "created_at": "5.0", "updated_at": "5.0", "ended_at": "5.0", "erased_at": "5.0",
}  # fmt: skip


@pytest.mark.parametrize("column", RUNS)
async def test_every_changed_column_of_a_run_is_found(scene: Scene, witness: Witness, column: str) -> None:
    async with desk_of(scene, witness) as desk:
        await ends(desk)
        assert await broken(desk.store) == []
        scene.sql(f"UPDATE placet_runs SET {column} = {RUNS[column]}")  # noqa: S608  # on purpose

        assert await broken(desk.store)


async def test_a_run_that_was_hidden_from_all_lists_is_found(scene: Scene, witness: Witness) -> None:
    async with desk_of(scene, witness) as desk:
        run_id = await ends(desk)
        scene.sql("UPDATE placet_runs SET length = 0")

        (found,) = await broken(desk.store)

    assert run_id in found.message


async def test_who_started_a_run_is_asked_of_its_log(scene: Scene, witness: Witness) -> None:
    from placet.desk.web.deciding import _run_of

    class Web:
        def __init__(self, desk: Desk) -> None:
            self.desk = desk

    async with desk_of(scene, witness) as desk:
        _, request_id = await waits(desk)
        scene.sql("UPDATE placet_runs SET started_by = 'somebody else'")
        run = await _run_of(Web(desk), await desk.request(request_id))  # type: ignore[arg-type]  # what it needs

    assert run is not None
    assert run.started_by == "web-form"


@pytest.mark.parametrize("is_bound", [True, False])
async def test_logs_that_were_swapped_are_found(scene: Scene, witness: Witness, is_bound: bool) -> None:
    """Chains of older code, which do not know their run, are found by the questions that are listed of them."""
    async with desk_of(scene, witness) as desk:
        for order in (7, 8):
            log = Log(f"run_{order}", b"k" * 16, is_bound=is_bound)
            started = RunStarted("Support", f"Refund order {order}", 10)
            await desk.store.append(None, log, [log.next_line(1.0, [started])], fold([started]))
            await desk._engine.enqueue(log.run_id)
            await desk.wait(log.run_id, until="paused", timeout=PATIENCE)
        assert await broken(desk.store) == []
        scene.sql("UPDATE placet_runs SET id = 'run_x' WHERE id = 'run_7'")
        scene.sql("UPDATE placet_runs SET id = 'run_7' WHERE id = 'run_8'")
        scene.sql("UPDATE placet_runs SET id = 'run_8' WHERE id = 'run_x'")

        found = await broken(desk.store)

    assert {each.run_id for each in found} == {"run_7", "run_8"}


BESIDE = {
    "a grant for more": "UPDATE placet_grants SET data = replace(data, '\"reject\"', '\"approve\"')",
    "a grant for another agent": "UPDATE placet_grants SET agent = 'Other'",
    "a grant that stands again": "UPDATE placet_grants SET revoked = NOT revoked",
    "a grant that is gone": "DELETE FROM placet_grants",
    "a grant that nobody made": "INSERT INTO placet_grants (id, agent, data) "
    "SELECT 'grant_x', agent, data FROM placet_grants",
    "a hold by somebody else": "UPDATE placet_holds SET placed_by = 'mallory'",
    "a hold that is gone": "DELETE FROM placet_holds",
    "a hold that nobody placed": "INSERT INTO placet_holds VALUES ('tool', 'x', 'mallory', 1.0, NULL)",
    "a user who may more": "UPDATE placet_records SET data = replace(data, '\"viewer\"', '\"admin\"') "
    "WHERE kind = 'user'",
    "a user whom nobody added": "INSERT INTO placet_records (kind, id, owner, data) "
    "SELECT kind, 'mallory', owner, replace(data, '\"ben\"', '\"mallory\"') FROM placet_records WHERE kind = 'user'",
    "a user who is gone": "DELETE FROM placet_records WHERE kind = 'user'",
    "a token that may more": "UPDATE placet_records SET data = replace(data, '\"viewer\"', '\"admin\"') "
    "WHERE kind = 'token'",
    "a token that nobody made": "INSERT INTO placet_records (kind, id, owner, data) "
    "SELECT kind, 'other', owner, data FROM placet_records WHERE kind = 'token'",
}


@pytest.mark.parametrize("what", BESIDE)
async def test_what_was_changed_beside_the_operators_log_is_found(scene: Scene, witness: Witness, what: str) -> None:
    async with desk_of(scene, witness) as desk:
        await desk.grant("Support", "refund", "reject", by="ana")
        await desk.hold("tool", "refund", by="ana", reason="first look")
        accounts = Accounts(desk.store)
        await accounts.add_user("ben", "viewer")
        await accounts.add_token("ben", "laptop")
        assert await broken(desk.store) == []
        scene.sql(BESIDE[what])

        (found,) = await broken(desk.store)

    assert (found.run_id, found.verdict) == ("operators", "altered")


async def test_an_erased_run_says_nothing_and_one_that_does_is_found(scene: Scene, witness: Witness) -> None:
    async with desk_of(scene, witness) as desk:
        run_id = await ends(desk)
        page = await desk.requests(status=None, run_id=run_id)
        await desk.erase(run_id, by="ana")
        shown = await desk.request(page.rows[0].id)
        assert await broken(desk.store) == []
        scene.sql("UPDATE placet_requests SET data = replace(data, '(erased)', '{}')")

        with pytest.raises(IndexAltered):
            await desk.request(page.rows[0].id)
        (found,) = await broken(desk.store)

    assert shown.arguments == "(erased)"
    assert found.run_id == run_id


async def test_a_state_that_a_store_took_over_is_listed_as_its_log_asks(scene: Scene, witness: Witness) -> None:
    """Its lines come in one append: what is listed is the same as line by line."""
    from placet import Runner

    agent = support(witness)
    state = (await Runner.run(agent, "Refund order 7")).to_state()
    async with open_store(scene.url) as store:
        paused = await Runner.run(agent, state, store=store)
        assert paused.interruptions
        (listed,) = await Desk(store, run=False).pending()
        asked = await Desk(store, run=False).request(listed.id)
        found = await broken(store)

    assert asked == listed
    assert found == []
