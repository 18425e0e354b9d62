"""Somebody decides in the store while a run is driven: the driver takes it in, and loses nothing of its own."""

from __future__ import annotations

import asyncio

import pytest

from placet import MemoryStore, RunConfig, function_tool
from placet.core.fold import fold
from placet.facts.events import CallEnded, DecisionMade
from placet.runtime.journal import fold_log
from tests.runtime.team_scenes import SECONDS, Traces, ask, call, done, go, scripted

pytestmark = pytest.mark.promise("P5")


class Shared(MemoryStore):
    """A store in which somebody approves a call right before one of the driver's appends. Each append takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.approves: str | None = None
        self.before = 0
        """Before the how-manieth append of the driver; it is counted down."""
        self.on_append = None

    async def append(self, lease, log, lines, run):
        if lease is not None:
            if self.on_append is not None:
                self.on_append(lines)
            for _ in range(10):
                await asyncio.sleep(0)
            self.before -= 1
            if self.approves is not None and self.before <= 0:
                await self._decide(log.run_id)
        await super().append(lease, log, lines, run)

    async def _decide(self, run_id):
        stored = await self.load(run_id)
        run = fold_log(stored.log) if stored is not None else None
        entry = run.ledger.entry(self.approves) if run is not None else None
        if entry is None or not run.ledger.is_open(self.approves):
            return
        decision = DecisionMade(self.approves, entry.request, entry.digest, "approve", "desk", 1.0)
        fold([decision], into=run)
        self.approves = None
        await super().append(None, stored.log, [stored.log.next_line(1.0, [decision])], run)


@pytest.mark.parametrize("word", ["approve", "reject"])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_what_the_state_says_and_what_the_store_says_meanwhile_both_count(word, number):
    traces, store = Traces(), Shared()
    agent = scripted("A", [[call("pay", 1, "c1"), call("pay", 2, "c2")], done()], traces.gated())
    state = (await go(agent, "hi", store=store)).to_state()
    getattr(state, word)(state.get_interruptions()[0])
    store.approves, store.before = "1.1", number

    result = await go(agent, state, store=store)
    if store.approves is not None:  # this many appends there were not: then it comes now
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        result = await go(agent, state, store=store)

    assert result.final_output == "done"
    assert sorted(traces.ran) == (["pay 1", "pay 2"] if word == "approve" else ["pay 2"])


@pytest.mark.promise("P4")
async def test_what_ended_while_an_append_was_overtaken_is_not_forgotten():
    traces, store, may_end, ran = Traces(), Shared(), asyncio.Event(), []

    def work(name, waits):
        @function_tool(name_override=name)
        async def body() -> str:
            ran.append(name)
            if waits:
                await asyncio.wait_for(may_end.wait(), SECONDS)
            return name

        return body

    def let_the_others_end(lines):
        if any(isinstance(fact, CallEnded) for line in lines for fact in line.facts) and not may_end.is_set():
            may_end.set()
            store.approves = "1.3"

    store.on_append = let_the_others_end
    calls = [call("one"), call("two"), call("three"), call("pay", 1)]
    agent = scripted("A", [calls, done()], work("one", False), work("two", True), work("three", True), traces.gated())

    result = await go(agent, "hi", store=store)

    assert result.interruptions == []
    assert result.final_output == "done"
    assert sorted(ran) == ["one", "three", "two"]


@pytest.mark.parametrize("number", range(1, 9))
async def test_calls_that_wait_for_a_place_are_not_forgotten_when_the_worker_is_overtaken(number):
    traces, store = Traces(), Shared()
    calls = [call("look", 1), call("look", 2), call("look", 3), call("pay", 1)]
    agent = scripted("A", [calls, done()], traces.tool("look"), traces.gated())
    store.approves, store.before = "1.3", number

    result = await go(agent, "hi", store=store, run_config=RunConfig(max_tool_concurrency=1))

    assert sorted(traces.ran)[:3] == ["look 1", "look 2", "look 3"]
    assert result.final_output == "done" or [item.name for item in result.interruptions] == ["pay"]


@pytest.mark.promise("P13")
@pytest.mark.parametrize("number", range(1, 7))
async def test_a_nested_call_that_is_approved_in_the_store_while_its_sibling_works_goes_on(number):
    traces, store = Traces(), Shared()
    kid = scripted("Kid", [[call("look", 1), call("pay", 1)], done("kid done")], traces.tool("look"), traces.gated())
    boss = scripted("Boss", [[ask("kid", "x"), call("pay", 2)], done()], kid.as_tool(), traces.gated())
    store.approves, store.before = "1.1", number

    result = await go(boss, "hi", store=store)

    assert traces.ran.count("look 1") == 1
    assert traces.ran.count("pay 2") == (1 if store.approves is None else 0)
    assert [item.agent.name for item in result.interruptions] == (
        ["Kid"] if store.approves is None else ["Boss", "Kid"]
    )
