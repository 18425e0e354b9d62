"""The default store keeps the contract of all stores, and stays as small as it was told to."""

import asyncio
import gc
import sys
import threading
import tracemalloc

import pytest

from placet import (
    Agent,
    Grant,
    MemoryStore,
    ModelRequest,
    ModelResponse,
    RunConflict,
    Runner,
    RunState,
    Store,
    Usage,
    function_tool,
)
from placet.testing import ScriptedModel, assistant_message, function_call
from placet.testing.budget_contracts import BudgetContract
from placet.testing.contracts import Driver, Run, ThreadedStoreContract, a_grant

ran: list[int] = []


@function_tool(needs_approval=True)
async def refund(n: int) -> str:
    """Writes down that it ran."""
    ran.append(n)
    await asyncio.sleep(0)
    return f"refunded {n}"


class TestMemoryStore(BudgetContract, ThreadedStoreContract):
    async def make_store(self) -> Store:
        return MemoryStore()


# -- bounds -----------------------------------------------------------------------------------------------------------


async def paused_in(store: Store, run: Run | None = None) -> Run:
    """A run that was driven until it waits, and let go."""
    run, driver = run or Run(), Driver()
    lease = await store.lease(run.id, driver)
    await run.append(store, lease, run.begins, run.pauses)
    await store.release(lease, len(run.log))
    return run


async def ended_in(store: Store) -> Run:
    run, driver = Run(), Driver()
    lease = await store.lease(run.id, driver)
    await run.append(store, lease, run.begins, run.pauses, run.is_decided, run.ends)
    await store.release(lease, len(run.log))
    return run


async def known(store: Store, *runs: Run) -> list[bool]:
    """Which runs the store knows. Whoever asks uses them: so ask once."""
    return [await store.load(run.id) is not None for run in runs]


async def test_of_too_many_waiting_runs_the_least_recently_used_are_forgotten() -> None:
    store = MemoryStore(max_waiting=3)
    first, second, third = [await paused_in(store) for _ in range(3)]
    await store.load(first.id)
    fourth = await paused_in(store)

    assert await known(store, first, second, third, fourth) == [True, False, True, True]
    assert len(store) == 3


