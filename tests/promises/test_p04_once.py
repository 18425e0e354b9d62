"""P4, within one process: a call's body runs at most once unless its contract or a person says otherwise."""

import asyncio
import threading

import pytest

from placet import (
    CannotTell,
    DidNotHappen,
    Happened,
    MemoryStore,
    RunConflict,
    RunContextWrapper,
    RunFinished,
    Runner,
    RunState,
    StaleApproval,
    ToolContext,
    ToolOutcomeUnknown,
    default_store,
    function_tool,
)
from placet.core.log import Log
from placet.facts.errors import PositionConflict
from placet.facts.ids import split_call_id
from placet.ports import Hold
from placet.testing import Crash, CrashingStore, function_call
from tests.promises.scenes import (
    DONE,
    SECONDS,
    approve_all,
    claims_in,
    cleanup,
    diagnose,
    drive,
    item_of,
    outcome_of,
    refund,
    reloaded,
    scene,
)

pytestmark = pytest.mark.promise("P4")


async def approved_text(ops, paused):
    """A paused run as a string in which everything is approved."""
    state = await reloaded(ops.agent, paused)
    for item in state.get_interruptions():
        state.approve(item)
    return state.to_string()


async def test_the_same_string_resumed_twice_at_the_same_time_runs_the_body_once_and_tells_the_other_at_once():
    begun, go_on = asyncio.Event(), asyncio.Event()
    effects = []

    @function_tool(needs_approval=True)
    async def wire(cents: int) -> str:
        effects.append(cents)
        begun.set()
        await go_on.wait()
        return "sent"

    ops = scene([function_call("wire", {"cents": 5}, call_id="w1")], DONE, tools=(wire,))
    text = await approved_text(ops, await drive(ops.agent, "pay"))
    first = asyncio.create_task(drive(ops.agent, await RunState.from_string(ops.agent, text)))
    await asyncio.wait_for(begun.wait(), SECONDS)

    second = await outcome_of(drive(ops.agent, await RunState.from_string(ops.agent, text)))
    go_on.set()

    assert isinstance(second, RunConflict)
    assert (await first).final_output == "done"
    assert effects == [5]


def test_the_same_string_resumed_from_many_threads_runs_the_body_once():
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = Runner.run_sync(ops.agent, "go")
    text = asyncio.run(approved_text(ops, paused))
    together = threading.Barrier(8)
    ends = []

    def resume() -> None:
        state = asyncio.run(RunState.from_string(ops.agent, text))
        together.wait(SECONDS)
        try:
            ends.append(Runner.run_sync(ops.agent, state).final_output)
        except RunConflict as conflict:
            ends.append(conflict.code)

    threads = [threading.Thread(target=resume) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)

    assert ops.effects == ["cleanup /a"]
    assert len(ends) == 8
    assert "done" in ends
    assert set(ends) <= {"done", "run_conflict"}
    assert len(ops.model.calls) == 2


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_the_same_string_resumed_again_gives_the_recorded_result_and_asks_no_model(streamed):
    ops = scene([cleanup("/a", "c1")], DONE)
    text = await approved_text(ops, await drive(ops.agent, "go"))

    first = await drive(ops.agent, await RunState.from_string(ops.agent, text), streamed=streamed)
    second = await drive(ops.agent, await RunState.from_string(ops.agent, text), streamed=streamed)

    assert first.final_output == second.final_output == "done"
    assert ops.effects == ["cleanup /a"]
    assert len(ops.model.calls) == 2


async def test_an_older_snapshot_goes_on_where_the_run_is_now():
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2")], DONE)
    text = await approved_text(ops, await drive(ops.agent, "go"))
    newer = await drive(ops.agent, await RunState.from_string(ops.agent, text))

    older = await drive(ops.agent, await RunState.from_string(ops.agent, text))

    assert [item.id for item in older.interruptions] == [item.id for item in newer.interruptions]
    assert ops.effects == ["cleanup /a"]
    assert len(ops.model.calls) == 2


async def test_two_snapshots_of_one_run_run_each_body_once():
    ops = scene([cleanup("/a", "c1"), refund(1, "r1")], DONE)
    paused = await drive(ops.agent, "go")
    one, other = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    one.approve(item_of(one, "c1"))
    for item in other.get_interruptions():
        other.approve(item)

    halfway = await drive(ops.agent, one)
    result = await drive(ops.agent, other)

    assert [item.call_id for item in halfway.interruptions] == ["r1"]
    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a", "refund 1"]


