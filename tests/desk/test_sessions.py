"""Runs that were begun with a session and are gone on with by a desk."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import Agent, Runner, SQLiteSession, UserError, function_tool
from placet.desk import Desk
from placet.stores.opening import open_store
from placet.testing import ScriptedModel, assistant_message, function_call


def support() -> Agent[None]:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return f"refunded {order}"

    script = [[function_call("refund", {"order": "7"}, call_id="c1")], [assistant_message("done")]]
    return Agent(name="Support", tools=[refund], model=ScriptedModel(script))


@pytest.mark.parametrize("opens_sessions", [True, False])
async def test_a_run_with_a_session_is_gone_on_with_by_a_desk_that_can_open_it(
    tmp_path: Path, opens_sessions: bool
) -> None:
    url, chats = f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "chats.db"
    agent = support()
    store = open_store(url)
    paused = await Runner.run(agent, "refund order 7", store=store, session=SQLiteSession("chat", chats))
    await store.close()

    factory = (lambda name: SQLiteSession(name, chats)) if opens_sessions else None
    async with Desk(url, agents=[agent], session_factory=factory) as desk:
        [request] = await desk.pending(run_id=paused.run_id)
        await desk.decide(request.id, "approve", by="ana")
        run = await desk.wait(paused.run_id, until="paused", timeout=120)

    items = await SQLiteSession("chat", chats).get_items()
    if opens_sessions:
        assert (run.status, len(items)) == ("ended", 4)
    else:
        assert run.stopped is not None
        assert "session_factory" in run.stopped


async def test_a_question_of_a_nested_run_is_closed_when_the_run_around_it_is_cancelled(tmp_path: Path) -> None:
    inner = support()
    script = [[function_call("ask", {"input": "refund order 7"}, call_id="c1")]]
    outer = Agent(name="Boss", tools=[inner.as_tool("ask")], model=ScriptedModel(script))
    async with Desk(f"sqlite:///{tmp_path / 'runs.db'}", agents=[outer]) as desk:
        run = await desk.start("Boss", "go")
        await desk.wait(run.id, until="paused", timeout=120)
        [request] = await desk.pending()
        await desk.cancel(run.id)
        await desk.wait(run.id, timeout=120)

        assert await desk.pending() == []
        assert (await desk.request(request.id)).status == "closed"


async def test_a_row_that_is_no_decision_does_not_take_the_others_along(tmp_path: Path) -> None:
    async with Desk(f"sqlite:///{tmp_path / 'runs.db'}", agents=[support()]) as desk:
        run = await desk.start("Support", "go")
        await desk.wait(run.id, until="paused", timeout=120)
        [request] = await desk.pending()
        fine = {"request_id": request.id, "verdict": "approve"}

        first, second, third = await desk.decide_many([fine, {**fine, "foo": 1}, 7])  # type: ignore[list-item]

    assert getattr(first, "status", None) == "approved"
    assert [type(second), type(third)] == [UserError, UserError]
