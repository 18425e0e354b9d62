"""The report: one reads the ledger while another records in it, and the run dies with «dictionary changed size».

Here nothing raises, nothing tears, and every decision is there at the end: with the objects that users hold, from tasks
and from threads, and (where luck is not enough) between any two steps of a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from placet import Agent, RunContextWrapper, Runner, RunState, ToolApprovalItem, ToolContext, function_tool
from placet.core.approvals import Entry, Ledger
from placet.facts.events import DecisionMade
from placet.testing import function_call
from tests.promises.scenes import DONE, SECONDS, cleanup, drive, reloaded, scene

pytestmark = pytest.mark.promise("P12")


@pytest.fixture
def _threads_switch_all_the_time():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


hammered = pytest.mark.usefixtures("_threads_switch_all_the_time")


def verdict(number: int) -> bool:
    """What the deciders say of a call, in all tests of this file."""
    return number % 3 != 0


class Watch:
    """Remembers what a reader saw of each call, and complains when a decided one becomes undecided or otherwise."""

    def __init__(self) -> None:
        self.last: dict[int, bool | None] = {}
        self.reads = 0
        self.torn: list[tuple[int, bool | None, bool | None]] = []

    def look(self, wrapper: RunContextWrapper[Any], number: int) -> None:
        found, before = wrapper.is_tool_approved("cleanup", f"c{number}"), self.last.get(number)
        if before is not None and found is not before:
            self.torn.append((number, before, found))
        self.last[number] = found
        self.reads += 1


# -- a run on its way --------------------------------------------------------------------------------------------------

CALLS = 240
DECIDERS = 4


class Hammer:
    """Tools of one run that read, decide, fork and serialize it, two of each kind in tasks and two in threads."""

    def __init__(self) -> None:
        self.deciding = DECIDERS
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.watches: list[Watch] = []
        self.calls = [
            *(cleanup(f"/{n}", f"c{n}") for n in range(CALLS)),
            *(function_call("read_in_a_task", {}, call_id=f"rt{n}") for n in range(2)),
            *(function_call("read_in_a_thread", {}, call_id=f"rh{n}") for n in range(2)),
            *(function_call("decide_in_a_task", {"first": n}, call_id=f"dt{n}") for n in (0, 1)),
            *(function_call("decide_in_a_thread", {"first": n}, call_id=f"dh{n}") for n in (2, 3)),
        ]
        self.tools = tuple(
            map(
                function_tool,
                (self.read_in_a_task, self.read_in_a_thread, self.decide_in_a_task, self.decide_in_a_thread),
            )
        )

    def decide(self, ctx: ToolContext[Any], number: int) -> None:
        fork = ctx.fork()
        if verdict(number):
            fork.approve_tool(f"c{number}")
        else:
            fork.reject_tool(f"c{number}", rejection_message=f"no {number}")

    def decider_is_done(self) -> str:
        with self.lock:
            self.deciding -= 1
            if not self.deciding:
                self.over.set()
        return "decided"

    def look_around(self, ctx: ToolContext[Any], watch: Watch) -> None:
        for number in random.Random(watch.reads).sample(range(CALLS), 60):
            watch.look(ctx, number)
        for record in ctx.fork().approvals.values():
            assert len(record.approved) + len(record.rejected) <= CALLS

    def new_watch(self) -> Watch:
        self.watches.append(watch := Watch())
        return watch

    async def decide_in_a_task(self, ctx: ToolContext[Any], first: int) -> str:
        for number in range(first, CALLS, DECIDERS):
            self.decide(ctx, number)
            await asyncio.sleep(0)
        return self.decider_is_done()

    def decide_in_a_thread(self, ctx: ToolContext[Any], first: int) -> str:
        for number in range(first, CALLS, DECIDERS):
            self.decide(ctx, number)
        return self.decider_is_done()

    async def read_in_a_task(self, ctx: ToolContext[Any]) -> str:
        watch = self.new_watch()
        while not self.over.is_set():
            self.look_around(ctx, watch)
            await asyncio.sleep(0)
        return "read"

    def read_in_a_thread(self, ctx: ToolContext[Any]) -> str:
        watch = self.new_watch()
        while not self.over.is_set():
            self.look_around(ctx, watch)
        return "read"


@hammered
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_one_run_is_read_decided_forked_and_serialized_from_tasks_and_threads_at_once(streamed):
    hammer = Hammer()
    ops = scene(hammer.calls, DONE, tools=hammer.tools)
    texts = []

    if streamed:
        result = Runner.run_streamed(ops.agent, "go")
        async with asyncio.timeout(120):
            async for number, _ in _numbered(result.stream_events()):
                if number % 25 == 0:
                    texts.append(result.to_state().to_string())
    else:
        result = await drive(ops.agent, "go")
    snapshots = [await RunState.from_string(ops.agent, text) for text in texts]

    assert result.final_output == "done"
    assert [watch.torn for watch in hammer.watches] == [[]] * 4
    assert sum(watch.reads for watch in hammer.watches) > 500
    assert ops.sent(1)[:CALLS] == [(f"c{n}", f"cleaned /{n}" if verdict(n) else f"no {n}") for n in range(CALLS)]
    assert sorted(ops.effects) == sorted(f"cleanup /{n}" for n in range(CALLS) if verdict(n))
    assert len(snapshots) == len(texts)


async def _numbered(events: AsyncIterator[Any]) -> AsyncIterator[tuple[int, Any]]:
    number = 0
    async for event in events:
        yield number, event
        number += 1


# -- a state that several reviewers hold -------------------------------------------------------------------------------


@hammered
async def test_one_paused_state_is_read_decided_forked_merged_and_serialized_from_threads_at_once():
    ops = scene([cleanup(f"/{n}", f"c{n}") for n in range(CALLS)], DONE)
    paused = await drive(ops.agent, "go")
    state = paused.to_state()
    items = state.get_interruptions()
    deciders = 4
    over = threading.Event()

    def decide(first: int) -> None:
        for number in range(first, CALLS, deciders):
            if verdict(number):
                state.approve(items[number], by=f"decider {first}")
            else:
                state.reject(items[number], rejection_message=f"no {number}")

    def read() -> Watch:
        watch = Watch()
        while not over.is_set():
            for number in range(0, CALLS, 5):
                watch.look(state.context, number)
                watch.look(state.context.fork(), number)
        return watch

    def serialize() -> list[int]:
        sizes = []
        while not over.is_set():
            sizes.append(len(json.loads(state.to_string()).get("staged", ())))
            assert len(state.get_interruptions()) == CALLS
        return sizes

    def copy() -> int:
        count = 0
        while not over.is_set():
            count += 1
            twin = paused.to_state().merge(state)
            assert sum(len(record.approved) for record in twin.context.approvals.values()) <= CALLS
            assert len(state.fork().get_interruptions()) == CALLS
        return count

    with ThreadPoolExecutor(deciders + 5) as pool:
        reading = [pool.submit(read) for _ in range(2)]
        writing, copying = pool.submit(serialize), pool.submit(copy)
        deciding = [pool.submit(decide, first) for first in range(deciders)]
        for each in deciding:
            each.result(SECONDS)
        over.set()
        watches, sizes, copies = (
            [each.result(SECONDS) for each in reading],
            writing.result(SECONDS),
            copying.result(SECONDS),
        )
    result = await drive(ops.agent, await reloaded(ops.agent, state))

    assert [watch.torn for watch in watches] == [[], []]
    assert sizes == sorted(sizes)
    assert copies > 0
    assert ops.sent(1) == [(f"c{n}", f"cleaned /{n}" if verdict(n) else f"no {n}") for n in range(CALLS)]
    assert result.final_output == "done"


# -- a wrapper made by hand, whose forks share one ledger --------------------------------------------------------------


@hammered
def test_forks_of_one_wrapper_share_thousands_of_decisions_and_lose_none():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper(None)
    threads, each = 6, 500
    items = [
        [ToolApprovalItem(agent, cleanup("/x", f"c{n}")) for n in range(t, threads * each, threads)]
        for t in range(threads)
    ]

    def work(own: list[ToolApprovalItem]) -> Watch:
        fork, watch = wrapper.fork(), Watch()
        for item in own:
            number = int(str(item.call_id)[1:])
            fork.approve_tool(item) if verdict(number) else fork.reject_tool(item, rejection_message=f"no {number}")
            watch.look(fork, number)
            watch.look(wrapper, (number * 7) % (threads * each))
            if number % 250 < threads:
                assert set(wrapper.approvals) == {"cleanup"}
        return watch

    with ThreadPoolExecutor(threads) as pool:
        watches = [future.result(30) for future in [pool.submit(work, own) for own in items]]
    record = wrapper.approvals["cleanup"]

    assert [watch.torn for watch in watches] == [[]] * threads
    assert set(record.approved) == {f"c{n}" for n in range(threads * each) if verdict(n)}
    assert set(record.rejected) == {f"c{n}" for n in range(threads * each) if not verdict(n)}
    assert wrapper.get_rejection_message("cleanup", "c0") == "no 0"


@hammered
async def test_tasks_and_threads_hammer_one_wrapper_together():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper(None)
    total = 1200
    watch = Watch()

    def in_a_thread(first: int) -> None:
        for number in range(first, total, 4):
            wrapper.approve_tool(ToolApprovalItem(agent, cleanup("/x", f"c{number}")))

    async def in_a_task(first: int) -> None:
        for number in range(first, total, 4):
            wrapper.approve_tool(ToolApprovalItem(agent, cleanup("/x", f"c{number}")))
            watch.look(wrapper, (number * 5) % total)
            wrapper.approvals  # noqa: B018  # the reading is the point
            await asyncio.sleep(0)

    await asyncio.wait_for(
        asyncio.gather(
            asyncio.to_thread(in_a_thread, 0), asyncio.to_thread(in_a_thread, 1), in_a_task(2), in_a_task(3)
        ),
        30,
    )

    assert watch.torn == []
    assert len(wrapper.approvals["cleanup"].approved) == total


@hammered
def test_standing_decisions_given_at_the_same_time_are_all_kept():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper(None)
    threads, each = 4, 100

    def work(thread: int) -> None:
        for number in range(each):
            name = f"tool_{thread}_{number}"
            wrapper.approve_tool(ToolApprovalItem(agent, function_call(name, {}, call_id="c")), always_approve=True)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, thread) for thread in range(threads)]:
            future.result(30)
    always = {name: record.always for name, record in wrapper.approvals.items()}

    assert always == {f"tool_{thread}_{number}": "approve" for thread in range(threads) for number in range(each)}


# -- between any two steps of a change ---------------------------------------------------------------------------------


def seen_between_the_steps_of(change: Callable[[], None], read: Callable[[], object]) -> list[object]:
    """What another thread reads at every step (bytecode instruction) of a change in the ledger's file.

    A reader that has to wait for the change is fine: it is asked again when it has its answer.
    """
    answers: list[Future[object]] = []

    with ThreadPoolExecutor(1) as reader:

        def step(frame: FrameType, event: str, _arg: object) -> Any:
            if not frame.f_code.co_filename.endswith("approvals.py"):
                return None
            frame.f_trace_opcodes = True
            if not answers or answers[-1].done():
                answers.append(reader.submit(read))
                with contextlib.suppress(TimeoutError):
                    answers[-1].result(0.05)
            return step

        before = sys.gettrace()
        sys.settrace(step)
        try:
            change()
        finally:
            sys.settrace(before)
        return [answer.result(SECONDS) for answer in answers]


def test_a_decision_that_is_said_again_is_never_seen_as_undecided():
    item = ToolApprovalItem(Agent(name="ops"), cleanup("/a", "c1"))
    wrapper = RunContextWrapper(None)
    wrapper.approve_tool(item)

    seen = seen_between_the_steps_of(
        lambda: wrapper.approve_tool(item), lambda: wrapper.is_tool_approved("cleanup", "c1")
    )

    assert len(seen) > 1
    assert set(seen) == {True}


def test_a_rejected_call_is_never_seen_as_approved_by_an_always_while_the_rejection_is_said_again():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper(None)
    wrapper.approve_tool(ToolApprovalItem(agent, cleanup("/a", "c1")), always_approve=True)
    rejected = ToolApprovalItem(agent, cleanup("/b", "c2"))
    wrapper.reject_tool(rejected)

    seen = seen_between_the_steps_of(
        lambda: wrapper.reject_tool(rejected), lambda: wrapper.is_tool_approved("cleanup", "c2")
    )

    assert len(seen) > 1
    assert set(seen) == {False}


def test_a_new_decision_is_seen_as_undecided_first_and_then_as_it_is():
    item = ToolApprovalItem(Agent(name="ops"), cleanup("/a", "c1"))
    wrapper = RunContextWrapper(None)

    seen = seen_between_the_steps_of(
        lambda: wrapper.reject_tool(item), lambda: wrapper.is_tool_approved("cleanup", "c1")
    )

    assert len(seen) > 1
    assert set(seen) <= {None, False}
    assert seen == sorted(seen, key=lambda each: each is not None)


def test_a_decision_is_never_seen_as_undecided_while_it_moves_from_a_reviewers_word_into_the_log():
    ledger = Ledger()
    ledger.ask(Entry(call="1.0", label="c1", name="cleanup", tool="function:cleanup", agent="ops", request=1))
    decision = DecisionMade("1.0", 1, "", "approve", None, 0.0)
    ledger.stage([decision])

    seen = seen_between_the_steps_of(lambda: ledger.record(decision), lambda: ledger.status("cleanup", "c1"))

    assert len(seen) > 1
    assert set(seen) == {True}


def test_the_record_read_between_the_steps_of_a_decision_is_whole():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper(None)
    for number in range(5):
        wrapper.approve_tool(ToolApprovalItem(agent, cleanup("/x", f"c{number}")))

    seen = seen_between_the_steps_of(
        lambda: wrapper.approve_tool(ToolApprovalItem(agent, cleanup("/x", "c5"))),
        lambda: len(wrapper.approvals["cleanup"].approved),
    )

    assert len(seen) > 1
    assert set(seen) <= {5, 6}


def test_a_standing_decision_given_at_any_step_of_another_is_kept_and_so_is_the_other():
    agent = Agent(name="ops")
    wrapper = RunContextWrapper(None)
    numbers = itertools.count()

    def grant(name: str) -> None:
        wrapper.approve_tool(ToolApprovalItem(agent, function_call(name, {}, call_id="c")), always_approve=True)

    seen = seen_between_the_steps_of(lambda: grant("the_one"), lambda: grant(f"other_{next(numbers)}"))
    always = [name for name, record in wrapper.approvals.items() if record.always == "approve"]

    assert len(seen) > 1
    assert sorted(always) == sorted(["the_one", *(f"other_{number}" for number in range(len(seen)))])
