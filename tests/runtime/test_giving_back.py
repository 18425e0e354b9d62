"""A drive gives its lease back with its last append, unless something is to come behind it."""

from __future__ import annotations

from typing import Any

from placet import Agent, RunConfig, ToolContext, function_tool
from placet.core.holds import Hold
from placet.desk import Desk
from placet.runtime.journal import load_recent
from placet.service.driving import Contexts, RunDriver
from placet.stores.opening import open_store
from placet.testing import function_call
from tests.desk.scenes import Planned


@function_tool
async def count(ctx: ToolContext[dict[str, int]]) -> str:
    ctx.context["seen"] += 1
    return "counted"


@function_tool(needs_approval=True)
async def refund() -> str:
    return "refunded"


@function_tool
async def look_up() -> str:
    return "found"


def counting() -> Agent[Any]:
    turn = [function_call("count", {}, call_id="c1"), function_call("refund", {}, call_id="c2")]
    return Agent("Counter", tools=[count, refund], model=Planned(turn))


async def test_a_run_that_is_held_back_is_given_back_as_having_work(any_url: str) -> None:
    agent: Agent[Any] = Agent("Finder", tools=[look_up], model=Planned([function_call("look_up", {}, call_id="c")]))
    async with open_store(any_url) as store, Desk(store, agents=[agent], run=False) as desk:
        await store.put_hold(Hold(kind="tool", name="look_up", by="ops", at=1.0, reason=None))
        run = await desk.start("Finder", "x")

        await RunDriver(store, [agent], Contexts(), RunConfig()).drive(run.id)

        row = await store.run(run.id)
        assert row is not None
        assert (row.is_driven, row.has_news) == (False, True)


async def test_a_context_that_a_tool_changed_is_saved_behind_the_pause_and_then_the_run_is_free(any_url: str) -> None:
    async with open_store(any_url) as store, Desk(store, agents=[counting()], run=False) as desk:
        run = await desk.start("Counter", "x", context={"seen": 0})

        assert await RunDriver(store, [counting()], Contexts(), RunConfig()).drive(run.id)

        row, found = await store.run(run.id), await load_recent(store, run.id)
        assert row is not None
        assert found is not None
        assert found[2].context == {"seen": 1}
        assert (row.is_driven, row.has_news, row.status, row.stopped) == (False, False, "waiting", None)


async def test_a_run_that_waits_is_free_and_its_next_driver_takes_nothing_over(any_url: str) -> None:
    async with open_store(any_url) as store, Desk(store, agents=[counting()], run=False) as desk:
        run = await desk.start("Counter", "x", context={"seen": 0})
        await RunDriver(store, [counting()], Contexts(factory=lambda _run, _given: {"seen": 0}), RunConfig()).drive(
            run.id
        )
        (asked,) = await desk.pending(run_id=run.id)
        await desk.decide(asked.id, "approve", by="ana")
        waits = await store.run(run.id)

        assert await RunDriver(store, [counting()], Contexts(), RunConfig()).drive(run.id)

        ended = await store.run(run.id)
        assert waits is not None
        assert ended is not None
        assert (waits.is_driven, waits.has_news) == (False, True)
        assert (ended.status, ended.is_driven, ended.has_news, ended.takeovers) == ("ended", False, False, 0)
