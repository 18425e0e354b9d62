"""What every store that a desk can use must do: inherit `DeskStoreContract`, say how to open one, and run it with
pytest (`asyncio_mode = "auto"`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from placet.core.log import Line, Log
from placet.facts import events as e
from placet.facts.errors import PositionConflict, RunConflict, StoreError
from placet.ports import DeskStore, Hold, RequestQuery, RunQuery
from placet.testing.desk_lease_contracts import DeskLeaseContract
from placet.testing.desk_list_contracts import DeskListContract
from placet.testing.run_writer import (
    PATIENCE,
    SOON,
    TTL,
    Driver,
    RunWriter,
    a_grant,
    lines_after,
    refused,
    until,
    within,
)
from placet.testing.search_contract import SearchContract

__all__ = [
    "PATIENCE",
    "SOON",
    "TTL",
    "DeskStoreContract",
    "Driver",
    "RunWriter",
    "a_grant",
    "refused",
    "until",
    "within",
]


class DeskStoreContract(DeskListContract, DeskLeaseContract, SearchContract):
    """`open_store` gives a store; called again inside one check, another object on the same data."""

    # -- logs -------------------------------------------------------------------------------------------------------

    async def test_what_was_appended_is_loaded_by_others_and_verifies(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            await story.ask(one, "pay")

            stored = await other.load(story.id)
            assert stored is not None
            assert stored.log is not None
            assert stored.log.lines == story.log.lines
            assert stored.head == story.log.head
            assert stored.log.verify()

    async def test_a_run_that_has_ended_keeps_its_log_and_takes_no_more(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            await story.begin(store)
            late = story.log.copy()
            await story.end(store)
            line = late.next_line(2000.0, [e.TurnLimitSet(3)])

            await refused(PositionConflict, store.append(None, late, [line], story.run))

            stored = await store.load(story.id)
            assert stored is not None
            assert stored.log is not None
            assert stored.log.lines == story.log.lines

    async def test_of_many_appends_at_one_place_exactly_one_is_written_and_its_neighbours_are_not_harmed(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            await story.begin(one)
            neighbours = [RunWriter() for _ in range(8)]
            rivals = [story.log.next_line(2000.0 + n, [e.TurnLimitSet(n)]) for n in range(8)]

            async def rival(store: DeskStore, line: Line) -> bool:
                try:
                    await store.append(None, story.log, [line], story.run)
                except PositionConflict:
                    return False
                return True

            results = await asyncio.gather(
                *(rival(one if n % 2 else other, line) for n, line in enumerate(rivals)),
                *(each.begin(one) for each in neighbours),
            )

            assert sum(result is True for result in results) == 1
            stored = await one.load(story.id)
            assert stored is not None
            assert stored.length == 2
            for each in neighbours:
                assert await other.load(each.id) is not None

    async def test_a_batch_of_lines_is_written_whole_or_not_at_all(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            await story.begin(store)
            behind = Log(story.id, story.log.key)
            lines = lines_after(story.log, 3)

            await refused(PositionConflict, store.append(None, behind, lines, story.run))

            before = await store.load(story.id)
            await store.append(None, story.log, lines, story.run)
            after = await store.load(story.id)
            assert before is not None
            assert after is not None
            assert (before.length, after.length) == (1, 4)
            assert after.log is not None
            assert after.log.verify()

    async def test_of_two_who_begin_one_run_one_wins(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            line = story.line(e.RunStarted("Clerk", "hello", 10))

            results = await asyncio.gather(
                *(store.append(None, story.log, [line], story.run) for store in (one, other)), return_exceptions=True
            )

            assert sorted(type(result).__name__ for result in results) == ["NoneType", "PositionConflict"]

    async def test_text_of_any_kind_comes_back_as_it_was(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter(agent="Ąg\0ent ☃")
            odd = 'to"ol\0☃'
            (question,) = await story.ask(store, odd)
            await story.append(
                store, e.DecisionMade("1.0", 1, "digest 0", "reject", "a\0nn", 5.0, "no\0 'quotes' \\ {braces} %s")
            )

            row = await store.request(question)
            listed = await store.requests(RequestQuery(status=None, tool=odd, agent=story.agent))
            assert row is not None
            assert (row.agent, row.tool, row.decided_by) == (story.agent, odd, "a\0nn")
            assert row.reason == "no\0 'quotes' \\ {braces} %s"
            assert listed.rows == [row]

    # -- holds and grants -------------------------------------------------------------------------------------------

    async def test_a_hold_stands_until_it_is_removed_and_then_wakes_what_could_go_on(self) -> None:
        async with self.two_stores() as (one, other):
            blocked, waiting = RunWriter(), RunWriter()
            driver = Driver()
            for story in (blocked, waiting):
                lease = await one.lease(story.id, driver)
                await story.ask(one, "pay", lease=lease)
                if story is blocked:
                    await story.append(one, story.decided(), lease=lease)
                await one.release(lease, len(story.log))
            hold = Hold(kind="tool", name="pay", by="ops", at=7.0, reason="audit")
            await one.put_hold(hold)
            held, runnable = list(await other.holds()), await one.runnable(0.0, 10)

            assert await other.remove_hold("tool", "pay")
            assert held == [hold]
            assert runnable == []
            assert list(await one.holds()) == []
            assert await one.runnable(0.0, 10) == [blocked.id]
            assert not await one.remove_hold("tool", "pay")

    async def test_a_second_hold_on_one_thing_replaces_the_first(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            await store.put_hold(Hold(kind="run", name="run_a", by="ops", at=7.0))
            await store.put_hold(Hold(kind="run", name="run_a", by="ann", at=8.0, reason="still"))

            assert [(hold.by, hold.reason) for hold in await store.holds()] == [("ann", "still")]

    async def test_whoever_may_only_touch_their_own_holds_neither_replaces_nor_removes_anothers(
        self,
    ) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            placed = await store.put_hold(Hold(kind="tool", name="pay", by="ops", at=7.0), over_others=False)
            again = await store.put_hold(Hold(kind="tool", name="pay", by="ops", at=8.0), over_others=False)
            other = await store.put_hold(Hold(kind="tool", name="pay", by="ann", at=9.0), over_others=False)
            removed = await store.remove_hold("tool", "pay", by="ann", at=9.0, placed_by="ann")
            stands = list(await store.holds())
            length = len(await store.operators_log())
            own = await store.remove_hold("tool", "pay", by="ops", at=10.0, placed_by="ops")

            assert (placed, again, other, removed, own) == (True, True, False, False, True)
            assert [(hold.by, hold.at) for hold in stands] == [("ops", 8.0)]
            assert length == 2
            assert list(await store.holds()) == []

    async def test_a_grant_for_an_agent_holds_in_other_runs_until_it_is_revoked_and_no_log_brings_it_back(
        self,
    ) -> None:
        async with self.two_stores() as (one, other):
            story, fork = RunWriter(), RunWriter()
            grant = e.GrantMade(
                "grant_1", "Clerk", "function:pay", "print", "approve", "ann", 5.0, scope="agent", uses=9
            )
            narrow = e.GrantMade("grant_2", "Clerk", "function:pay", "print", "approve", "ann", 5.0)
            await story.begin(one)
            await story.append(one, grant, narrow)
            standing, others = await other.standing_grants("Clerk"), await other.standing_grants("Boss")
            is_revoked, again = await other.revoke_grant("grant_1"), await one.revoke_grant("grant_1")
            await fork.begin(one)
            await fork.append(one, grant)

            assert (list(standing), list(others)) == ([grant], [])
            assert (is_revoked, again) == (True, False)
            assert list(await one.standing_grants("Clerk")) == []
            assert list(await one.grants()) == []
            assert not await one.use_grant(grant, "run_x:1.0")

    async def test_a_grant_revoked_in_a_log_stands_no_more(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            grant = a_grant("grant_3")
            await story.begin(store)
            await story.append(store, grant)
            before = list(await store.grants())
            await story.append(store, e.GrantRevoked("grant_3", "ann", 6.0))

            assert before == [grant]
            assert list(await store.grants()) == []

    async def test_a_grant_is_used_as_often_as_it_says_however_many_ask_at_once(self) -> None:
        async with self.two_stores() as (one, other):
            grant = a_grant("grant_4", uses=3)
            calls = [f"run_x:1.{n}" for n in range(6)]

            allowed = await asyncio.gather(*((one, other)[n % 2].use_grant(grant, c) for n, c in enumerate(calls)))
            repeated = await asyncio.gather(*(one.use_grant(grant, call) for call in calls))

            assert sum(allowed) == 3
            assert repeated == allowed

    # -- the feed ---------------------------------------------------------------------------------------------------

    async def test_the_feed_tells_every_append_once_in_one_order(self) -> None:
        async with self.two_stores() as (one, other):
            stories = [RunWriter() for _ in range(5)]
            await asyncio.gather(*(each.ask((one, other)[n % 2], "pay") for n, each in enumerate(stories)))

            told = await _feed_until(one, 10)
            first = await one.feed(0, limit=3)
            assert [entry.sequence for entry in told] == sorted({entry.sequence for entry in told})
            assert await one.feed(first[-1].sequence, limit=100) == told[3:]
            for story in stories:
                mine = [(entry.position, entry.text) for entry in told if entry.run_id == story.id]
                assert mine == list(enumerate(story.log.lines))

    async def test_whoever_begins_at_the_end_of_the_feed_is_told_all_that_comes_after(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            empty = await store.latest_sequence()
            story, later = RunWriter(), RunWriter()
            await story.ask(store, "pay")
            told = await _feed_until(store, 2)
            end = await store.latest_sequence()
            await later.begin(store)
            await _feed_until(store, 3)

            assert (empty, end) == (0, told[-1].sequence)
            assert [entry.run_id for entry in await store.feed(end)] == [later.id]

    async def test_whoever_waits_for_news_is_woken_by_another_process_s_append(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            await story.begin(one)
            (entry,) = await _feed_until(one, 1)
            waiting = asyncio.ensure_future(one.wait_for_news(entry.sequence, PATIENCE))
            await asyncio.sleep(SOON)
            assert not waiting.done()
            await story.append(other, e.TurnLimitSet(3))

            assert await within(waiting)
            assert not await one.wait_for_news((await _feed_until(one, 2))[-1].sequence, 0.05)

    # -- forgetting -------------------------------------------------------------------------------------------------

    async def test_a_deleted_run_is_gone_with_all_that_was_known_of_it_but_not_while_it_is_driven(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter(session="user-7")
            (question,) = await story.ask(one, "pay")
            driver = Driver()
            lease = await one.lease(story.id, driver)
            await refused(RunConflict, other.delete(story.id))
            await one.release(lease, 2)

            assert await other.delete(story.id)
            assert not await other.delete(story.id)
            assert await one.load(story.id) is None
            assert await one.run(story.id) is None
            assert await one.request(question) is None
            assert await one.waiting_on("user-7") == []
            assert await one.feed(0) == []

    async def test_purging_forgets_what_ended_long_ago_and_nothing_else(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            old, fresh, waiting = RunWriter(at=1000.0), RunWriter(at=5000.0), RunWriter(at=1000.0)
            for story in (old, fresh):
                await story.begin(store)
                await story.end(store)
            await waiting.ask(store, "pay")

            assert await store.purge(4000.0) == 1
            assert await store.purge(4000.0) == 0
            assert {row.id for row in (await store.runs(RunQuery())).rows} == {fresh.id, waiting.id}

    async def test_a_store_that_was_closed_says_so(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            await RunWriter().begin(store)

        error = await refused(StoreError, store.load("run_x"))
        assert "closed" in error.message


async def _feed_until(store: DeskStore, count: int) -> Sequence[Any]:  # Any: entries of the feed
    """The feed once it has so many entries: other transactions may hold back the newest for a moment."""

    async def is_there() -> bool:
        return len(await store.feed(0)) >= count

    await until(is_there)
    return await store.feed(0)