async def test_of_too_many_bytes_the_least_recently_used_runs_are_forgotten() -> None:
    size = len(b"".join((await paused_in(MemoryStore())).log.lines))
    store = MemoryStore(max_bytes=2 * size + size // 2)
    first, second, third = [await paused_in(store) for _ in range(3)]

    assert await known(store, first, second, third) == [False, True, True]


async def test_a_run_that_somebody_drives_is_never_forgotten() -> None:
    store, driven, driver = MemoryStore(max_waiting=1), Run(), Driver()
    lease = await store.lease(driven.id, driver)
    await driven.append(store, lease, driven.begins, driven.pauses)
    others = [await paused_in(store) for _ in range(5)]

    assert await known(store, driven, *others[:-1]) == [True, False, False, False, False]
    await driven.append(store, lease, driven.is_decided)
    assert await store.release(lease, len(driven.log))


async def test_a_run_whose_driver_died_without_a_word_can_be_forgotten_like_any_other() -> None:
    store, lost, driver = MemoryStore(max_waiting=2), Run(), Driver()
    lease = await store.lease(lost.id, driver)
    await lost.append(store, lease, lost.begins, lost.pauses)
    del driver
    gc.collect()
    others = [await paused_in(store) for _ in range(3)]

    assert await known(store, lost, *others) == [False, False, True, True]


async def test_ended_runs_are_remembered_up_to_a_count() -> None:
    store = MemoryStore(max_ended=2)
    first, second, third = [await ended_in(store) for _ in range(3)]

    assert await known(store, first, second, third) == [False, True, True]
    assert len(store) == 2


async def test_ended_runs_do_not_drive_out_waiting_ones() -> None:
    store = MemoryStore(max_waiting=1, max_ended=1)
    waiting = await paused_in(store)
    for _ in range(5):
        await ended_in(store)

    assert await known(store, waiting) == [True]


async def test_a_forgotten_run_is_unknown_and_is_gone_on_with_from_its_state() -> None:
    ran.clear()
    store = MemoryStore(max_waiting=1)
    agent, state = await a_paused_run(store)
    await a_paused_run(store)
    forgotten = await store.load(state.run_id)
    state.approve(state.get_interruptions()[0])

    result = await Runner.run(agent, state, store=store)
    again = await Runner.run(agent, state, store=store)

    assert forgotten is None
    assert (result.final_output, again.final_output) == ("done", "done")
    assert ran == [7]


async def a_paused_run(store: Store) -> tuple[Agent[None], RunState[None]]:
    model = ScriptedModel([[function_call("refund", {"n": 7}, call_id="a")], [assistant_message("done")]])
    agent: Agent[None] = Agent("Clerk", tools=[refund], model=model)
    return agent, (await Runner.run(agent, "Refund 7.", store=store)).to_state()


# -- which store ------------------------------------------------------------------------------------------------------


async def test_an_empty_store_that_was_given_is_the_one_that_is_used() -> None:
    store = MemoryStore()
    _, state = await a_paused_run(store)

    assert await store.load(state.run_id) is not None


# -- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.promise("P4")
async def test_of_many_threads_that_resume_one_state_one_runs_the_body() -> None:
    ran.clear()
    store = MemoryStore()
    agent, state = await a_paused_run(store)
    state.approve(state.get_interruptions()[0])
    gate = threading.Barrier(4)

    def resume() -> object:
        gate.wait(timeout=120)
        try:
            return Runner.run_sync(agent, state, store=store).final_output
        except RunConflict:
            return "somebody else drives it"

    outcomes = await asyncio.gather(*(asyncio.to_thread(resume) for _ in range(4)))

    assert ran == [7]
    assert set(outcomes) <= {"done", "somebody else drives it"}
    assert "done" in outcomes


# -- very many runs ---------------------------------------------------------------------------------------------------


class Terse:
    """A model that asks for a refund, and for nothing more once it has an output."""

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        if request.input[-1].get("type") == "function_call_output" or request.input[-1]["content"] == "Just talk.":
            return ModelResponse([assistant_message("done")], Usage(1), "resp_2")
        return ModelResponse([function_call("refund", {"n": 1}, call_id="a")], Usage(1), "resp_1")

    async def stream_response(self, request: ModelRequest) -> object:
        yield await self.get_response(request)


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def test_eight_thousand_runs_later_the_store_is_as_small_as_before() -> None:
    store, agent = MemoryStore(max_waiting=50, max_ended=50), Agent[None]("Clerk", tools=[refund], model=Terse())

    async def make_runs(count: int) -> None:
        for number in range(count):
            await Runner.run(agent, "Refund 1." if number % 10 == 0 else "Just talk.", store=store)

    await make_runs(1_000)
    gc.collect()
    blocks = sys.getallocatedblocks()
    await make_runs(5_000)
    gc.collect()
    more_blocks = sys.getallocatedblocks() - blocks
    tracemalloc.start()
    try:
        await make_runs(1_000)  # by now everything that the store holds is traced
        before = traced()
        await make_runs(1_000)
        more_bytes = traced() - before
    finally:
        tracemalloc.stop()

    assert len(store) == 100
    assert more_blocks < 1_000, f"{more_blocks} blocks more after 5,000 runs"
    assert more_bytes < 20_000, f"{more_bytes} bytes more after the last 1,000 runs"


async def test_runs_that_are_decided_by_a_standing_grant_do_not_fill_the_store() -> None:
    ran.clear()
    store, agent = MemoryStore(max_waiting=50, max_ended=50), Agent[None]("Clerk", tools=[refund], model=Terse())
    state = (await Runner.run(agent, "Refund 1.", store=store)).to_state()
    state.approve(state.get_interruptions()[0], always_approve=Grant(scope="agent"))
    await Runner.run(agent, state, store=store)
    tracemalloc.start()
    try:
        for _ in range(300):
            await Runner.run(agent, "Refund 1.", store=store)
        before = traced()
        for _ in range(600):
            await Runner.run(agent, "Refund 1.", store=store)
        grown = traced() - before
    finally:
        tracemalloc.stop()

    assert len(ran) == 901
    assert grown < 50_000, f"{grown} bytes more after 600 runs"


async def test_a_standing_grant_without_a_count_can_be_used_for_ever_without_filling_the_store() -> None:
    store, grant = MemoryStore(), a_grant()
    run = await paused_in(store)
    await run.append(store, None, [grant])
    tracemalloc.start()
    try:
        for number in range(20_000):
            await store.use_grant(grant, f"run_0123456789:{number}.0")
        grown = traced()
    finally:
        tracemalloc.stop()

    assert grown < 100_000, f"{grown} bytes more after 20,000 uses"
