"""What «correct» means for a store, as tests that every store inherits.

    class TestMyStore(StoreContract):
        async def make_store(self) -> Store:
            return MyStore(…)

The tests are coroutines with sentences for names: pytest runs them with pytest-asyncio in auto mode. A store that is
used from several threads inherits `ThreadedStoreContract` instead.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

from placet.core.fold import fold
from placet.core.log import Line, Log, read_line
from placet.core.state import RunFold
from placet.facts.codec import JsonObject
from placet.facts.errors import PositionConflict, RunConflict
from placet.facts.events import (
    AnyFact,
    CallEnded,
    CallHeld,
    CallsStarted,
    DecisionMade,
    GrantMade,
    GrantRevoked,
    RequestSent,
    ResponseReceived,
    RunEnded,
    RunStarted,
    TurnLimitSet,
    Usage,
)
from placet.facts.ids import mint, session_key
from placet.ports import Lease, Store, StoredRun

AGENT = "Clerk"
AT = 1_800_000_000.0


class Driver:
    """Stands for the driver of a run: while it lives, its lease does."""


class Run:
    """A run as its driver holds it: the log so far, and its fold."""

    def __init__(self, session: str | None = None, place: str | None = None) -> None:
        self.log = Log(mint("run"), os.urandom(16))
        self.fold = RunFold()
        self._session = session
        self._place = place

    @property
    def id(self) -> str:
        return self.log.run_id

    def prepare(self, *batches: Sequence[AnyFact]) -> tuple[list[Line], RunFold]:
        """The lines that would hold these facts, one per batch, and the fold with them. The run stays as it is."""
        ahead, run = self.log.copy(), self.fold.copy()
        lines: list[Line] = []
        for facts in batches:
            fold(facts, into=run)
            lines.append(ahead.next_line(AT, facts))
            ahead.append(lines[-1])
        return lines, run

    async def append(self, store: Store, lease: Lease | None, *batches: Sequence[AnyFact]) -> None:
        lines, run = self.prepare(*batches)
        await store.append(lease, self.log, lines, run)
        self.fold = run
        for line in lines:
            self.log.append(line)

    # -- what happens in it -------------------------------------------------------------------------------------------

    @property
    def begins(self) -> list[AnyFact]:
        started = RunStarted(AGENT, "Grüße, 世界 ✓", 10, session=self._session, session_place=self._place)
        return [started, RequestSent()]

    @property
    def pauses(self) -> list[AnyFact]:
        output: list[JsonObject] = [{"type": "function_call", "name": "refund", "arguments": "{}", "call_id": "a"}]
        return [ResponseReceived("resp_1", output, Usage(1)), CallHeld("1.0", "digest", "function:refund", "print")]

    @property
    def is_decided(self) -> list[AnyFact]:
        return [DecisionMade("1.0", 1, "digest", "approve", "ann", AT)]

    @property
    def ends(self) -> list[AnyFact]:
        answer: list[JsonObject] = [{"type": "message", "role": "assistant", "content": "done"}]
        return [
            CallsStarted(["1.0"]),
            CallEnded("1.0", "finished", "refunded"),
            RequestSent(),
            ResponseReceived("resp_2", answer, Usage(1)),
            RunEnded("done"),
        ]

    async def pause_in(self, store: Store) -> Run:
        await self.append(store, None, self.begins, self.pauses)
        return self

    async def end_in(self, store: Store) -> Run:
        await self.append(store, None, self.begins, self.pauses, self.is_decided, self.ends)
        return self


def a_grant(*, agent: str = AGENT, scope: Literal["run", "agent"] = "agent", uses: int | None = None) -> GrantMade:
    return GrantMade(mint("grant"), agent, "function:refund", "print", "approve", "ann", AT, scope=scope, uses=uses)


async def refused(error: type[Exception], attempt: Awaitable[object]) -> None:
    """The attempt raises this error and no other."""
    try:
        await attempt
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


async def loaded(store: Store, run_id: str) -> StoredRun:
    found = await store.load(run_id)
    assert found is not None, "the store does not know the run"
    return found


async def lines_of(store: Store, run_id: str) -> list[bytes]:
    found = await loaded(store, run_id)
    assert found.log is not None
    return list(found.log.lines)


def outcome_of(found: StoredRun) -> RunFold:
    """The fold of an ended run, from its log or from what is left of it."""
    if found.log is None:
        assert found.outline is not None, "of an ended run a store keeps the log or an outline"
        return found.outline
    return fold([fact for line in found.log.lines for fact in read_line(line).facts])


class StoreContract:
    """Inherit, and say with `make_store` how an empty store is made."""

    async def make_store(self) -> Store:
        raise NotImplementedError("make_store gives a new, empty store")

    # -- what is kept -------------------------------------------------------------------------------------------------

    async def test_a_run_that_was_never_appended_to_is_unknown(self) -> None:
        store = await self.make_store()

        assert await store.load(mint("run")) is None

    async def test_what_was_appended_is_loaded_byte_by_byte_and_in_order(self) -> None:
        store, run = await self.make_store(), Run()
        await run.append(store, None, run.begins)
        await run.append(store, None, run.pauses, run.is_decided)

        found = await loaded(store, run.id)

        assert found.log is not None
        assert (found.length, found.head) == (3, run.log.head)
        assert found.log.lines == run.log.lines
        assert (found.log.run_id, found.log.key, found.log.head) == (run.id, run.log.key, run.log.head)
        assert found.log.verify()

    async def test_runs_do_not_mix(self) -> None:
        store, one, other = await self.make_store(), Run(), Run()
        await one.append(store, None, one.begins)
        await other.append(store, None, other.begins)
        await one.append(store, None, one.pauses)

        assert await lines_of(store, one.id) == one.log.lines
        assert await lines_of(store, other.id) == other.log.lines

    async def test_what_was_loaded_is_a_value_that_no_later_append_changes(self) -> None:
        store = await self.make_store()
        run = await Run().pause_in(store)
        before = await loaded(store, run.id)
        await run.append(store, None, run.is_decided)

        assert before.log is not None
        assert (before.length, len(before.log)) == (2, 2)
        assert before.log.head == before.head != run.log.head

    async def test_changing_what_was_loaded_does_not_change_the_store(self) -> None:
        store = await self.make_store()
        run = await Run().pause_in(store)
        mine = await loaded(store, run.id)
        assert mine.log is not None
        mine.log.lines.clear()
        mine.log.head = b""

        assert await lines_of(store, run.id) == run.log.lines

    async def test_the_log_that_was_appended_to_stays_the_callers_own(self) -> None:
        store, run = await self.make_store(), Run()
        lines, after = run.prepare(run.begins)
        await store.append(None, run.log, lines, after)
        fold(run.pauses, into=after)

        assert len(run.log) == 0
        assert await lines_of(store, run.id) == [lines[0].text]

    # -- positions ----------------------------------------------------------------------------------------------------

    async def test_an_append_behind_the_end_or_before_it_is_refused_and_changes_nothing(self) -> None:
        store, run = await self.make_store(), Run()
        await run.append(store, None, run.begins)
        early = Log(run.id, run.log.key)
        late = run.log.copy()
        late.append(late.next_line(AT, run.pauses))
        lines, after = run.prepare(run.pauses)

        await refused(PositionConflict, store.append(None, early, lines, after))
        await refused(PositionConflict, store.append(None, late, lines, after))
        assert await lines_of(store, run.id) == run.log.lines

    async def test_an_unknown_run_can_only_be_begun_at_its_beginning(self) -> None:
        store, run = await self.make_store(), Run()
        run.log.append(run.log.next_line(AT, run.begins))
        fold(run.begins, into=run.fold)
        lines, after = run.prepare(run.pauses)

        await refused(PositionConflict, store.append(None, run.log, lines, after))
        assert await store.load(run.id) is None

    async def test_of_a_batch_that_comes_too_late_nothing_is_kept(self) -> None:
        store, run = await self.make_store(), Run()
        await run.append(store, None, run.begins)
        grant = a_grant()
        lines, after = run.prepare(run.pauses, [grant], run.is_decided)
        await run.append(store, None, [TurnLimitSet(3)])
        stale = Log(run.id, run.log.key, lines[0].head, run.log.lines[:1])

        await refused(PositionConflict, store.append(None, stale, lines, after))
        assert await lines_of(store, run.id) == run.log.lines
        assert list(await store.standing_grants(AGENT)) == []

    async def test_of_many_appends_at_one_position_exactly_one_wins(self) -> None:
        store, run = await self.make_store(), Run()
        await run.append(store, None, run.begins)
        attempts = [run.prepare([TurnLimitSet(number)]) for number in range(12)]

        outcomes = await asyncio.gather(
            *(store.append(None, run.log, lines, after) for lines, after in attempts), return_exceptions=True
        )

        winners = [index for index, outcome in enumerate(outcomes) if outcome is None]
        assert len(winners) == 1
        assert all(isinstance(each, PositionConflict) for each in outcomes if each is not None)
        assert await lines_of(store, run.id) == [*run.log.lines, attempts[winners[0]][0][0].text]

    # -- leases -------------------------------------------------------------------------------------------------------

    async def test_one_drives_and_the_others_are_told_so_at_once(self) -> None:
        store, run, driver, other = await self.make_store(), Run(), Driver(), Driver()
        lease = await store.lease(run.id, driver)
        await run.append(store, lease, run.begins)

        await refused(RunConflict, store.lease(run.id, other))
        assert lease.run_id == run.id
        assert await store.lease(mint("run"), other) is not None

    async def test_of_many_who_want_to_drive_exactly_one_may(self) -> None:
        store, run, drivers = await self.make_store(), Run(), [Driver() for _ in range(12)]

        outcomes = await asyncio.gather(*(store.lease(run.id, each) for each in drivers), return_exceptions=True)

        assert sum(isinstance(each, Lease) for each in outcomes) == 1
        assert sum(isinstance(each, RunConflict) for each in outcomes) == len(drivers) - 1

    async def test_a_lease_that_was_given_back_is_void_and_the_next_one_has_a_later_epoch(self) -> None:
        store, run, driver, other = await self.make_store(), Run(), Driver(), Driver()
        first = await store.lease(run.id, driver)
        await run.append(store, first, run.begins)
        is_free = await store.release(first, len(run.log))
        lines, after = run.prepare(run.pauses)

        await refused(RunConflict, store.append(first, run.log, lines, after))
        second = await store.lease(run.id, other)
        await refused(RunConflict, store.append(first, run.log, lines, after))
        await store.append(second, run.log, lines, after)
        assert is_free
        assert second.epoch > first.epoch

    async def test_a_lease_given_back_twice_does_not_take_the_next_drivers_away(self) -> None:
        store, run, driver, other, third = await self.make_store(), Run(), Driver(), Driver(), Driver()
        first = await store.lease(run.id, driver)
        await store.release(first, 0)
        second = await store.lease(run.id, other)
        await store.release(first, 0)

        await refused(RunConflict, store.lease(run.id, third))
        await run.append(store, second, run.begins)

    async def test_a_driver_that_is_gone_is_followed_by_another_and_can_append_nothing(self) -> None:
        store, run, driver, other = await self.make_store(), Run(), Driver(), Driver()
        lost = await store.lease(run.id, driver)
        await run.append(store, lost, run.begins)
        del driver
        gc.collect()

        lease = await store.lease(run.id, other)

        lines, after = run.prepare(run.pauses)
        await refused(RunConflict, store.append(lost, run.log, lines, after))
        await store.append(lease, run.log, lines, after)
        assert lease.epoch > lost.epoch

    async def test_a_decision_from_outside_needs_no_lease_and_the_driver_runs_into_it(self) -> None:
        store, run, driver = await self.make_store(), Run(), Driver()
        lease = await store.lease(run.id, driver)
        await run.append(store, lease, run.begins, run.pauses)
        mine = run.prepare([TurnLimitSet(3)])
        behind = run.log.copy()
        await run.append(store, None, run.is_decided)

        await refused(PositionConflict, store.append(lease, behind, *mine))
        assert await lines_of(store, run.id) == run.log.lines

    async def test_a_lease_is_not_given_back_while_the_log_holds_more_than_its_driver_knows(self) -> None:
        store, run, driver, other = await self.make_store(), Run(), Driver(), Driver()
        lease = await store.lease(run.id, driver)
        await run.append(store, lease, run.begins, run.pauses)
        known = len(run.log)
        await run.append(store, None, run.is_decided)

        assert not await store.release(lease, known)
        await refused(RunConflict, store.lease(run.id, other))
        assert await store.release(lease, len(run.log))
        assert await store.lease(run.id, other) is not None

    # -- runs that have ended -----------------------------------------------------------------------------------------

    async def test_an_ended_run_is_remembered_with_its_result_its_decisions_and_its_length(self) -> None:
        store = await self.make_store()
        run = await Run().end_in(store)

        found = await loaded(store, run.id)

        outcome = outcome_of(found)
        entry = outcome.ledger.entry("1.0")
        assert (found.length, found.head) == (4, run.log.head)
        assert (outcome.has_ended, outcome.final_output) == (True, "done")
        assert outcome.usage.requests == 2
        assert entry is not None
        assert entry.decision is not None
        assert entry.decision.by == "ann"

    async def test_nothing_follows_the_end_of_a_run(self) -> None:
        store = await self.make_store()
        run = await Run().end_in(store)
        line = run.log.next_line(AT, [TurnLimitSet(3)])

        await refused(PositionConflict, store.append(None, run.log, [line], run.fold))
        await refused(PositionConflict, store.append(None, Log(run.id, run.log.key), *Run().prepare(run.begins)))
        assert (await loaded(store, run.id)).length == len(run.log)

    async def test_an_ended_run_can_be_leased_and_given_back_like_any_other(self) -> None:
        store, driver, other = await self.make_store(), Driver(), Driver()
        run = await Run().end_in(store)
        lease = await store.lease(run.id, driver)

        await refused(RunConflict, store.lease(run.id, other))
        assert await store.release(lease, len(run.log))
        assert await store.lease(run.id, other) is not None

    async def test_changing_what_was_loaded_of_an_ended_run_does_not_change_the_store(self) -> None:
        store = await self.make_store()
        run = await Run().end_in(store)
        mine = outcome_of(await loaded(store, run.id))
        mine.history.append({"role": "user", "content": "mine"})
        mine.usage.add(Usage(100))
        mine.final_output = "mine"
        mine.ledger.add_grant(a_grant())

        kept = outcome_of(await loaded(store, run.id))

        assert {"role": "user", "content": "mine"} not in kept.history
        assert (kept.final_output, kept.usage.requests, kept.ledger.grants()) == ("done", 2, ())

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def test_a_store_knows_which_run_waits_on_a_session(self) -> None:
        store, run, other = await self.make_store(), Run("letters"), Run("numbers")
        await run.append(store, None, run.begins)
        await other.append(store, None, other.begins)
        before = await store.waiting_on("letters")
        await run.append(store, None, run.pauses)

        assert before == []
        assert await store.waiting_on("letters") == [run.id]
        assert await store.waiting_on("numbers") == []
        assert await store.waiting_on("unknown") == []

    async def test_sessions_with_one_id_in_two_places_are_two_sessions(self) -> None:
        store, here, there = await self.make_store(), Run("letters", "here"), Run("letters", "there")
        await here.append(store, None, here.begins, here.pauses)
        await there.append(store, None, there.begins, there.pauses)

        assert await store.waiting_on(session_key("letters", "here")) == [here.id]
        assert await store.waiting_on(session_key("letters", "there")) == [there.id]
        assert await store.waiting_on(session_key("letters", "elsewhere")) == []
        assert await store.waiting_on("letters") == []

    async def test_runs_that_do_not_know_where_their_session_is_kept_are_found_newest_first(self) -> None:
        store, one, other = await self.make_store(), Run("letters"), Run("letters", "object_1")
        await one.append(store, None, one.begins, one.pauses)
        await other.append(store, None, other.begins, other.pauses)

        assert await store.waiting_on("letters") == [other.id, one.id]

    async def test_a_session_on_which_a_run_has_ended_is_free_again(self) -> None:
        store, run = await self.make_store(), Run("letters")
        await run.append(store, None, run.begins, run.pauses)
        await run.append(store, None, run.is_decided, run.ends)

        assert await store.waiting_on("letters") == []

    # -- standing grants ----------------------------------------------------------------------------------------------

    async def test_a_grant_that_reaches_beyond_its_run_stands_for_its_agent_alone(self) -> None:
        store = await self.make_store()
        run = await Run().pause_in(store)
        wide, narrow, others = a_grant(), a_grant(scope="run"), a_grant(agent="Other")
        await run.append(store, None, [wide, narrow, others])

        assert list(await store.standing_grants(AGENT)) == [wide]
        assert list(await store.standing_grants("Other")) == [others]
        assert list(await store.standing_grants("Nobody")) == []

    async def test_a_standing_grant_outlives_its_run_and_ends_when_it_is_taken_back(self) -> None:
        store = await self.make_store()
        run, later = await Run().pause_in(store), Run()
        grant = a_grant()
        await run.append(store, None, [grant], run.is_decided, run.ends)
        after_the_end = list(await store.standing_grants(AGENT))
        await later.append(store, None, later.begins, [GrantRevoked(grant.id, "ann", AT)])

        assert after_the_end == [grant]
        assert list(await store.standing_grants(AGENT)) == []

    async def test_the_uses_of_a_standing_grant_are_counted_once_for_each_call(self) -> None:
        store = await self.make_store()
        run = await Run().pause_in(store)
        grant = a_grant(uses=2)
        await run.append(store, None, [grant])
        answers = [await store.use_grant(grant, call) for call in ("one", "two", "one", "three", "two")]

        assert answers == [True, True, True, False, True]

    async def test_a_grant_without_a_count_can_be_used_without_end(self) -> None:
        store = await self.make_store()
        run = await Run().pause_in(store)
        grant, counted = a_grant(), a_grant(uses=1)
        await run.append(store, None, [grant, counted])

        assert all([await store.use_grant(grant, str(number)) for number in range(50)])
        assert await store.use_grant(counted, "one")

    async def test_of_many_uses_at_once_no_more_are_allowed_than_were_granted(self) -> None:
        store = await self.make_store()
        run = await Run().pause_in(store)
        grant = a_grant(uses=3)
        await run.append(store, None, [grant])

        answers = await asyncio.gather(*(store.use_grant(grant, f"call {number}") for number in range(12)))

        assert sum(answers) == 3


class ThreadedStoreContract(StoreContract):
    """For stores that are one object for all threads and event loops of a process."""

    async def test_of_many_threads_that_append_at_one_position_exactly_one_wins(self) -> None:
        store, run = await self.make_store(), Run()
        await run.append(store, None, run.begins)
        attempts = [run.prepare([TurnLimitSet(number)]) for number in range(8)]

        outcomes = await in_threads([partial(store.append, None, run.log, *attempt) for attempt in attempts])

        winners = [index for index, outcome in enumerate(outcomes) if outcome is None]
        assert len(winners) == 1
        assert all(isinstance(each, PositionConflict) for each in outcomes if each is not None)
        assert await lines_of(store, run.id) == [*run.log.lines, attempts[winners[0]][0][0].text]

    async def test_of_many_threads_that_want_to_drive_exactly_one_may(self) -> None:
        store, run, drivers = await self.make_store(), Run(), [Driver() for _ in range(8)]

        outcomes = await in_threads([partial(store.lease, run.id, each) for each in drivers])

        assert sum(isinstance(each, Lease) for each in outcomes) == 1
        assert sum(isinstance(each, RunConflict) for each in outcomes) == len(drivers) - 1

    async def test_threads_that_write_different_runs_and_read_all_of_them_see_whole_logs(self) -> None:
        store, runs = await self.make_store(), [Run() for _ in range(8)]

        async def write(run: Run) -> None:
            first = (run.begins, run.pauses)
            await run.append(store, None, *first)
            for number in range(30):
                await run.append(store, None, [TurnLimitSet(number)])
                for other in runs:
                    found = await store.load(other.id)
                    assert found is None or found.log is None or len(found.log) == found.length >= len(first)
            await run.append(store, None, run.is_decided, run.ends)

        outcomes = await in_threads([partial(write, run) for run in runs])

        assert outcomes == [None] * len(runs)
        assert [(await loaded(store, run.id)).head for run in runs] == [run.log.head for run in runs]

    async def test_of_many_threads_no_more_use_a_grant_than_it_allows(self) -> None:
        store = await self.make_store()
        run = await Run().pause_in(store)
        grant = a_grant(uses=3)
        await run.append(store, None, [grant])

        answers = await in_threads([partial(store.use_grant, grant, f"call {number}") for number in range(8)])

        assert answers.count(True) == 3
        assert answers.count(False) == 5


async def in_threads(jobs: Sequence[Callable[[], Coroutine[Any, Any, object]]]) -> list[object]:
    """What each job gave or raised: each in a thread and an event loop of its own, all begun at the same moment."""
    gate = threading.Barrier(len(jobs))

    def work(job: Callable[[], Coroutine[Any, Any, object]]) -> object:
        gate.wait(timeout=120)
        try:
            return asyncio.run(job())
        except Exception as error:  # noqa: BLE001  # it is the outcome that is asked for
            return error

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(jobs)) as threads:
        return list(await asyncio.gather(*(loop.run_in_executor(threads, work, job) for job in jobs)))