async def test_a_snapshot_that_contradicts_what_was_done_is_refused_before_anything_runs():
    ops = scene([cleanup("/a", "c1"), refund(1, "r1")], DONE)
    paused = await drive(ops.agent, "go")
    one, other = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    one.approve(item_of(one, "c1"), by="ann")
    other.reject(item_of(other, "c1"), by="bob")
    other.approve(item_of(other, "r1"))
    await drive(ops.agent, one)

    with pytest.raises(StaleApproval, match=r"'approve' by ann.*'reject' by bob"):
        await drive(ops.agent, other)

    assert ops.effects == ["cleanup /a"]


async def test_a_finished_run_takes_no_new_decision():
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "go")
    rejected, approved = await reloaded(ops.agent, paused), await reloaded(ops.agent, paused)
    rejected.reject(item_of(rejected, "c1"))
    approved.approve(item_of(approved, "c1"))
    await drive(ops.agent, rejected)

    with pytest.raises(RunFinished):
        await drive(ops.agent, approved)

    assert ops.effects == []


async def test_the_claim_is_in_the_store_before_the_body_begins():
    store = default_store()
    seen = []

    @function_tool(needs_approval=True)
    async def wire(ctx: ToolContext) -> str:
        seen.append(await claims_in(store, split_call_id(ctx.call)[0]))
        return "sent"

    ops = scene([function_call("wire", {}, call_id="w1")], DONE, tools=(wire,))
    paused = await drive(ops.agent, "pay")

    await approve_all(ops.agent, paused)

    assert '["run",["1.0"],null]' in seen[0]


async def crashed_after_effect(ops, store, **deciding):
    """Approve the only waiting call, let its body run, and crash before its end is recorded."""
    paused = await drive(ops.agent, "go", store=store)
    state = await reloaded(ops.agent, paused)
    state.approve(state.get_interruptions()[0], **deciding)
    store.crash_at(2, "before")
    with pytest.raises(Crash) as crashed:
        await drive(ops.agent, state, store=store)
    return crashed.value.state


async def test_a_crash_after_the_effect_leaves_the_call_in_doubt_and_does_not_run_it_again():
    store = CrashingStore(MemoryStore())
    ops = scene([cleanup("/a", "c1")], DONE)

    state = await crashed_after_effect(ops, store)
    result = await drive(ops.agent, await reloaded(ops.agent, state), store=store)

    assert ops.effects == ["cleanup /a"]
    assert [(item.kind, item.call_id) for item in result.interruptions] == [("in_doubt", "c1")]


async def test_a_person_resolves_a_doubt_by_running_again_by_answering_or_by_giving_up():
    endings = {}
    for word in ("approve", "respond", "reject"):
        store = CrashingStore(MemoryStore())
        ops = scene([cleanup("/a", "c1")], DONE)
        doubtful = await drive(ops.agent, await crashed_after_effect(ops, store), store=store)
        state = await reloaded(ops.agent, doubtful)
        item = state.get_interruptions()[0]
        state.approve(item) if word == "approve" else (
            state.respond(item, "it was cleaned") if word == "respond" else state.reject(item)
        )
        await drive(ops.agent, state, store=store)
        endings[word] = (len(ops.effects), ops.sent(1))

    assert endings["approve"] == (2, [("c1", "cleaned /a")])
    assert endings["respond"] == (1, [("c1", "it was cleaned")])
    assert endings["reject"][0] == 1
    assert "unknown whether this tool ran" in endings["reject"][1][0][1]


@pytest.mark.parametrize(
    ("recovery", "runs", "output"),
    [
        ("retry", 2, "paid"),
        (lambda ctx, params: Happened("paid before"), 1, "paid before"),
        (lambda ctx, params: DidNotHappen(), 2, "paid"),
        (lambda ctx, params: CannotTell(), 1, None),
        (lambda ctx, params: None, 1, None),
        (lambda ctx, params: 1 / 0, 1, None),
    ],
    ids=["retry", "happened", "did not happen", "cannot tell", "nonsense", "raises"],
)
async def test_a_tools_contract_says_what_becomes_of_a_call_whose_worker_is_gone(recovery, runs, output):
    keys = []

    @function_tool(needs_approval=True, recovery=recovery)
    async def pay(ctx: ToolContext) -> str:
        keys.append((ctx.idempotency_key, ctx.attempt))
        return "paid"

    store = CrashingStore(MemoryStore())
    ops = scene([function_call("pay", {}, call_id="p1")], DONE, tools=(pay,))
    state = await crashed_after_effect(ops, store)

    result = await drive(ops.agent, state, store=store)

    assert [attempt for _, attempt in keys] == [1, 2][:runs]
    assert len({key for key, _ in keys}) == 1
    if output is None:
        assert [item.kind for item in result.interruptions] == ["in_doubt"]
    else:
        assert ops.sent(1) == [("p1", output)]


