"""What every store that a desk can use must do: inherit `DeskStoreContract`, say how to open one, and run it with
pytest (`asyncio_mode = "auto"`)."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.errors import PositionConflict, RunConflict, StoreError, UserError
from placet.facts.ids import request_id, session_key
from placet.ports import DeskStore, Hold, Lease, Page, RequestQuery, RunQuery
from placet.testing.audit_contracts import AuditContract
from placet.testing.stories import PATIENCE, SHORT_TTL, SOON, TTL, Driver, Story, a_grant, refused, until, within

__all__ = [
    "PATIENCE",
    "SOON",
    "TTL",
    "DeskStoreContract",
    "Driver",
    "Story",
    "a_grant",
    "refused",
    "until",
    "within",
]


class DeskStoreContract(AuditContract):
    """`open_store` gives a store; called again inside one check, another object on the same data."""

    # -- logs -------------------------------------------------------------------------------------------------------

    async def test_what_was_appended_is_loaded_by_others_and_verifies(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
            await story.ask(one, "pay")

            stored = await other.load(story.id)
            assert stored is not None
            assert stored.log is not None
            assert stored.log.lines == story.log.lines
            assert stored.head == story.log.head
            assert stored.log.verify()

    async def test_a_run_that_has_ended_keeps_its_log_and_takes_no_more(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
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
            story = Story()
            await story.begin(one)
            neighbours = [Story() for _ in range(8)]
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
            story = Story()
            await story.begin(store)
            behind = Log(story.id, story.log.key)
            lines = _lines(story.log, 3)

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
            story = Story()
            line = story.line(e.RunStarted("Clerk", "hello", 10))

            results = await asyncio.gather(
                *(store.append(None, story.log, [line], story.run) for store in (one, other)), return_exceptions=True
            )

            assert sorted(type(result).__name__ for result in results) == ["NoneType", "PositionConflict"]

    async def test_text_of_any_kind_comes_back_as_it_was(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story(agent="Ąg\0ent ☃")
            odd = 'to"ol\0☃'
            (question,) = await story.ask(store, odd)
            await story.tell(
                store, e.DecisionMade("1.0", 1, "digest 0", "reject", "a\0nn", 5.0, "no\0 'quotes' \\ {braces} %s")
            )

            row = await store.request(question)
            listed = await store.requests(RequestQuery(status=None, tool=odd, agent=story.agent))
            assert row is not None
            assert (row.agent, row.tool, row.decided_by) == (story.agent, odd, "a\0nn")
            assert row.reason == "no\0 'quotes' \\ {braces} %s"
            assert listed.rows == [row]

    # -- questions --------------------------------------------------------------------------------------------------

    async def test_a_question_is_listed_until_it_is_decided_and_then_says_who_decided(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
            first, second = await story.ask(one, "pay", "mail")
            waiting = await other.requests(RequestQuery())
            await story.decide(one, "1.0", "reject")

            left = await other.requests(RequestQuery())
            decided = await other.request(first)
            assert [row.id for row in waiting.rows] == [first, second]
            assert (waiting.rows[0].tool, waiting.rows[0].arguments) == ("pay", '{"n":1}')
            assert (waiting.rows[0].agent, waiting.rows[0].digest) == ("Clerk", "digest 0")
            assert [row.id for row in left.rows] == [second]
            assert decided is not None
            assert (decided.status, decided.decided_by, decided.reason) == ("rejected", "ann", "checked")
            assert await other.request("run_x:1.0#1") is None

    async def test_a_revoked_decision_opens_the_question_again(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            (question,) = await story.ask(store, "pay")
            await story.decide(store)
            await story.tell(store, e.DecisionRevoked("1.0", "bob", story.at))

            row = await store.request(question)
            assert row is not None
            assert (row.status, row.decided_by, row.reason) == ("pending", None, None)

    async def test_a_question_that_went_to_others_has_no_deadline_any_more_and_says_since_when(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
            first, second = await story.ask(one, "pay", "mail", expires_at=9000.0)
            await story.tell(one, e.QuestionEscalated("1.0"))

            row, neighbour = await other.request(first), await other.request(second)
            listed = await other.requests(RequestQuery())
            assert row is not None
            assert neighbour is not None
            assert (row.status, row.expires_at, row.escalated_at) == ("pending", None, story.at)
            assert (neighbour.expires_at, neighbour.escalated_at) == (9000.0, None)
            assert listed.rows == [row, neighbour]

    async def test_a_call_that_is_asked_about_twice_in_one_batch_has_two_questions(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            ahead = Story()
            ahead.log, lines = story.log.copy(), []
            calls: list[JsonObject] = [{"type": "function_call", "name": "pay", "arguments": '{"n":1}', "call_id": "c"}]
            edit = e.DecisionMade("1.0", 1, "other", "edit", "ann", 5.0, arguments={"n": 2})
            batches: list[list[e.AnyFact]] = [
                [e.RunStarted("Clerk", "hello", 10), e.RequestSent()],
                [e.ResponseReceived(None, calls, e.Usage()), e.CallHeld("1.0", "digest", "function:pay", "print")],
                [edit, e.CallsStarted(["1.0"]), e.CallInDoubt("1.0", "other", "function:pay", "print")],
            ]
            for facts in batches:
                lines.append(ahead.line(*facts))
                ahead.log.append(lines[-1])
            await store.append(None, story.log, lines, ahead.run)

            rows = (await store.requests(RequestQuery(run_id=story.id, status=None))).rows
            assert [row.id for row in rows] == [request_id(story.id, "1.0", number) for number in (1, 2)]
            assert [(row.kind, row.status, row.digest) for row in rows] == [
                ("approval", "edited", "digest"),
                ("in_doubt", "pending", "other"),
            ]
            assert [row.arguments for row in rows] == ['{"n":1}', '{"n":2}']

    async def test_a_request_that_a_standing_decision_decided_says_so_and_whose_it_was(self) -> None:
        async with self.open_store(lease_ttl=TTL) as one, self.open_store(lease_ttl=TTL) as other:
            story = Story()
            first, second = await story.ask(one, "pay", "mail")
            by_grant = e.DecisionMade("1.0", 1, "digest 0", "approve", "ann", 5.0, grant="grant_1")
            await story.tell(one, by_grant, e.DecisionMade("1.1", 1, "digest 1", "approve", "ann", 6.0))

            rows = [await other.request(each) for each in (first, second)]
            assert [(row.decided_by, row.grant) for row in rows if row is not None] == [
                ("ann", "grant_1"),
                ("ann", None),
            ]

    async def test_a_call_that_ends_undecided_closes_its_question_and_a_decided_one_stays_decided(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            first, second = await story.ask(store, "pay", "mail")
            await story.decide(store, "1.1", "reject")
            await story.tell(
                store, e.CallEnded("1.0", "cancelled", "no"), e.CallEnded("1.1", "rejected", "not approved")
            )

            closed, decided = await store.request(first), await store.request(second)
            assert closed is not None
            assert decided is not None
            assert (closed.status, closed.decided_by) == ("closed", None)
            assert (decided.status, decided.decided_by) == ("rejected", "ann")

    async def test_pages_of_questions_are_oldest_first_without_gap_or_repetition(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            asked = [await Story().ask(store, "pay", "mail") for _ in range(4)]

            pages = await _all_pages(store, RequestQuery(limit=3))
            assert [row.id for page in pages for row in page.rows] == [each for both in asked for each in both]
            assert [len(page.rows) for page in pages] == [3, 3, 2]

    async def test_pages_of_questions_newest_first_are_the_same_the_other_way_round(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            asked = [each for _ in range(4) for each in await Story().ask(store, "pay", "mail")]

            pages = await _all_pages(store, RequestQuery(limit=3, newest_first=True))
            assert [row.id for page in pages for row in page.rows] == asked[::-1]
            of_run = RequestQuery(run_id=pages[0].rows[0].run_id, newest_first=True)
            assert [row.id for row in (await store.requests(of_run)).rows] == asked[:-3:-1]

    async def test_whoever_walks_through_pages_meets_each_row_that_stays_once_whatever_happens_meanwhile(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            stories = [Story() for _ in range(9)]
            asked = [(await story.ask(store, "pay"))[0] for story in stories]

            pages = [await store.requests(RequestQuery(limit=3))]
            await stories[0].decide(store)  # behind the walker, before it, and at the very cursor
            await stories[2].decide(store)
            await stories[5].decide(store)
            (late,) = await Story().ask(store, "pay")
            while pages[-1].cursor is not None:
                pages.append(await store.requests(RequestQuery(limit=3, cursor=pages[-1].cursor)))

            met = [row.id for page in pages for row in page.rows]
            assert met == [*asked[:5], *asked[6:], late]

    async def test_whoever_walks_through_runs_meets_each_once_though_others_begin_and_end(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            stories = [Story() for _ in range(7)]
            for story in stories:
                await story.begin(store)

            pages = [await store.runs(RunQuery(limit=3))]
            await Story().begin(store)
            await stories[4].end(store)
            await store.delete(stories[4].id)  # the very one that the cursor names
            while pages[-1].cursor is not None:
                pages.append(await store.runs(RunQuery(limit=3, cursor=pages[-1].cursor)))

            assert [row.id for page in pages for row in page.rows] == [story.id for story in reversed(stories)]

    async def test_questions_are_found_by_run_agent_tool_and_status(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            clerk, boss = Story("Clerk"), Story("Boss")
            first, second = await clerk.ask(store, "pay", "mail")
            (third,) = await boss.ask(store, "pay")
            await clerk.decide(store)

            async def ids(**wanted: Any) -> list[str]:  # Any: the fields of a query
                return [row.id for row in (await store.requests(RequestQuery(**wanted))).rows]

            assert await ids(run_id=clerk.id) == [second]
            assert await ids(run_id=clerk.id, status=None) == [first, second]
            assert await ids(agent="Boss") == [third]
            assert await ids(tool="pay") == [third]
            assert await ids(tool="pay", status="approved") == [first]
            assert await ids(tool="pay", agent="Clerk", status=None) == [first]
            assert await ids(run_id="run_unknown") == []

    async def test_a_cursor_from_elsewhere_and_a_silly_limit_are_refused(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            await refused(UserError, store.requests(RequestQuery(cursor="'; DROP TABLE")))
            await refused(UserError, store.runs(RunQuery(cursor="after--1")))
            await refused(UserError, store.requests(RequestQuery(limit=0)))

    async def test_a_status_that_nothing_can_have_is_refused_and_the_known_ones_are_named(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            of_requests = await refused(UserError, store.requests(RequestQuery(status="open")))  # type: ignore[arg-type]
            of_runs = await refused(UserError, store.runs(RunQuery(status="paused")))  # type: ignore[arg-type]

            assert "'open'" in of_requests.message
            assert "pending, approved" in of_requests.message
            assert "'paused'" in of_runs.message
            assert "running, waiting, stopped or ended" in of_runs.message

    # -- runs -------------------------------------------------------------------------------------------------------

    async def test_runs_are_listed_newest_first_by_status_and_agent(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            ended, waiting, running = Story("Clerk"), Story("Boss"), Story("Clerk")
            await ended.begin(store)
            await ended.end(store)
            await waiting.ask(store, "pay")
            await running.begin(store)

            async def ids(**wanted: Any) -> list[str]:  # Any: the fields of a query
                return [row.id for row in (await store.runs(RunQuery(**wanted))).rows]

            first = await store.runs(RunQuery(limit=2))
            assert [row.id for row in first.rows] == [running.id, waiting.id]
            assert await ids(limit=2, cursor=first.cursor) == [ended.id]
            assert await ids(status="waiting") == [waiting.id]
            assert await ids(agent="Clerk") == [running.id, ended.id]
            assert await ids(agent="Clerk", status="ended") == [ended.id]

    async def test_a_run_s_row_says_what_is_known_of_it(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story(session="user-7", at=5000.0)
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await story.begin(store, lease)
            driven = await store.run(story.id)
            await story.end(store, lease)
            await store.release(lease, len(story.log))

            row = await store.run(story.id)
            assert driven is not None
            assert row is not None
            assert (driven.is_driven, driven.status, driven.length, driven.final_output) == (True, "running", 1, None)
            assert (row.is_driven, row.has_news, row.status, row.length) == (False, False, "ended", 2)
            assert (row.final_output, row.session, row.agent) == ("bye", "user-7", "Clerk")
            assert (row.created_at, row.updated_at) == (5001.0, 5002.0)
            assert await store.run("run_unknown") is None

    async def test_what_stopped_a_run_is_in_its_row(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            await story.begin(store)
            await story.tell(store, e.RunStopped("max_turns_exceeded", "too many"))

            row = await store.run(story.id)
            assert row is not None
            assert row.stopped == "max_turns_exceeded: too many"

    async def test_a_run_that_an_error_stopped_is_called_so_and_listed_as_nothing_else(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            stopped, asking, running, waiting = Story(), Story(), Story(), Story()
            await stopped.begin(store)
            await asking.ask(store, "pay")
            for story in (stopped, asking):
                await story.tell(store, e.RunStopped("max_turns_exceeded", "too many"))
            await running.begin(store)
            await waiting.ask(store, "pay")

            async def ids(status: Any) -> list[str]:  # Any: each of the four
                rows = (await store.runs(RunQuery(status=status))).rows
                assert {row.status for row in rows} <= {status}
                return [row.id for row in rows]

            assert await ids("stopped") == [asking.id, stopped.id]
            assert await ids("running") == [running.id]
            assert await ids("waiting") == [waiting.id]
            numbers = await store.numbers()
            assert (numbers.stopped, numbers.running, numbers.waiting, numbers.ended) == (2, 1, 1, 0)

    async def test_the_run_that_waits_on_a_session_is_found_until_it_does_not(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story(session="user-7")
            await story.ask(one, "pay")
            waiting = await other.waiting_on("user-7")
            await story.tell(one, e.CallEnded("1.0", "superseded", "never mind"))

            assert waiting == [story.id]
            assert await other.waiting_on("user-7") == []
            assert await other.waiting_on("user-8") == []

    async def test_a_row_shows_the_id_of_its_session_wherever_that_is_kept(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story(session="user-7", place="sqlite_1")
            await story.ask(store, "pay")

            row = await store.run(story.id)
            assert row is not None
            assert row.session == "user-7"
            assert await store.waiting_on(session_key("user-7", "sqlite_1")) == [story.id]

    # -- leases -----------------------------------------------------------------------------------------------------

    async def test_one_at_a_time_drives_a_run_and_the_other_is_told_who_does(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
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

    async def test_of_many_who_want_a_run_at_once_one_gets_it(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
            drivers = [Driver() for _ in range(8)]

            results = await asyncio.gather(
                *((one, other)[n % 2].lease(story.id, driver) for n, driver in enumerate(drivers)),
                return_exceptions=True,
            )

            assert sum(isinstance(result, Lease) for result in results) == 1
            assert sum(isinstance(result, RunConflict) for result in results) == 7

    async def test_a_lease_is_renewed_for_as_long_as_its_driver_lives(self) -> None:
        async with self.two_stores(SHORT_TTL) as (one, other):
            story = Story()
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
            story = Story()
            await story.begin(store)
            driver = Driver()
            former = await store.lease(story.id, driver)
            del driver
            gc.collect()

            later = Driver()
            lease = await store.lease(story.id, later)
            assert lease.epoch > former.epoch
            await refused(RunConflict, store.append(former, story.log, _lines(story.log, 1), story.run))
            row = await store.run(story.id)
            assert row is not None
            assert row.takeovers == 1

    async def test_an_append_under_a_lease_that_was_given_back_is_refused(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            await story.begin(store)
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await store.release(lease, 1)

            await refused(RunConflict, store.append(lease, story.log, _lines(story.log, 1), story.run))
            assert await store.release(lease, 1)

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
                RunConflict, store.append(first, Log("run_never", b"k" * 16), _lines(Story().log, 1), RunFold())
            )

    async def test_a_driver_does_not_give_a_run_back_before_it_has_seen_what_came_from_outside(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
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
            story = Story()
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
            late, early = Story(at=2000.0), Story(at=1000.0)
            await late.begin(store)
            await early.begin(store)

            assert await store.runnable(0.0, 10) == [early.id, late.id]
            assert await store.runnable(0.0, 1) == [early.id]

    async def test_the_run_of_a_driver_that_died_is_runnable_when_its_lease_is_over_and_the_take_over_is_counted(
        self,
    ) -> None:
        async with self.open_store(lease_ttl=SHORT_TTL) as store:
            story = Story()
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
            await refused(RunConflict, store.append(former, story.log, _lines(story.log, 1), story.run))
            await store.append(lease, story.log, _lines(story.log, 1), story.run)
            row = await store.run(story.id)
            assert row is not None
            assert row.takeovers == 1

    async def test_a_driver_that_gives_up_in_the_middle_leaves_the_run_to_others(self) -> None:
        async with self.open_store(lease_ttl=SHORT_TTL) as store:
            story = Story()
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await story.begin(store, lease)
            await store.release(lease, sys.maxsize)

            async def is_runnable() -> bool:
                return await store.runnable(0.0, 10) == [story.id]

            await until(is_runnable)

    async def test_a_run_that_an_error_stopped_waits_to_be_resumed(self) -> None:
        async with self.open_store(lease_ttl=0.1) as store:
            story = Story()
            driver = Driver()
            lease = await store.lease(story.id, driver)
            await story.begin(store, lease)
            await story.tell(store, e.RunStopped("error", "ValueError"), lease=lease)
            await store.release(lease, sys.maxsize)

            row = await store.run(story.id)
            assert row is not None
            assert not row.has_news

    async def test_what_came_while_a_driver_was_failing_is_not_forgotten(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
            driver = Driver()
            lease = await one.lease(story.id, driver)
            await story.ask(one, "pay", lease=lease)
            await story.tell(one, e.RunStopped("error", "ValueError"), lease=lease)
            await story.decide(other)
            await one.release(lease, sys.maxsize)

            row = await other.run(story.id)
            assert row is not None
            assert row.has_news

    async def test_a_deadline_makes_a_run_runnable_when_its_time_has_come_and_not_before(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
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
            await story.tell(store, e.CallEnded("1.0", "expired", "too late"), lease=lease)
            await store.release(lease, 3)
            assert await store.runnable(9000.0, 10) == []

    async def test_a_parked_run_is_not_runnable_until_it_is_put_back_with_its_take_overs_forgotten(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            await story.begin(store)
            for _ in range(2):
                await store.lease(story.id, Driver())  # whose driver is gone at once
                gc.collect()
            last = Driver()
            lease = await store.lease(story.id, last)
            await store.release(lease, 1)
            await story.tell(store, e.TurnLimitSet(3))
            await store.park(story.id, parked=True)
            parked, runnable = await store.run(story.id), await store.runnable(0.0, 10)
            await store.park(story.id, parked=False)
            back = await store.run(story.id)

            assert parked is not None
            assert back is not None
            assert (parked.is_parked, parked.takeovers, runnable) == (True, 2, [])
            assert (back.is_parked, back.takeovers) == (False, 0)
            assert await store.runnable(0.0, 10) == [story.id]

    # -- holds and grants -------------------------------------------------------------------------------------------

    async def test_a_hold_stands_until_it_is_removed_and_then_wakes_what_could_go_on(self) -> None:
        async with self.two_stores() as (one, other):
            blocked, waiting = Story(), Story()
            driver = Driver()
            for story in (blocked, waiting):
                lease = await one.lease(story.id, driver)
                await story.ask(one, "pay", lease=lease)
                if story is blocked:
                    await story.tell(one, story.decided(), lease=lease)
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
            story, fork = Story(), Story()
            grant = e.GrantMade(
                "grant_1", "Clerk", "function:pay", "print", "approve", "ann", 5.0, scope="agent", uses=9
            )
            narrow = e.GrantMade("grant_2", "Clerk", "function:pay", "print", "approve", "ann", 5.0)
            await story.begin(one)
            await story.tell(one, grant, narrow)
            standing, others = await other.standing_grants("Clerk"), await other.standing_grants("Boss")
            is_revoked, again = await other.revoke_grant("grant_1"), await one.revoke_grant("grant_1")
            await fork.begin(one)
            await fork.tell(one, grant)

            assert (list(standing), list(others)) == ([grant], [])
            assert (is_revoked, again) == (True, False)
            assert list(await one.standing_grants("Clerk")) == []
            assert list(await one.grants()) == []
            assert not await one.use_grant(grant, "run_x:1.0")

    async def test_a_grant_revoked_in_a_log_stands_no_more(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            grant = a_grant("grant_3")
            await story.begin(store)
            await story.tell(store, grant)
            before = list(await store.grants())
            await story.tell(store, e.GrantRevoked("grant_3", "ann", 6.0))

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
            stories = [Story() for _ in range(5)]
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
            story, later = Story(), Story()
            await story.ask(store, "pay")
            told = await _feed_until(store, 2)
            end = await store.latest_sequence()
            await later.begin(store)
            await _feed_until(store, 3)

            assert (empty, end) == (0, told[-1].sequence)
            assert [entry.run_id for entry in await store.feed(end)] == [later.id]

    async def test_whoever_waits_for_news_is_woken_by_another_process_s_append(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story()
            await story.begin(one)
            (entry,) = await _feed_until(one, 1)
            waiting = asyncio.ensure_future(one.wait_for_news(entry.sequence, PATIENCE))
            await asyncio.sleep(SOON)
            assert not waiting.done()
            await story.tell(other, e.TurnLimitSet(3))

            assert await within(waiting)
            assert not await one.wait_for_news((await _feed_until(one, 2))[-1].sequence, 0.05)

    # -- forgetting -------------------------------------------------------------------------------------------------

    async def test_a_deleted_run_is_gone_with_all_that_was_known_of_it_but_not_while_it_is_driven(self) -> None:
        async with self.two_stores() as (one, other):
            story = Story(session="user-7")
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
            old, fresh, waiting = Story(at=1000.0), Story(at=5000.0), Story(at=1000.0)
            for story in (old, fresh):
                await story.begin(store)
                await story.end(store)
            await waiting.ask(store, "pay")

            assert await store.purge(4000.0) == 1
            assert await store.purge(4000.0) == 0
            assert {row.id for row in (await store.runs(RunQuery())).rows} == {fresh.id, waiting.id}

    async def test_a_store_that_was_closed_says_so(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            await Story().begin(store)

        error = await refused(StoreError, store.load("run_x"))
        assert "closed" in error.message


async def _all_pages(store: DeskStore, query: RequestQuery) -> list[Page[Any]]:  # Any: rows of one kind
    pages = [await store.requests(query)]
    while pages[-1].cursor is not None:
        pages.append(await store.requests(msgspec.structs.replace(query, cursor=pages[-1].cursor)))
    return pages


async def _feed_until(store: DeskStore, count: int) -> Sequence[Any]:  # Any: entries of the feed
    """The feed once it has so many entries: other transactions may hold back the newest for a moment."""

    async def is_there() -> bool:
        return len(await store.feed(0)) >= count

    await until(is_there)
    return await store.feed(0)


async def _can_lease(store: DeskStore, run_id: str) -> bool:
    try:
        await store.release(await store.lease(run_id, Driver()), sys.maxsize)
    except RunConflict:
        return False
    return True


def _lines(log: Log, count: int) -> list[Line]:
    """The next lines of a log, which itself stays as it is."""
    walker, found = log.copy(), []
    for number in range(count):
        line = walker.next_line(3000.0 + number, [e.TurnLimitSet(number)])
        walker.append(line)
        found.append(line)
    return found
