"""A call that is approved while a sibling runs begins at once, and does not wait for the sibling's end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Agent, FunctionTool, Grant, RunContextWrapper, Runner, ToolContext, function_tool
from placet.desk import Desk
from placet.facts.codec import JsonObject
from placet.testing import function_call
from tests.desk.scenes import PATIENCE, Planned

SLOW = function_call("slow", {}, call_id="s")


class Shift:
    """A tool that ends only when the other one has begun: if that waits for its end, both wait for ever."""

    def __init__(self) -> None:
        self.is_running = asyncio.Event()
        self.has_paid = asyncio.Event()
        self.paid: list[int] = []

    def tools(self) -> list[FunctionTool]:
        @function_tool
        async def slow() -> str:
            self.is_running.set()
            await asyncio.wait_for(self.has_paid.wait(), PATIENCE)
            return "at last"

        @function_tool(needs_approval=True)
        async def pay(cents: int) -> str:
            self.paid.append(cents)
            if len(self.paid) == self.expected:
                self.has_paid.set()
            return f"paid {cents}"

        return [slow, pay]

    expected = 1

    def agent(self, *calls: JsonObject, name: str = "Clerk") -> Agent[Any]:
        return Agent(name, tools=[*self.tools()], model=Planned([SLOW, *calls]))


def pay(cents: int) -> JsonObject:
    return function_call("pay", {"cents": cents}, call_id=f"p{cents}")


async def asked(desk: Desk, count: int) -> list[str]:
    """The ids of what waits, once so much does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = await desk.store.latest_sequence()
            found = [each.id for each in await desk.pending()]
            if len(found) == count:
                return found
            await desk.store.wait_for_news(seen, 1.0)


@pytest.mark.parametrize("always", [False, Grant(scope="run")], ids=["one_by_one", "for_always"])
async def test_what_another_desk_approves_begins_while_its_sibling_runs(any_url: str, always: Any) -> None:
    shift = Shift()
    shift.expected = 2
    async with Desk(any_url, [shift.agent(pay(1), pay(2))]) as desk, Desk(any_url, run=False) as reviewer:
        run = await desk.start("Clerk", "go")
        await asyncio.wait_for(shift.is_running.wait(), PATIENCE)
        first, second = await asked(reviewer, 2)
        await reviewer.decide(first, "approve", by="ana", always=always)
        if not always:
            await reviewer.decide(second, "approve", by="ana")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert (ended.status, ended.final_output) == ("ended", "done")
    assert sorted(shift.paid) == [1, 2]


async def test_what_is_approved_in_a_nested_run_begins_while_a_tool_of_the_outer_one_runs(any_url: str) -> None:
    shift = Shift()
    slow, paying = shift.tools()
    kid = Agent("Kid", tools=[paying], model=Planned([pay(1)]))
    ask = function_call("kid", {"input": "go"}, call_id="k")
    boss = Agent("Boss", tools=[slow, kid.as_tool("kid", "pays")], model=Planned([SLOW, ask]))
    async with Desk(any_url, [boss]) as desk, Desk(any_url, run=False) as reviewer:
        run = await desk.start("Boss", "go")
        await asyncio.wait_for(shift.is_running.wait(), PATIENCE)
        (waiting,) = await asked(reviewer, 1)
        await reviewer.decide(waiting, "approve", by="ana")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert (ended.status, shift.paid) == ("ended", [1])


async def test_what_is_approved_in_a_nested_run_begins_while_a_sibling_in_there_runs(any_url: str) -> None:
    shift = Shift()
    kid = shift.agent(pay(1), name="Kid")
    ask = function_call("kid", {"input": "go"}, call_id="k")
    boss = Agent("Boss", tools=[kid.as_tool("kid", "pays")], model=Planned([ask]))
    async with Desk(any_url, [boss]) as desk, Desk(any_url, run=False) as reviewer:
        run = await desk.start("Boss", "go")
        await asyncio.wait_for(shift.is_running.wait(), PATIENCE)
        (waiting,) = await asked(reviewer, 1)
        await reviewer.decide(waiting, "approve", by="ana")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert (ended.status, shift.paid) == ("ended", [1])


async def test_a_run_of_the_library_on_a_shared_store_hears_of_it_too(any_url: str) -> None:
    shift = Shift()
    async with Desk(any_url, run=False) as reviewer:
        running = asyncio.create_task(Runner.run(shift.agent(pay(1)), "go", store=reviewer.store))
        await asyncio.wait_for(shift.is_running.wait(), PATIENCE)
        (waiting,) = await asked(reviewer, 1)
        await reviewer.decide(waiting, "approve", by="ana")
        result = await asyncio.wait_for(running, PATIENCE)

    assert (result.final_output, shift.paid) == ("done", [1])


@pytest.mark.parametrize("in_thread", [False, True], ids=["in_the_loop", "in_a_thread"])
async def test_what_is_approved_on_the_context_of_the_run_begins_at_once(in_thread: bool) -> None:
    shift = Shift()
    contexts: list[RunContextWrapper[Any]] = []

    @function_tool(name_override="slow")
    async def slow(ctx: ToolContext[Any]) -> str:
        contexts.append(ctx)
        shift.is_running.set()
        await asyncio.wait_for(shift.has_paid.wait(), PATIENCE)
        return "at last"

    _, paying = shift.tools()
    agent = Agent("Clerk", tools=[slow, paying], model=Planned([SLOW, pay(1)]))
    running = asyncio.create_task(Runner.run(agent, "go"))
    await asyncio.wait_for(shift.is_running.wait(), PATIENCE)
    await asyncio.sleep(0)  # the loop waits for the tool by now
    if in_thread:
        await asyncio.to_thread(contexts[0].approve_tool, "p1")
    else:
        contexts[0].approve_tool("p1")
    result = await asyncio.wait_for(running, PATIENCE)

    assert (result.final_output, shift.paid) == ("done", [1])


async def test_a_no_that_comes_while_a_sibling_runs_counts_and_the_sibling_is_left_alone(any_url: str) -> None:
    shift = Shift()
    async with Desk(any_url, [shift.agent(pay(1), pay(2))]) as desk, Desk(any_url, run=False) as reviewer:
        run = await desk.start("Clerk", "go")
        await asyncio.wait_for(shift.is_running.wait(), PATIENCE)
        first, second = await asked(reviewer, 2)
        await reviewer.decide(first, "reject", by="ana")
        await reviewer.decide(second, "approve", by="ana")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert (ended.status, shift.paid) == ("ended", [2])
