"""After a deploy that took a tool, an agent or a server away, what waits can be ended through every door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from placet import Agent, MemoryStore, RunConfig, Runner, SessionBusy, SQLiteSession, function_tool
from placet.desk import Desk
from placet.facts.errors import ToolsetUnavailable
from placet.stores.opening import open_store
from placet.testing import ManualClock, function_call
from tests.desk.scenes import PATIENCE, Planned
from tests.runtime.team_scenes import assert_paired
from tests.support.changed_code import CHANGES, PAYS, pay

pytestmark = pytest.mark.promise("P15")
QUEUE, SUPERSEDE = RunConfig(on_pending="queue"), RunConfig(on_pending="supersede")
GOES_ON = ["a tool is gone", "a tool of a nested agent is gone", "a nested agent is gone"]


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Callable[..., Agent[Any]]:
    return CHANGES[request.param]


async def waiting_at(desk: Desk, agent: str = "Front") -> str:
    run = await desk.start(agent, "pay", by="web-form")
    await desk.wait(run.id, until="paused", timeout=PATIENCE)
    assert [request.tool for request in await desk.pending(run_id=run.id)] == ["pay"]
    return run.id


@pytest.mark.parametrize("runs", [True, False], ids=["driving", "only looking"])
@pytest.mark.parametrize("knows", [True, False], ids=["with today's code", "without any code"])
async def test_a_desk_cancels_it(any_url: str, change: Callable[..., Agent[Any]], runs: bool, knows: bool) -> None:
    async with Desk(any_url, agents=[change(is_there=True)]) as before:
        run_id = await waiting_at(before)

    store = open_store(any_url)
    async with Desk(store, agents=[change(is_there=False)] if knows else [], run=runs and knows) as desk:
        await desk.cancel(run_id, by="ana", reason="the tool is gone")
        run = await desk.wait(run_id, timeout=PATIENCE)

        assert (run.status, await desk.pending()) == ("ended", [])
    await store.close()


async def test_a_cancellation_that_was_recorded_before_is_carried_out_by_whoever_comes(url: str) -> None:
    """A driver had the run when it was cancelled, and died: the next desk has none of the code."""
    async with Desk(url, agents=[CHANGES["the agent was renamed"](is_there=True)]) as before:
        run_id = await waiting_at(before)
        lease = await before.store.lease(run_id, holder := _Holder())
        await before.cancel(run_id, by="ana")
        assert (await before.get(run_id)).status == "waiting"
        await before.store.release(lease, 10**9)
        del holder

    async with Desk(url, agents=[CHANGES["the agent was renamed"](is_there=False)]) as desk:
        run = await desk.wait(run_id, timeout=PATIENCE)

    assert run.status == "ended"


class _Holder:
    """Stands for a driver."""


async def test_a_run_that_took_its_drivers_down_can_be_cancelled(url: str) -> None:
    async with Desk(url, agents=[CHANGES["a tool is gone"](is_there=True)], run=True) as desk:
        run_id = await waiting_at(desk)
        await desk.store.park(run_id, parked=True)

        await desk.cancel(run_id)

        assert (await desk.wait(run_id, timeout=PATIENCE)).status == "ended"


async def test_a_run_that_an_error_stopped_can_be_cancelled_without_its_code(url: str) -> None:
    class Broken(Planned):
        async def get_response(self, request: Any) -> Any:
            raise ToolsetUnavailable("away")

    async with Desk(url, agents=[Agent("Front", model=Broken())]) as before:
        run = await before.start("Front", "hi")
        assert (await before.wait(run.id, until="paused", timeout=PATIENCE)).stopped

    async with Desk(url, run=False) as desk:
        await desk.cancel(run.id)

        assert (await desk.get(run.id)).status == "ended"


async def test_a_rejection_of_one_call_is_carried_out_although_the_tool_of_another_is_gone(url: str) -> None:
    @function_tool(needs_approval=True)
    async def mail(to: str) -> str:
        return "sent"

    both = [*PAYS, function_call("mail", {"to": "x"}, call_id="c2")]
    async with Desk(url, agents=[Agent("Front", tools=[pay, mail], model=Planned(both))]) as before:
        run = await before.start("Front", "go")
        await before.wait(run.id, until="paused", timeout=PATIENCE)

    async with Desk(url, agents=[Agent("Front", tools=[mail], model=Planned(both))]) as desk:
        asked = {request.tool: request.id for request in await desk.pending()}
        await desk.decide(asked["mail"], "approve", by="ana")
        rested = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        await desk.decide(asked["pay"], "reject", by="ana")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert rested.status == "waiting"
    assert (ended.status, ended.final_output) == ("ended", "done")


async def test_a_question_ends_by_its_time_although_the_agent_is_gone(url: str) -> None:
    @function_tool(needs_approval=True, decide_within=60, at_deadline="reject")
    async def pay_soon(cents: int) -> str:
        return "paid"

    calls = [function_call("pay_soon", {"cents": 5}, call_id="c1")]
    clock = ManualClock()
    async with Desk(url, agents=[Agent("Front", tools=[pay_soon], model=Planned(calls))], clock=clock) as before:
        run = await before.start("Front", "go")
        await before.wait(run.id, until="paused", timeout=PATIENCE)
        [request] = await before.pending()
    clock.advance(61)

    async with Desk(url, clock=clock) as desk, asyncio.timeout(PATIENCE):
        while (await desk.request(request.id)).status == "pending":
            await desk.store.wait_for_news(await desk.store.latest_sequence(), 0.5)

        assert await desk.pending() == []


# -- on a session, in a program ---------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, url: str) -> Any:
    if request.param == "memory":
        yield MemoryStore()
        return
    where = url if request.param == "sqlite" else request.getfixturevalue("postgres").store_database()
    opened = open_store(where)
    yield opened
    await opened.close()


async def test_a_superseding_message_ends_it_and_is_answered(
    store: Any, change: Callable[..., Agent[Any]], tmp_path: Any
) -> None:
    session = SQLiteSession("1", tmp_path / "chats.db")
    waiting = await Runner.run(change(is_there=True), "pay", session=session, store=store)
    after = change(is_there=False).clone(mcp_servers=[])

    result = await Runner.run(after, "never mind", session=session, store=store, run_config=SUPERSEDE)
    items = await session.get_items()

    assert len(waiting.interruptions) == 1
    assert result.interruptions == []
    assert_paired(items)
    assert [item["content"] for item in items if item.get("role") == "user"] == ["pay", "never mind"]
    assert any("newer message" in str(item.get("output")) for item in items)
    assert await Runner.run(after, "hi", session=session, store=store) is not None


async def test_a_superseding_message_frees_the_session_although_the_server_is_away(store: Any, tmp_path: Any) -> None:
    change, session = CHANGES["a server is away"], SQLiteSession("1", tmp_path / "chats.db")
    await Runner.run(change(is_there=True), "pay", session=session, store=store)

    with pytest.raises(ToolsetUnavailable):
        await Runner.run(change(is_there=False), "never mind", session=session, store=store, run_config=SUPERSEDE)
    result = await Runner.run(Agent("Front", model=Planned()), "hi", session=session, store=store)

    assert result.final_output == "done"


@pytest.mark.parametrize("name", [*GOES_ON, "a handoff is gone"])
async def test_a_message_is_put_behind_it_and_it_is_shown(store: Any, name: str, tmp_path: Any) -> None:
    change, session = CHANGES[name], SQLiteSession("1", tmp_path / "chats.db")
    waiting = await Runner.run(change(is_there=True), "pay", session=session, store=store)

    queued = await Runner.run(change(is_there=False), "and hurry", session=session, store=store, run_config=QUEUE)

    assert queued.run_id == waiting.run_id
    assert [item.name for item in queued.interruptions] == ["pay"]


async def test_a_message_for_another_agent_is_not_put_behind_it_and_told_what_to_do(store: Any, tmp_path: Any) -> None:
    change, session = CHANGES["the agent was renamed"], SQLiteSession("1", tmp_path / "chats.db")
    waiting = await Runner.run(change(is_there=True), "pay", session=session, store=store)

    with pytest.raises(SessionBusy, match="on_pending='supersede'") as busy:
        await Runner.run(change(is_there=False), "and hurry", session=session, store=store, run_config=QUEUE)

    assert busy.value.run_id == waiting.run_id


async def test_a_cancelled_run_frees_its_session_and_the_session_gets_its_turn_where_it_can_be_opened(
    url: str, tmp_path: Any
) -> None:
    change, path = CHANGES["the agent was renamed"], tmp_path / "chats.db"
    for opens in (True, False):
        store, session = open_store(url), SQLiteSession(f"{opens}", path)
        waiting = await Runner.run(change(is_there=True), "pay", session=session, store=store)
        async with Desk(store, session_factory=(lambda name: SQLiteSession(name, path)) if opens else None) as desk:
            await desk.cancel(waiting.run_id)
            assert (await desk.wait(waiting.run_id, timeout=PATIENCE)).status == "ended"
        items = await session.get_items()
        result = await Runner.run(change(is_there=False), "hi", session=session, store=store)
        await store.close()

        assert_paired(items)
        assert len(items) == (3 if opens else 1)
        assert result.run_id != waiting.run_id