async def crashed_at_the_claim(ops, store, when):
    """Approve the only waiting call, and crash while its claim is written."""
    state = await reloaded(ops.agent, await drive(ops.agent, "go", store=store))
    state.approve(state.get_interruptions()[0])
    store.crash_at(1, when)
    with pytest.raises(Crash):
        await drive(ops.agent, state, store=store)
    return state


async def test_a_claim_that_could_not_be_written_runs_no_body_and_the_call_can_be_run_later():
    store = CrashingStore(MemoryStore())
    ops = scene([cleanup("/a", "c1")], DONE)

    state = await crashed_at_the_claim(ops, store, "before")
    effects_at_crash = list(ops.effects)
    result = await drive(ops.agent, state, store=store)

    assert effects_at_crash == []
    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a"]


async def test_a_claim_that_was_written_by_a_drive_that_crashed_then_is_in_doubt():
    store = CrashingStore(MemoryStore())
    ops = scene([cleanup("/a", "c1")], DONE)

    state = await crashed_at_the_claim(ops, store, "after")
    result = await drive(ops.agent, state, store=store)

    assert ops.effects == []
    assert [item.kind for item in result.interruptions] == ["in_doubt"]


async def test_a_stream_cancelled_while_a_body_runs_leaves_a_doubt_and_keeps_what_was_done():
    begun = asyncio.Event()

    @function_tool
    async def endless() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    ops = scene([diagnose("d1"), function_call("endless", {}, call_id="e1")], DONE, tools=(endless,))
    result = Runner.run_streamed(ops.agent, "go")
    await asyncio.wait_for(begun.wait(), SECONDS)

    result.cancel()
    async with asyncio.timeout(SECONDS):
        async for _ in result.stream_events():
            pass
    again = await drive(ops.agent, result.to_state())

    assert [(item.kind, item.call_id) for item in again.interruptions] == [("in_doubt", "e1")]
    assert ops.effects == ["diagnose"]


class HoldingStore(MemoryStore):
    """A store on which a test can hold things back."""

    def __init__(self):
        super().__init__()
        self.held = []

    async def holds(self):
        return list(self.held)


async def test_in_a_fork_what_was_started_stays_done_and_what_waits_can_be_decided_otherwise():
    ops = scene([diagnose("d1"), cleanup("/a", "c1")], DONE, DONE)
    state = (await drive(ops.agent, "go")).to_state()
    fork = state.fork()
    state.approve(state.get_interruptions()[0])
    fork.reject(fork.get_interruptions()[0], rejection_message="not in this one")

    await drive(ops.agent, state)
    await drive(ops.agent, fork)

    assert fork.run_id != state.run_id
    assert ops.effects == ["diagnose", "cleanup /a"]
    assert ops.sent(1) == [("d1", "disk is full"), ("c1", "cleaned /a")]
    assert ops.sent(2) == [("d1", "disk is full"), ("c1", "not in this one")]


@pytest.mark.parametrize("how", ["staged", "in the log", "by a grant", "for always"])
async def test_one_yes_does_not_pay_twice_in_a_fork(how):
    ops = scene([cleanup("/a", "c1"), cleanup("/b", "c2")], [cleanup("/c", "c3")], DONE)
    store = HoldingStore()
    paused = await drive(ops.agent, "go", store=store)
    state = paused.to_state()
    state.approve(item_of(state, "c1"), always_approve=how in ("by a grant", "for always"), by="ann")
    if how not in ("staged", "for always"):
        store.held.append(Hold(kind="tool", name="cleanup", by=None, at=0.0))
        state = (await drive(ops.agent, state, store=store)).to_state()  # approved, in the log, and not begun
        store.held.clear()

    fork = await reloaded(ops.agent, state.fork())
    result = await drive(ops.agent, state, store=store)
    copy = await drive(ops.agent, fork, store=store)

    assert [item.call_id for item in copy.interruptions] == ["c1", "c2"]
    assert all(item.kind == "approval" for item in copy.interruptions)
    ran = ["cleanup /a"] if how in ("staged", "in the log") else ["cleanup /a", "cleanup /b", "cleanup /c"]
    assert ops.effects == ran
    assert result.interruptions or result.final_output == "done"


