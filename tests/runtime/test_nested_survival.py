"""Nested runs under crashes and cancellation: nothing is lost, nothing happens twice, every doubt can be ended."""

from __future__ import annotations

import asyncio

import pytest

from placet import Agent, MemoryStore, RunConflict, Runner, RunState, function_tool
from placet.testing import Crash, CrashingStore
from tests.runtime.team_scenes import (
    SECONDS,
    Planned,
    Traces,
    ask,
    call,
    done,
    facts,
    go,
    outputs,
    reloaded,
    scripted,
    sent,
)
from tests.runtime.teams import EFFECTS, team

pytestmark = pytest.mark.promise("P4", "P13")


def settle(state: RunState, ran: list[str]) -> None:
    """Approve what waits; of a doubt, say what really happened."""
    for item in state.get_interruptions():
        effect = f"pay {item.arguments[6:-1]}"
        if item.kind == "in_doubt" and effect in ran:
            state.respond(item, f"{effect} done")
        else:
            state.approve(item)


async def story(store, traces, *, streamed=False) -> tuple[str, int]:
    """The whole story of the team, going on from the error's state after each crash. Its end, and how many crashes."""
    given, crashes = "go", 0
    for _ in range(30):
        boss = team(traces).boss
        try:
            paused = await go(boss, given, store=store, streamed=streamed)
        except Crash as crash:
            crashes += 1
            given = await reloaded(boss, crash.state)
            continue
        if not paused.interruptions:
            return paused.final_output, crashes
        given = await reloaded(boss, paused)
        settle(given, traces.ran)
    raise AssertionError("the story does not come to its end")


async def appends_of_the_whole_story() -> int:
    store = CrashingStore(MemoryStore())
    await story(store, Traces())
    return store.appends


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_any_append_of_the_story_loses_nothing_and_repeats_nothing(when, streamed):
    last = await appends_of_the_whole_story()
    for number in range(1, last + 1):
        traces, store = Traces(), CrashingStore(MemoryStore())
        store.crash_at(number, when)

        end, crashes = await story(store, traces, streamed=streamed)

        assert (end, crashes) == ("go: done", 1), f"append {number}"
        assert sorted(traces.ran) == EFFECTS, f"append {number}"


async def test_after_a_crash_the_last_text_of_a_reviewer_is_enough_to_go_on():
    for number in range(1, 16):
        traces, inner = Traces(), MemoryStore()
        paused = await go(team(traces).boss, "go", store=inner)
        state = paused.to_state()
        settle(state, traces.ran)
        text, store = state.to_string(), CrashingStore(inner)
        store.crash_at(number, "after")
        with pytest.raises(Crash):
            await go(team(traces).boss, await RunState.from_string(team(traces).boss, text), store=store)

        given = await RunState.from_string(team(traces).boss, text)
        for _ in range(10):
            result = await go(team(traces).boss, given, store=store)
            if not result.interruptions:
                break
            given = result.to_state()
            settle(given, traces.ran)

        assert result.final_output == "go: done", f"append {number}"
        assert sorted(traces.ran) == EFFECTS, f"append {number}"


class Interrupted:
    """A boss whose child's `pay` has begun and does not end: until it is asked for the second time."""

    def __init__(self, **options):
        self.ran: list[int] = []
        self.began = asyncio.Event()

        @function_tool(**options)
        async def pay(n: int) -> str:
            self.ran.append(n)
            self.began.set()
            if len(self.ran) == 1:
                await asyncio.Event().wait()
            return f"paid {n}"

        self.kid = scripted("Kid", [[call("pay", 7, "c1")], done("kid done")], pay)
        self.boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], self.kid.as_tool())

    async def cut(self) -> RunState:
        result = Runner.run_streamed(self.boss, "go")
        await asyncio.wait_for(self.began.wait(), SECONDS)
        result.cancel()
        async with asyncio.timeout(SECONDS):
            async for _ in result.stream_events():
                pass
        return await reloaded(self.boss, result.to_state())


@pytest.mark.parametrize(
    ("word", "reads", "runs"),
    [("approve", "paid 7", 2), ("respond", "it was paid", 1), ("reject", "It is unknown", 1)],
)
async def test_a_nested_call_that_was_cancelled_while_it_ran_is_in_doubt_and_can_be_ended(word, reads, runs):
    cut = Interrupted()
    state = await cut.cut()
    (item,) = state.get_interruptions()
    state.respond(item, reads) if word == "respond" else getattr(state, word)(item)

    result = await go(cut.boss, state)

    assert (item.kind, item.name, item.agent_path) == ("in_doubt", "pay", "Boss/kid(Kid)")
    assert result.final_output == "done"
    assert len(cut.ran) == runs
    assert outputs(sent(cut.kid))[0][1].startswith(reads)


async def test_a_nested_call_that_may_be_repeated_is_repeated_without_a_question():
    cut = Interrupted(recovery="retry")

    result = await go(cut.boss, await cut.cut())

    assert result.final_output == "done"
    assert cut.ran == [7, 7]


async def test_cancelling_while_a_nested_model_is_asked_leaves_a_child_that_goes_on():
    asked = asyncio.Event()

    class Slow(Planned):
        async def get_response(self, request):
            if not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            return await super().get_response(request)

    kid = Agent("Kid", model=Slow({}))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())
    result = Runner.run_streamed(boss, "go")
    await asyncio.wait_for(asked.wait(), SECONDS)
    result.cancel()
    async with asyncio.timeout(SECONDS):
        async for _ in result.stream_events():
            pass

    ended = await go(boss, await reloaded(boss, result.to_state()))

    assert ended.final_output == "done"
    assert outputs(sent(boss)) == [("k1", "x: done")]


async def test_stopping_after_the_turn_lets_the_nested_runs_of_the_turn_come_to_their_end():
    traces = Traces()
    kid = scripted("Kid", [[call("look", 1)], done("kid done")], traces.tool("look"))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())
    result = Runner.run_streamed(boss, "go")
    async with asyncio.timeout(SECONDS):
        async for event in result.stream_events():
            if getattr(event, "name", "") == "tool_called":
                result.cancel("after_turn")

    ended = await go(boss, result.to_state())

    assert ["end", "1.0", "finished", "kid done"] in facts(result)
    assert result.final_output is None
    assert ended.final_output == "done"


async def test_somebody_who_resumes_while_a_nested_body_runs_is_told_at_once():
    began, may_end = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        began.set()
        await asyncio.wait_for(may_end.wait(), SECONDS)
        return "ok"

    traces = Traces()
    kid = scripted("Kid", [[call("pay", 1)], [call("slow")], done()], slow, traces.gated())
    boss = scripted("Boss", [[ask("kid", "x")], done()], kid.as_tool())
    state = (await go(boss, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    driving = asyncio.ensure_future(go(boss, state))
    await asyncio.wait_for(began.wait(), SECONDS)

    with pytest.raises(RunConflict):
        await go(boss, await reloaded(boss, state))
    may_end.set()

    assert (await driving).final_output == "done"
    assert traces.ran == ["pay 1"]
