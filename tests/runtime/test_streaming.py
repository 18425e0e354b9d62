"""Streaming: what is told, when, and what stopping leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from placet import Agent, RawEvent, Runner, RunState, UserError, function_tool
from placet.core.log import read_line
from placet.testing import ScriptedModel, reasoning
from tests.runtime.scenes import (
    PATIENCE,
    Interrupted,
    OwnStore,
    Tools,
    call,
    done,
    events_of,
    go,
    model_of,
    outputs,
    reloaded,
    scripted,
    within,
)


def told(events: list[Any]) -> list[str]:
    return [event.name if event.type == "run_item_stream_event" else event.type for event in events]


async def test_a_stream_tells_everything_in_order() -> None:
    agent = scripted([[reasoning("hm"), call("look", 1, "a"), {"type": "odd"}], done("so it is")], Tools().free())
    result = Runner.run_streamed(agent, "go")
    events = await events_of(result)

    assert told(events) == [
        "agent_updated_stream_event",
        "reasoning_item_created",
        "tool_called",
        "item_created",
        "tool_output",
        "raw_response_event",
        "raw_response_event",
        "raw_response_event",
        "message_output_created",
    ]
    assert [event.data["delta"] for event in events if event.type == "raw_response_event"] == ["so", "it", "is"]
    assert result.is_complete
    assert result.final_output == "so it is"


async def test_all_calls_that_wait_are_told_in_the_stream() -> None:
    agent = scripted(
        [[call("pay", 1, "a"), call("look", 2, "b"), call("pay", 3, "c"), call("pay", 4, "d")]],
        Tools().gated(),
        Tools().free(),
    )
    result = Runner.run_streamed(agent, "go")
    events = await events_of(result)
    asked = [event.item for event in events if told([event]) == ["tool_approval_requested"]]

    assert [item.call_id for item in asked] == ["a", "c", "d"]
    assert [item.id for item in asked] == [item.id for item in result.interruptions]


async def test_an_item_of_the_stream_can_be_decided_about() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    result = Runner.run_streamed(agent, "go")
    asked = [event.item for event in await events_of(result) if told([event]) == ["tool_approval_requested"]]
    state = await reloaded(agent, result.to_state())
    state.approve(asked[0])
    await go(agent, state, streamed=True)

    assert tools.ran == [("pay", 1)]


async def test_a_resumed_stream_tells_only_what_is_new() -> None:
    agent = scripted([[call("look", 1, "a"), call("pay", 2, "b")], done("bye")], Tools().free(), Tools().gated())
    state = (await go(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = Runner.run_streamed(agent, state)
    events = await events_of(result)

    assert told(events) == ["agent_updated_stream_event", "tool_output", "raw_response_event", "message_output_created"]
    assert len(result.new_items) == 5


async def test_streamed_or_not_the_log_is_the_same() -> None:
    logs = []
    for streamed in (False, True):
        agent = scripted([[call("look", 1, "a"), call("pay", 2, "b")], done("bye")], Tools().free(), Tools().gated())
        state = (await go(agent, "go", streamed)).to_state()
        state.approve(state.get_interruptions()[0], by="ann")
        final = (await go(agent, state, streamed)).to_state()
        facts = [fact for line in final._log.lines for fact in read_line(line).facts]
        logs.append([type(fact).__name__ for fact in facts])

    assert logs[0] == logs[1]


async def test_a_stream_that_nobody_reads_runs_all_the_same() -> None:
    finished = asyncio.Event()

    @function_tool
    async def last() -> str:
        finished.set()
        return "ok"

    agent = scripted([[call("last", None, "a")], done("a b c")], last)
    result = Runner.run_streamed(agent, "go")
    await within(finished.wait())
    events = await events_of(result)

    assert result.final_output == "a b c"
    assert len(events) == 7


async def test_a_slow_reader_makes_the_model_wait_but_loses_nothing() -> None:
    words = " ".join(str(n) for n in range(3_000))
    agent = scripted([done(words)])
    result = Runner.run_streamed(agent, "go")
    for _ in range(50):
        await asyncio.sleep(0)
    waiting = result.is_complete
    events = await events_of(result)

    assert not waiting
    assert len([event for event in events if event.type == "raw_response_event"]) == 3_000
    assert result.final_output == words


async def test_a_reader_that_stops_reading_can_cancel_a_run_that_waits_for_it() -> None:
    agent = scripted([done(" ".join("x" * 3_000))])
    result = Runner.run_streamed(agent, "go")
    async for _ in result.stream_events():
        break
    result.cancel()
    await events_of(result)

    assert result.is_complete


async def test_a_reader_that_leaves_and_comes_back_reads_on_where_it_left() -> None:
    words = [str(number) for number in range(3000)]
    result = Runner.run_streamed(scripted([done(" ".join(words))]), "go")
    read: list[str] = []

    async with asyncio.timeout(PATIENCE):
        while not result.is_complete or len(read) < len(words):
            async with contextlib.aclosing(result.stream_events()) as events:
                async for event in events:
                    if event.type == "raw_response_event":
                        read.append(event.data["delta"])
                        if len(read) % 700 == 0:
                            break

    assert read == words


async def test_an_event_is_read_before_the_next_one_comes() -> None:
    """Nothing is held back in order to be handed over together with more."""
    was_read = asyncio.Event()

    class OneByOne(ScriptedModel):
        async def stream_response(self, request: Any) -> Any:
            for number in range(20):
                yield RawEvent({"delta": number})
                await within(was_read.wait())
                was_read.clear()
            yield await self.get_response(request)

    result = Runner.run_streamed(Agent("Clerk", model=OneByOne([done()])), "go")
    read = []
    async with asyncio.timeout(PATIENCE):
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                read.append(event.data["delta"])
                was_read.set()

    assert read == list(range(20))


async def test_an_error_of_the_run_is_raised_to_the_reader_after_what_happened_before() -> None:
    agent = scripted([[call("look", 1, "a")], ConnectionError("no line")], Tools().free())
    result = Runner.run_streamed(agent, "go")
    seen: list[Any] = []

    async def read() -> None:
        async for event in result.stream_events():
            seen.append(event)  # noqa: PERF401  # what was seen before the error counts

    with pytest.raises(ConnectionError):
        await within(read())

    assert told(seen) == ["agent_updated_stream_event", "tool_called", "tool_output"]
    assert isinstance(result.to_state(), RunState)


async def test_an_error_before_the_drive_is_raised_to_the_reader_too() -> None:
    agent = scripted([[call("pay", 1, "a")]], Tools().gated())
    state = (await go(agent, "go")).to_state()
    result = Runner.run_streamed(scripted([], name="Other"), state)
    with pytest.raises(UserError, match="Clerk"):
        await events_of(result)


# -- stopping ----------------------------------------------------------------------------------------------------------


async def test_cancelling_at_once_while_the_model_answers_can_be_resumed() -> None:
    asked = asyncio.Event()

    class Slow(ScriptedModel):
        async def get_response(self, request: Any) -> Any:
            if not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            return await super().get_response(request)

    agent = scripted([])
    agent.model = Slow([done()])
    result = Runner.run_streamed(agent, "go")
    await within(asked.wait())
    result.cancel()
    await events_of(result)

    assert result.is_complete
    assert result.final_output is None
    assert (await go(agent, await reloaded(agent, result.to_state()))).final_output == "done"


async def test_cancelling_before_anything_happened_ends_the_stream() -> None:
    agent = scripted([done()])
    result = Runner.run_streamed(agent, "go")
    result.cancel()
    events = await events_of(result)

    assert events == []
    assert result.is_complete
    assert model_of(agent).calls == []


async def test_cancelling_twice_and_after_the_end_is_harmless() -> None:
    scene = Interrupted()
    result = Runner.run_streamed(scene.agent, "go")
    await within(scene.started.wait())
    result.cancel()
    result.cancel()
    await events_of(result)
    result.cancel()
    result.cancel(mode="after_turn")

    assert [item.kind for item in result.interruptions] == ["in_doubt"]


async def test_a_cancelled_plain_function_is_in_doubt_although_its_thread_goes_on() -> None:
    entered, release, finished = threading.Event(), threading.Event(), threading.Event()

    @function_tool
    def work() -> str:
        entered.set()
        release.wait(5)
        finished.set()
        return "ok"

    agent = scripted([[call("work", None, "a")], done()], work)
    result = Runner.run_streamed(agent, "go")
    assert await asyncio.to_thread(entered.wait, PATIENCE)
    result.cancel()
    await events_of(result)
    release.set()
    assert await asyncio.to_thread(finished.wait, PATIENCE)

    assert [item.kind for item in result.interruptions] == ["in_doubt"]


async def test_cancelling_leaves_what_has_ended_and_what_waits_as_it_is() -> None:
    scene = Interrupted()
    tools = Tools()
    agent = scripted(
        [[call("look", 1, "a"), call("pay", 7, "c1"), call("send", 3, "b")], done()],
        tools.free(),
        scene.tool,
        tools.gated("send"),
    )
    result = Runner.run_streamed(agent, "go")
    async for event in result.stream_events():
        if told([event]) == ["tool_output"]:
            await within(scene.started.wait())
            result.cancel()
    state = await reloaded(agent, result.to_state())
    kinds = {item.call_id: item.kind for item in state.get_interruptions()}
    state.respond("c1", "it happened")
    state.approve("b")
    await go(agent, state)

    assert kinds == {"c1": "in_doubt", "b": "approval"}
    assert outputs(agent) == ["look 1", "it happened", "send 3"]
    assert tools.ran == [("look", 1), ("send", 3)]


async def test_cancelling_after_the_turn_lets_the_turn_come_to_its_end() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    @function_tool
    async def work() -> str:
        entered.set()
        await release.wait()
        return "worked"

    agent = scripted([[call("work", None, "a")], done()], work)
    result = Runner.run_streamed(agent, "go")
    await within(entered.wait())
    result.cancel(mode="after_turn")
    release.set()
    events = await events_of(result)

    assert told(events)[-1] == "tool_output"
    assert result.final_output is None
    assert result.interruptions == []
    assert len(model_of(agent).calls) == 1
    final = await go(agent, await reloaded(agent, result.to_state()), streamed=True)
    assert final.final_output == "done"
    assert outputs(agent) == ["worked"]


async def test_cancelling_after_the_turn_before_the_first_turn_asks_no_model() -> None:
    agent = scripted([done()])
    result = Runner.run_streamed(agent, "go")
    result.cancel(mode="after_turn")
    await events_of(result)

    assert model_of(agent).calls == []
    assert (await go(agent, result.to_state())).final_output == "done"


async def test_cancelling_after_the_turn_keeps_what_waits() -> None:
    agent = scripted([[call("pay", 1, "a")], done()], Tools().gated())
    result = Runner.run_streamed(agent, "go")
    async for event in result.stream_events():
        if told([event]) == ["tool_called"]:
            result.cancel(mode="after_turn")

    assert len(result.interruptions) == 1


async def test_another_mode_of_cancelling_is_refused() -> None:
    result = Runner.run_streamed(scripted([done()]), "go")
    with pytest.raises(UserError, match="gently"):
        result.cancel(mode="gently")  # type: ignore[arg-type]
    await events_of(result)


async def test_a_cancelled_reader_does_not_cancel_the_run() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    @function_tool
    async def work() -> str:
        entered.set()
        await release.wait()
        return "worked"

    agent = scripted([[call("work", None, "a")], done()], work)
    result = Runner.run_streamed(agent, "go")
    reader = asyncio.ensure_future(events_of(result))
    await within(entered.wait())
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    release.set()
    await events_of(result)

    assert result.final_output == "done"


async def test_a_cancelled_task_that_runs_without_a_stream_leaves_a_run_that_can_be_resumed() -> None:
    scene = Interrupted()
    store = OwnStore()
    state: RunState[Any] = RunState(None, "go", scene.agent)
    task = asyncio.ensure_future(Runner.run(scene.agent, state, store=store))
    await within(scene.started.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(task)
    result = await go(scene.agent, state, store=store)

    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert scene.seen == [7]


# -- snapshots on the way ----------------------------------------------------------------------------------------------


async def test_a_snapshot_taken_on_the_way_does_not_change_when_the_run_goes_on() -> None:
    agent = scripted([[call("look", 1, "a")], [call("pay", 2, "b")], done()], Tools().free(), Tools().gated())
    result = Runner.run_streamed(agent, "go")
    snapshots: list[tuple[RunState[Any], str]] = []
    async for _ in result.stream_events():
        state = result.to_state()
        snapshots.append((state, state.to_string()))

    assert all(state.to_string() == text for state, text in snapshots)
    assert len({text for _, text in snapshots}) > 1


async def test_every_snapshot_taken_on_the_way_can_be_loaded_and_gone_on_from() -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a")], [call("pay", 2, "b")]], tools.free(), tools.gated())
    result = Runner.run_streamed(agent, "go")
    texts: list[str] = []
    async for _ in result.stream_events():
        texts.append(result.to_state().to_string())  # noqa: PERF401
    for text in texts:
        again = await go(agent, await RunState.from_string(agent, text))
        assert [item.call_id for item in again.interruptions] == ["b"]

    assert tools.ran == [("look", 1)]
    assert len(model_of(agent).calls) == 2


async def test_a_decision_made_on_the_running_context_counts_while_siblings_work() -> None:
    tools = Tools()
    release = asyncio.Event()

    @function_tool
    async def slow() -> str:
        await release.wait()
        return "slow"

    agent = scripted([[call("slow", None, "s"), call("pay", 1, "a")], done()], slow, tools.gated())
    result = Runner.run_streamed(agent, "go")
    async for event in result.stream_events():
        if told([event]) == ["tool_approval_requested"]:
            result.context_wrapper.approve_tool(event.item, by="ann")
            release.set()

    assert result.final_output == "done"
    assert tools.ran == [("pay", 1)]
