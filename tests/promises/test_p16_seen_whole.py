"""P16, in results, states and streams: the reviewer sees all that waits, and exactly what will run."""

import asyncio
import json

import pytest

from placet import Runner, function_tool
from placet.testing import function_call
from tests.promises.scenes import DONE, SECONDS, approve_all, cleanup, diagnose, drive, refund, reloaded, scene

pytestmark = pytest.mark.promise("P16")

THREE_PENDING = [cleanup("/a", "c1"), refund(1, "r1"), diagnose("d1"), cleanup("/b", "c2")]


async def requests_in(result):
    """All that the stream says is waiting."""
    async with asyncio.timeout(SECONDS):
        events = [event async for event in result.stream_events() if event.type == "run_item_stream_event"]
    return [event.item for event in events if event.name == "tool_approval_requested"]


async def test_three_pending_calls_of_one_streamed_turn_are_all_seen_in_the_stream():
    ops = scene(THREE_PENDING, DONE)
    result = Runner.run_streamed(ops.agent, "go")

    seen = await requests_in(result)

    assert [item.call_id for item in seen] == ["c1", "r1", "c2"]
    assert [item.id for item in seen] == [item.id for item in result.interruptions]
    assert [item.digest for item in seen] == [item.digest for item in result.interruptions]


async def test_what_waits_is_seen_in_the_stream_while_a_free_sibling_still_runs():
    go_on = asyncio.Event()

    @function_tool
    async def slow() -> str:
        await go_on.wait()
        return "slow"

    ops = scene([*THREE_PENDING, function_call("slow", {}, call_id="s1")], DONE, tools=(slow,))
    result = Runner.run_streamed(ops.agent, "go")

    seen = []
    async with asyncio.timeout(SECONDS):  # the sibling ends only after all three were seen
        async for event in result.stream_events():
            if getattr(event, "name", "") == "tool_approval_requested":
                seen.append(event.item.call_id)
                if len(seen) == 3:
                    waiting = [item.call_id for item in result.to_state().get_interruptions()]
                    go_on.set()

    assert seen == waiting == ["c1", "r1", "c2"]


async def test_items_seen_in_the_stream_can_be_decided():
    ops = scene(THREE_PENDING, DONE)
    result = Runner.run_streamed(ops.agent, "go")
    items = await requests_in(result)
    state = await reloaded(ops.agent, result)
    for item in items:
        state.approve(item)

    final = await drive(ops.agent, state)

    assert final.final_output == "done"
    assert ops.effects == ["diagnose", "cleanup /a", "refund 1", "cleanup /b"]


async def test_result_state_and_loaded_state_show_the_same():
    ops = scene(THREE_PENDING)
    paused = await drive(ops.agent, "go")
    state, loaded = paused.to_state(), await reloaded(ops.agent, paused)

    def card(item):
        return (
            item.id,
            item.request_id,
            item.digest,
            item.name,
            item.arguments,
            item.call_id,
            item.kind,
            item.agent_path,
        )

    shown = [
        [card(item) for item in held]
        for held in (paused.interruptions, state.get_interruptions(), loaded.get_interruptions())
    ]

    assert shown[0] == shown[1] == shown[2]
    assert len({each[0] for each in shown[0]}) == 3


async def test_what_is_shown_is_what_runs_to_the_letter():
    ran = []

    @function_tool(needs_approval=True)
    async def mail(to: list[str], body: str, urgent: bool = False) -> str:
        ran.append({"to": to, "body": body, "urgent": urgent})
        return "sent"

    given = {"to": ["a@x", "ü@y"], "body": 'line 1\nline "2" \u2028 </script>', "urgent": True}
    ops = scene([function_call("mail", given, call_id="m1")], DONE, tools=(mail,))
    paused = await drive(ops.agent, "go")

    await approve_all(ops.agent, paused)

    assert [json.loads(item.arguments) for item in paused.interruptions] == [given] == ran


async def test_malformed_arguments_are_shown_as_the_text_they_are_and_do_not_run():
    ops = scene([function_call("cleanup", "{not json", call_id="c1")], DONE)
    paused = await drive(ops.agent, "go")

    await approve_all(ops.agent, paused)

    assert [item.arguments for item in paused.interruptions] == ["{not json"]
    assert ops.effects == []
    assert "not one JSON object" in ops.sent(1)[0][1]


async def test_after_a_partial_decision_the_rest_is_shown_and_nothing_else():
    ops = scene(THREE_PENDING)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[1])

    halfway = await drive(ops.agent, state, streamed=True)

    assert [item.call_id for item in halfway.interruptions] == ["c1", "c2"]


async def test_a_hundred_pending_calls_are_all_shown():
    ops = scene([cleanup(f"/{n}", f"c{n}") for n in range(100)])

    paused = await drive(ops.agent, "go", streamed=True)

    assert [item.call_id for item in paused.interruptions] == [f"c{n}" for n in range(100)]