async def test_what_is_always_approved_in_a_run_is_asked_about_in_its_fork_and_what_is_never_stays_so():
    ops = scene([cleanup("/a", "c1"), refund(1, "r1"), refund(2, "r2")], [cleanup("/b", "c2"), refund(3, "r3")])
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True)
    state = (await drive(ops.agent, state)).to_state()
    state.reject(item_of(state, "r1"), always_reject=True)

    result = await drive(ops.agent, state.fork())

    assert [item.call_id for item in result.interruptions] == ["c2"]
    assert ops.effects == ["cleanup /a"]


async def test_in_a_fork_what_was_to_run_again_after_doubt_is_asked_about_anew():
    @function_tool(needs_approval=True)
    async def lost() -> str:
        ops.effects.append("lost")
        raise ToolOutcomeUnknown("nobody knows")

    ops = scene([function_call("lost", {}, call_id="l")], DONE, tools=(lost,))
    store = HoldingStore()
    state = (await drive(ops.agent, "go", store=store)).to_state()
    state.approve(item_of(state, "l"))
    state = (await drive(ops.agent, state, store=store)).to_state()
    state.approve(item_of(state, "l"))
    store.held.append(Hold(kind="tool", name="lost", by=None, at=0.0))
    state = (await drive(ops.agent, state, store=store)).to_state()

    fork = state.fork()

    assert [(item.kind, item.call_id) for item in fork.get_interruptions()] == [("in_doubt", "l")]
    assert ops.effects == ["lost"]


async def test_a_history_that_differs_from_the_stores_is_refused():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    document = state.to_json()
    document["log"][0][0] += 1  # another moment: another history
    other = await RunState.from_json(ops.agent, document)
    other.approve(other.get_interruptions()[0])

    with pytest.raises(RunConflict, match="differ"):
        await drive(ops.agent, other)

    assert ops.effects == []


async def test_a_state_that_knows_more_than_the_store_is_taken_over():
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2")], DONE)
    here, there = MemoryStore(), MemoryStore()
    first = await drive(ops.agent, "go", store=here)
    second = await approve_all(ops.agent, first, store=here)
    await drive(ops.agent, await reloaded(ops.agent, first), store=there)

    result = await approve_all(ops.agent, second, store=there)

    assert result.final_output == "done"
    assert ops.effects == ["cleanup /a", "cleanup /b"]


class Driver:
    """Whoever drives a run: its lease lives as long as this."""


async def test_a_drive_that_was_taken_over_can_append_nothing():
    store = default_store()
    ops = scene([cleanup("/a", "c1")])
    paused = await drive(ops.agent, "go")
    stored = await store.load(paused.run_id)
    frozen, successor = Driver(), Driver()
    lease = await store.lease(paused.run_id, frozen)
    del frozen
    await store.lease(paused.run_id, successor)

    with pytest.raises(RunConflict, match="taken over"):
        await store.append(lease, stored.log, [], paused.to_state()._run)


async def test_an_append_that_does_not_follow_the_end_of_the_log_is_refused():
    store = default_store()
    ops = scene([cleanup("/a", "c1")])
    paused = await drive(ops.agent, "go")
    stored = await store.load(paused.run_id)
    driver = Driver()
    lease = await store.lease(paused.run_id, driver)
    behind = Log(stored.log.run_id, stored.log.key)

    with pytest.raises(PositionConflict):
        await store.append(lease, behind, [], paused.to_state()._run)


async def test_a_store_that_was_given_is_used_although_nothing_is_in_it_yet():
    store = MemoryStore()
    ops = scene([cleanup("/a", "c1")])

    paused = await drive(ops.agent, "go", store=store)

    assert await store.load(paused.run_id) is not None
    assert await default_store().load(paused.run_id) is None


async def test_a_drive_begun_by_hand_and_resumed_runs_each_body_once():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = RunState(RunContextWrapper(None), "go", ops.agent)

    paused = await drive(ops.agent, state)
    again = await drive(ops.agent, state)
    await approve_all(ops.agent, paused)

    assert [item.id for item in again.interruptions] == [item.id for item in paused.interruptions]
    assert ops.effects == ["cleanup /a"]
    assert len(ops.model.calls) == 2
