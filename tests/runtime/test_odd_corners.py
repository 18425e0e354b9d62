"""Odd corners: results that never end, errors in process pools, copies of states, dropped streams, `sys.exit()`."""

from __future__ import annotations

import concurrent.futures
import copy
import itertools
import pickle
import subprocess
import sys
from typing import Any

import pytest

from placet import (
    Agent,
    Grant,
    MaxTurnsExceeded,
    MemoryStore,
    Runner,
    RunState,
    ToolError,
    function_tool,
)
from placet.desk import Desk
from placet.facts import errors
from placet.stores import memory
from placet.testing import ScriptedModel, assistant_message, function_call
from tests.desk.scenes import PATIENCE, Planned

DONE = [assistant_message("done")]


def agent_with(tool: Any, *steps: Any, **options: Any) -> Agent[Any]:
    steps = steps or ([function_call(tool.name, {}, call_id="c1")], DONE)
    return Agent(name="A", tools=[tool], model=ScriptedModel(list(steps)), **options)


def outputs(result: Any) -> list[Any]:
    return [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]


# -- results that go on -----------------------------------------------------------------------------------------------


async def test_a_generator_that_ends_is_read():
    @function_tool
    def numbers() -> Any:
        return {"found": (n for n in range(3)), "more": [iter("ab")]}

    result = await Runner.run(agent_with(numbers), "hi")

    assert outputs(result) == ['{"found":[0,1,2],"more":[["a","b"]]}']


@pytest.mark.parametrize("deep", [False, True])
async def test_a_generator_that_never_ends_is_read_as_far_as_an_output_may_go(deep):
    read = 0

    @function_tool
    def numbers() -> Any:
        def forever() -> Any:
            nonlocal read
            for read in itertools.count():  # noqa: B007  # how far it was read is looked at below
                yield "0123456789"

        return {"found": [forever()]} if deep else forever()

    result = await Runner.run(agent_with(numbers), "hi")

    assert "larger than the limit" in outputs(result)[0]
    assert read < 4_000_000 / 10


# -- errors and states that travel ------------------------------------------------------------------------------------


def _fails_in_a_process(_: int) -> str:
    @function_tool
    def again() -> str:
        return "again"

    steps = [[function_call("again", {}, call_id=f"c{n}")] for n in range(5)]
    return str(Runner.run_sync(agent_with(again, *steps), "hi", max_turns=2, context={"user": "ana"}).final_output)


def test_a_process_pool_shows_what_went_wrong_with_the_state():
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        error = pool.submit(_fails_in_a_process, 0).exception(timeout=120)

    assert isinstance(error, MaxTurnsExceeded)
    assert isinstance(error.state, RunState)
    assert error.state._run.turn == 2


def _every_error() -> list[type[errors.PlacetError]]:
    found, queue = [], [errors.PlacetError]
    while queue:
        kind = queue.pop()
        found.append(kind)
        queue += kind.__subclasses__()
    return [kind for kind in found if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", _every_error(), ids=lambda kind: kind.__name__)
async def test_every_error_can_be_pickled_and_copied(kind):
    state = (await paused())[1]
    error = kind("what went wrong")
    error.state = state

    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301  # our own
        assert (type(twin), str(twin), twin.message) == (kind, "what went wrong", "what went wrong")
        assert twin.state.run_id == state.run_id


async def paused(**options: Any) -> tuple[Agent[Any], RunState[Any], list[str]]:
    effects: list[str] = []

    @function_tool(needs_approval=True)
    def pay() -> str:
        effects.append("paid")
        return "paid"

    agent = agent_with(pay)
    return agent, (await Runner.run(agent, "hi", **options)).to_state(), effects


def pickled(state: RunState[Any]) -> Any:
    return pickle.loads(pickle.dumps(state))  # noqa: S301  # our own


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
async def test_a_copy_of_a_state_is_an_independent_snapshot(duplicate):
    agent, state, effects = await paused(context={"user": "ana"})
    state.add_input("quick")
    twin = duplicate(state)
    state.reject("c1")
    later = duplicate(state)

    assert [item.name for item in twin.get_interruptions()] == ["pay"]
    assert (twin.context.is_tool_approved("pay", "c1"), later.context.is_tool_approved("pay", "c1")) == (None, False)
    assert twin.context.context == {"user": "ana"}
    assert [item["content"] for item in twin.pending_input] == ["quick"]
    twin.approve("c1")
    result = await Runner.run(agent, twin)
    assert (result.final_output, effects) == ("done", ["paid"])
    assert state.context.is_tool_approved("pay", "c1") is False


async def test_a_state_with_a_lock_in_its_context_is_copied_with_the_same_object_and_pickled_without():
    import threading

    lock = threading.Lock()
    _, state, _ = await paused(context=lock)

    assert copy.deepcopy(state).context.context is lock
    assert pickle.loads(pickle.dumps(state)).run_id == state.run_id  # noqa: S301  # our own


async def test_a_state_made_by_hand_is_copied_with_its_decisions():
    from placet import RunContextWrapper, ToolApprovalItem

    agent = agent_with(function_tool(lambda: "x", name_override="pay"))
    state = RunState(RunContextWrapper(None), "hi", agent)
    item = ToolApprovalItem(agent, {"type": "function_call", "name": "pay", "call_id": "c9", "arguments": "{}"})
    state.approve(item)

    for twin in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):  # noqa: S301  # our own
        assert twin.context.is_tool_approved("pay", "c9") is True


