"""P12: approving, serializing and running at the same time neither raises nor tears; checkpoints are independent."""

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from placet import Agent, RunContextWrapper, Runner, RunState, ToolApprovalItem, function_tool
from placet.testing import function_call
from tests.promises.scenes import DONE, SECONDS, cleanup, drive, refund, reloaded, scene

pytestmark = pytest.mark.promise("P12")


@pytest.fixture
def _threads_switch_all_the_time():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_switch_all_the_time")
async def test_one_thread_approves_while_another_serializes_and_every_text_is_whole():
    calls = [cleanup(f"/{n}", f"c{n}") for n in range(200)]
    ops = scene(calls, DONE)
    state = (await drive(ops.agent, "go")).to_state()
    items = state.get_interruptions()
    done = threading.Event()

    def decide() -> None:
        for item in items:
            state.approve(item)
        done.set()

    def serialize() -> list[str]:
        texts = [state.to_string()]
        while not done.is_set():
            texts.append(state.to_string())
        return [*texts, state.to_string()]

    with ThreadPoolExecutor(2) as pool:
        writing, deciding = pool.submit(serialize), pool.submit(decide)
        deciding.result(SECONDS)
        texts = writing.result(SECONDS)
    counts = [len(json.loads(text).get("staged", ())) for text in texts]
    last = await RunState.from_string(ops.agent, texts[-1])

    assert counts == sorted(counts)
    assert counts[-1] == 200
    assert all(last.context.is_tool_approved("cleanup", f"c{n}") for n in range(200))


@pytest.mark.usefixtures("_threads_switch_all_the_time")
def test_one_fork_of_a_context_reads_everything_while_the_other_decides():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper(None)
    one, other = wrapper.fork(), wrapper.fork()
    items = [ToolApprovalItem(agent, cleanup("/x", f"c{n}")) for n in range(1500)]
    done = threading.Event()

    def insert() -> None:
        for item in items:
            other.approve_tool(item)
        done.set()

    def iterate() -> list[int]:
        sizes = []
        while not done.is_set():
            sizes.append(sum(len(record.approved) for record in one.approvals.values()))
        return sizes

    with ThreadPoolExecutor(2) as pool:
        reading, writing = pool.submit(iterate), pool.submit(insert)
        writing.result(SECONDS)
        sizes = reading.result(SECONDS)

    assert sizes == sorted(sizes)
    assert len(wrapper.approvals["cleanup"].approved) == 1500


async def test_deciding_on_a_snapshot_changes_neither_the_result_nor_another_snapshot():
    ops = scene([cleanup("/a", "c1"), refund(1, "r1")], DONE)
    paused = await drive(ops.agent, "go")
    one, other = paused.to_state(), paused.to_state()
    untouched = other.to_string()

    one.approve(one.get_interruptions()[0], always_approve=True)

    assert other.to_string() == paused.to_state().to_string() == untouched
    assert other.context.is_tool_approved("cleanup", "c1") is None
    assert paused.context_wrapper.is_tool_approved("cleanup", "c1") is None
    assert one.context.is_tool_approved("cleanup", "c1") is True


async def test_a_run_never_changes_the_state_that_it_was_given():
    ops = scene([cleanup("/a", "c1")], [refund(1, "r1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    before = state.to_string()

    await drive(ops.agent, state)

    assert state.to_string() == before
    assert [item.call_id for item in state.get_interruptions()] == ["c1"]


async def test_a_copy_of_the_record_is_not_changed_by_later_decisions():
    ops = scene([cleanup("/a", "c1"), cleanup("/b", "c2")])
    state = (await drive(ops.agent, "go")).to_state()
    first, second = state.get_interruptions()
    state.approve(first)

    record = state.context.approvals
    state.reject(second)

    assert record["cleanup"].approved == ("c1",)
    assert record["cleanup"].rejected == ()


async def test_what_a_caller_does_with_the_list_of_items_changes_nothing_of_the_run():
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "the question")
    for item in paused.to_input_list():
        item.clear()
    for item in paused.interruptions:
        item.raw_item["arguments"] = '{"path": "/etc"}'
    paused.interruptions.clear()

    state = paused.to_state()
    for item in state.get_interruptions():
        state.approve(item)
    await drive(ops.agent, state)

    assert ops.effects == ["cleanup /a"]
    assert ops.model.calls[1].input[0] == {"role": "user", "content": "the question"}


async def test_two_runs_of_one_agent_at_the_same_time_do_not_see_each_other():
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c1")], DONE, DONE)
    first, second = await asyncio.gather(drive(ops.agent, "one"), drive(ops.agent, "two"))
    state, other = first.to_state(), second.to_state()

    state.approve(state.get_interruptions()[0], always_approve=True)
    other.reject(other.get_interruptions()[0])
    await asyncio.gather(drive(ops.agent, state), drive(ops.agent, other))

    assert ops.effects == ["cleanup /a"]


async def test_a_snapshot_taken_while_the_run_goes_on_stays_as_it_was():
    go_on = asyncio.Event()

    @function_tool
    async def slow() -> str:
        await go_on.wait()
        return "slow"

    ops = scene([cleanup("/a", "c1"), function_call("slow", {}, call_id="s1")], DONE, tools=(slow,))
    result = Runner.run_streamed(ops.agent, "go")
    snapshots = []

    async with asyncio.timeout(SECONDS):
        async for event in result.stream_events():
            if getattr(event, "name", "") == "tool_approval_requested":
                snapshots.append((state := result.to_state(), state.to_string()))
                go_on.set()
    ((state, text),) = snapshots
    state.approve(state.get_interruptions()[0])
    final = await drive(ops.agent, await reloaded(ops.agent, state))

    assert (await RunState.from_string(ops.agent, text)).to_string() == text
    assert len(result.to_state().to_string()) > len(text)
    assert final.final_output == "done"
    assert ops.sent(1) == [("c1", "cleaned /a"), ("s1", "slow")]
