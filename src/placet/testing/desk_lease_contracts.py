"""What every store that a desk can use must do for drivers: a part of `DeskStoreContract`."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time

from placet.core.log import Log
from placet.core.state import RunFold
from placet.facts import events as e
from placet.facts.errors import RunConflict
from placet.ports import DeskStore, Lease, RunQuery
from placet.testing.audit_contracts import AuditContract
from placet.testing.run_writer import SHORT_TTL, TTL, Driver, RunWriter, lines_after, refused, until


class DeskLeaseContract(AuditContract):
    """Who drives a run, and which runs have something to do."""

    # -- leases -----------------------------------------------------------------------------------------------------

    async def test_one_at_a_time_drives_a_run_and_the_other_is_told_who_does(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            await story.begin(one)
            driver, second = Driver(), Driver()
            lease = await one.lease(story.id, driver)

            error = await refused(RunConflict, other.lease(story.id, second))
            again = await refused(RunConflict, one.lease(story.id, second))
            assert await one.release(lease, 1)
            await other.lease(story.id, second)
            assert f"process {os.getpid()}" in error.message
            assert f"process {os.getpid()}" in again.message
            row = await one.run(story.id)
            assert row is not None
            assert row.takeovers == 0

    async def test_a_lease_says_where_the_log_stands_also_after_others_have_appended(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            await story.begin(one)
            first = await one.lease(story.id, driver := Driver())
            await story.append(one, e.TurnLimitSet(7), lease=first)
            assert await one.release(first, 2)
            second = await other.lease(story.id, later := Driver())

            assert first.stands_at is not None
            assert first.stands_at[0] == 1
            assert second.stands_at == (2, story.log.head)
            assert driver is not later

    async def test_of_many_who_want_a_run_at_once_one_gets_it(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            drivers = [Driver() for _ in range(8)]

            results = await asyncio.gather(
                *((one, other)[n % 2].lease(story.id, driver) for n, driver in enumerate(drivers)),
                return_exceptions=True,
            )

            assert sum(isinstance(result, Lease) for result in results) == 1
            assert sum(isinstance(result, RunConflict) for result in results) == 7

    async def test_a_lease_is_renewed_for_as_long_as_its_driver_lives(self) -> None:
        async with self.two_stores(SHORT_TTL) as (one, other):
            story = RunWriter()
            driver = Driver()
            lease = await one.lease(story.id, driver)
            first_end = lease.live_until
            await asyncio.sleep(SHORT_TTL * 1.2)

            assert lease.live_until > first_end
            await refused(RunConflict, other.lease(story.id, Driver()))

            del driver
            gc.collect()
            await until(lambda: _can_lease(other, story.id))

    async def test_a_driver_that_is_gone_is_not_waited_for_where_it_was(self) -> None:
        async with self.open_store(lease_ttl=3600) as store:
            story = RunWriter()
            await story.begin(store)
            driver = Driver()
            former = await store.lease(story.id, driver)
            del driver
            gc.collect()

            later = Driver()
            lease = await store.lease(story.id, later)
            assert lease.epoch > former.epoch
            await refused(RunConflict, store.append(former, story.log, lines_after(story.log, 1), story.run))
            row = await store.run(story.id)
            assert row is not None
            assert row.takeovers == 1

    async def test_an_append_under_a_lease_that_was_given_back_is_refused(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            await story.begin(store)
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await store.release(lease, 1)

            await refused(RunConflict, store.append(lease, story.log, lines_after(story.log, 1), story.run))
            assert await store.release(lease, 1)

    async def test_the_append_with_which_a_driver_is_done_may_give_its_lease_back(self) -> None:
        async with self.two_stores(3600) as (one, other):
            story = RunWriter()
            await story.begin(one)
            driver, next_driver = Driver(), Driver()
            lease = await one.lease(story.id, driver)
            lines = lines_after(story.log, 2)
            lease.ends_at = 3
            await one.append(lease, story.log, lines[:1], story.run)
            for_one_line = lease.is_given_back
            await refused(RunConflict, other.lease(story.id, next_driver))
            ahead = story.log.copy()
            ahead.append(lines[0])
            await one.append(lease, ahead, lines[1:], story.run)
            ahead.append(lines[1])

            assert not for_one_line
            if lease.is_given_back:
                await refused(RunConflict, one.append(lease, ahead, lines_after(ahead, 1), story.run))
            assert await one.release(lease, 3)
            await other.lease(story.id, next_driver)
            assert await one.release(lease, 3), "what was given back before is nobody else's to end"
            await refused(RunConflict, one.lease(story.id, driver))
            row = await one.run(story.id)
            assert row is not None
            assert row.takeovers == 0

    async def test_a_lease_of_a_run_that_never_began_leaves_nothing(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            driver = Driver()
            first = await store.lease("run_never", driver)
            listed = await store.runs(RunQuery())
            loaded = await store.load("run_never")
            runnable = await store.runnable(time.time(), 10)
            await store.release(first, sys.maxsize)
            second = await store.lease("run_never", driver)

            assert (listed.rows, loaded, runnable) == ([], None, [])
            assert second.epoch > first.epoch
            await refused(
                RunConflict,
                store.append(first, Log("run_never", b"k" * 16), lines_after(RunWriter().log, 1), RunFold()),
            )

    async def test_a_driver_does_not_give_a_run_back_before_it_has_seen_what_came_from_outside(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            driver = Driver()
            lease = await one.lease(story.id, driver)
            await story.ask(one, "pay", lease=lease)
            await story.decide(other)

            assert not await one.release(lease, 2)
            await refused(RunConflict, other.lease(story.id, Driver()))
            assert await one.release(lease, 3)

    # -- what is to be done -----------------------------------------------------------------------------------------

    async def test_what_comes_from_outside_makes_a_run_runnable_until_a_driver_has_seen_it(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            await story.ask(store, "pay")
            begun = await store.runnable(0.0, 10)
            driver = Driver()
            lease = await store.lease(story.id, driver)
            driven = await store.runnable(0.0, 10)
            await store.release(lease, 2)
            seen = await store.runnable(0.0, 10)
            await story.decide(store)

            assert (begun, driven, seen) == ([story.id], [], [])
            assert await store.runnable(0.0, 10) == [story.id]

    async def test_those_that_have_waited_longest_come_first(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            late, early = RunWriter(at=2000.0), RunWriter(at=1000.0)
            await late.begin(store)
            await early.begin(store)

            assert await store.runnable(0.0, 10) == [early.id, late.id]
            assert await store.runnable(0.0, 1) == [early.id]

    async def test_the_run_of_a_driver_that_died_is_runnable_when_its_lease_is_over_and_the_take_over_is_counted(
        self,
    ) -> None:
        async with self.open_store(lease_ttl=SHORT_TTL) as store:
            story = RunWriter()
            driver = Driver()
            former = await store.lease(story.id, driver)
            await story.begin(store, former)
            del driver
            gc.collect()

            async def is_runnable() -> bool:
                return await store.runnable(0.0, 10) == [story.id]

            await until(is_runnable)
            later = Driver()
            lease = await store.lease(story.id, later)
            await refused(RunConflict, store.append(former, story.log, lines_after(story.log, 1), story.run))
            await store.append(lease, story.log, lines_after(story.log, 1), story.run)
            row = await store.run(story.id)
            assert row is not None
            assert row.takeovers == 1

    async def test_a_driver_that_gives_up_in_the_middle_leaves_the_run_to_others(self) -> None:
        async with self.open_store(lease_ttl=SHORT_TTL) as store:
            story = RunWriter()
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await story.begin(store, lease)
            await store.release(lease, sys.maxsize)

            async def is_runnable() -> bool:
                return await store.runnable(0.0, 10) == [story.id]

            await until(is_runnable)

    async def test_a_run_that_an_error_stopped_waits_to_be_resumed(self) -> None:
        async with self.open_store(lease_ttl=0.1) as store:
            story = RunWriter()
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await story.begin(store, lease)
            await story.append(store, e.RunStopped("error", "ValueError"), lease=lease)
            await store.release(lease, sys.maxsize)

            row = await store.run(story.id)
            assert row is not None
            assert not row.has_news

    async def test_what_came_while_a_driver_was_failing_is_not_forgotten(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            driver = Driver()
            lease = await one.lease(story.id, driver)
            await story.ask(one, "pay", lease=lease)
            await story.append(one, e.RunStopped("error", "ValueError"), lease=lease)
            await story.decide(other)
            await one.release(lease, sys.maxsize)

            row = await other.run(story.id)
            assert row is not None
            assert row.has_news

    async def test_a_deadline_makes_a_run_runnable_when_its_time_has_come_and_not_before(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await story.ask(store, "pay", lease=lease, expires_at=9000.0)
            await store.release(lease, 2)

            row = await store.run(story.id)
            assert row is not None
            assert row.wake_at == 9000.0
            assert await store.runnable(8999.0, 10) == []
            assert await store.runnable(9000.0, 10) == [story.id]

            lease = await store.lease(story.id, driver)
            await story.append(store, e.CallEnded("1.0", "expired", "too late"), lease=lease)
            await store.release(lease, 3)
            assert await store.runnable(9000.0, 10) == []

    async def test_a_parked_run_is_not_runnable_until_it_is_put_back_with_its_take_overs_forgotten(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            await story.begin(store)
            for _ in range(2):
                await store.lease(story.id, Driver())  # whose driver is gone at once
                gc.collect()
            last = Driver()
            lease = await store.lease(story.id, last)
            await store.release(lease, 1)
            await story.append(store, e.TurnLimitSet(3))
            await store.park(story.id, parked=True)
            parked, runnable = await store.run(story.id), await store.runnable(0.0, 10)
            await store.park(story.id, parked=False)
            back = await store.run(story.id)

            assert parked is not None
            assert back is not None
            assert (parked.is_parked, parked.takeovers, runnable) == (True, 2, [])
            assert (back.is_parked, back.takeovers) == (False, 0)
            assert await store.runnable(0.0, 10) == [story.id]


async def _can_lease(store: DeskStore, run_id: str) -> bool:
    try:
        await store.release(await store.lease(run_id, Driver()), sys.maxsize)
    except RunConflict:
        return False
    return True