# -- streams that nobody reads ----------------------------------------------------------------------------------------


_DROPPED = """
import asyncio, gc, sys
from placet import Agent, Runner, function_tool
from placet.ports import RawEvent
from placet.testing import ScriptedModel, assistant_message, function_call

ended = asyncio.Event()

class Chatty(ScriptedModel):
    async def stream_response(self, request):
        for _ in range(5000):
            yield RawEvent({"type": "delta", "delta": "x" * 1000})
        await asyncio.sleep(0)
        yield await self.get_response(request)

@function_tool
async def look() -> str:
    ended.set()
    return "seen"

async def main():
    steps = [[function_call("look", {}, call_id="c1")], [assistant_message("done")]]
    result = Runner.run_streamed(Agent(name="A", tools=[look], model=Chatty(steps)), "hi")
    for _ in range(int(sys.argv[1])):
        await asyncio.sleep(0)
    del result
    gc.collect()
    if sys.argv[2] == "wait":
        await asyncio.wait_for(ended.wait(), 120)
    gc.collect()

asyncio.run(main(), debug=True)
print("over")
"""


@pytest.mark.parametrize("steps", ["0", "1", "20"])
@pytest.mark.parametrize("then", ["wait", "leave"])
def test_a_stream_that_is_dropped_unread_says_nothing_and_its_run_goes_on(steps, then):
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-X", "dev", "-c", _DROPPED, steps, then],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("over\n", 0)
    assert "Exception ignored" not in done.stderr
    assert "never" not in done.stderr


# -- grants that are used up ------------------------------------------------------------------------------------------


async def test_the_store_in_memory_forgets_grants_that_are_used_up(monkeypatch):
    monkeypatch.setattr(memory, "MAX_USED_UP", 3)
    store = MemoryStore()

    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    for _ in range(6):
        calls = [function_call("pay", {}, call_id="c1"), function_call("pay", {}, call_id="c2")]
        agent = agent_with(pay, calls, DONE)
        state = (await Runner.run(agent, "hi", store=store)).to_state()
        for item in state.get_interruptions()[:1]:
            state.approve(item, always_approve=Grant(scope="agent", uses=1))
        await Runner.run(agent, state, store=store)

    assert len(store._grants) <= 4
    assert len(store._grant_uses) <= 4


# -- code that wants the process to end -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_that_calls_sys_exit_has_failed(is_async):
    async def leave_async() -> str:
        sys.exit(3)

    def leave() -> str:
        sys.exit(3)

    tool = function_tool(name_override="leave")(leave_async if is_async else leave)

    result = await Runner.run(agent_with(tool), "hi")

    assert result.final_output == "done"
    assert "sys.exit(3)" in outputs(result)[0]


async def test_a_tool_that_calls_sys_exit_and_wants_errors_raised_raises_a_tool_error():
    @function_tool(failure_error_function=None)
    def leave() -> str:
        sys.exit("bye")

    with pytest.raises(ToolError, match=r"sys\.exit") as failed:
        await Runner.run(agent_with(leave), "hi")

    assert isinstance(failed.value.__cause__, SystemExit)


async def test_a_rule_that_calls_sys_exit_asks_a_person():
    def rule(*_: Any) -> bool:
        sys.exit(1)

    @function_tool(needs_approval=rule)
    def pay() -> str:
        return "paid"

    assert len((await Runner.run(agent_with(pay), "hi")).interruptions) == 1


def test_an_interrupt_in_the_middle_of_a_tool_leaves_its_call_in_doubt():
    @function_tool
    async def pay() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        Runner.run_sync(agent_with(pay), "hi")

    assert [item.kind for item in stopped.value.state.get_interruptions()] == ["in_doubt"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("raises", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["tool", "instructions"])
async def test_no_code_of_a_run_ends_the_desk(tmp_path, raises, where):
    @function_tool
    async def leave() -> str:
        raise raises

    def prompt(*_: Any) -> str:
        raise raises

    calls = [function_call("leave", {}, call_id="c1")]
    bad = Agent("Bad", tools=[leave], model=Planned(calls), instructions=prompt if where == "instructions" else None)
    good = Agent("Good", model=Planned())
    async with Desk(f"sqlite:///{tmp_path / 'p.db'}", agents=[bad, good]) as desk:
        first = await desk.start("Bad", "go")
        rested = await desk.wait(first.id, until="paused", timeout=PATIENCE)
        second = await desk.start("Good", "go")
        ended = await desk.wait(second.id, timeout=PATIENCE)

    assert (ended.status, ended.final_output) == ("ended", "done")
    if where == "instructions":
        assert raises.__name__ in (rested.stopped or "")
    elif raises is SystemExit:
        assert rested.final_output == "done"
    else:
        assert rested.stopped or rested.status == "waiting"
