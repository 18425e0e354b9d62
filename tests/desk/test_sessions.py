"""Runs that were begun with a session and are gone on with by a desk."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import Agent, Runner, SQLiteSession, function_tool
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
        run = await desk.wait(paused.run_id, until="paused", timeout=20)

    items = await SQLiteSession("chat", chats).get_items()
    if opens_sessions:
        assert (run.status, len(items)) == ("ended", 4)
    else:
        assert run.stopped is not None
        assert "session_factory" in run.stopped
