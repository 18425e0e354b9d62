"""What every store that a desk can use must do for lists of requests and runs: a part of `DeskStoreContract`."""

from __future__ import annotations

from typing import Any

import msgspec

from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.facts.ids import request_id, session_key
from placet.ports import DeskStore, Page, RequestQuery, RunQuery
from placet.testing.audit_contracts import AuditContract
from placet.testing.run_writer import TTL, Driver, RunWriter, refused


class DeskListContract(AuditContract):
    """The lists of a desk: what waits for people, and the runs."""

    # -- questions --------------------------------------------------------------------------------------------------

    async def test_a_question_is_listed_until_it_is_decided_and_then_says_who_decided(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            first, second = await story.ask(one, "pay", "mail")
            waiting = await other.requests(RequestQuery())
            await story.decide(one, "1.0", "reject")

            left = await other.requests(RequestQuery())
            decided = await other.request(first)
            assert [row.id for row in waiting.rows] == [first, second]
            assert (waiting.rows[0].tool, waiting.rows[0].arguments_text) == ("pay", '{"n":1}')
            assert (waiting.rows[0].agent, waiting.rows[0].digest) == ("Clerk", "digest 0")
            assert [row.id for row in left.rows] == [second]
            assert decided is not None
            assert (decided.status, decided.decided_by, decided.reason) == ("rejected", "ann", "checked")
            assert await other.request("run_x:1.0#1") is None

    async def test_a_revoked_decision_opens_the_question_again(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            (question,) = await story.ask(store, "pay")
            await story.decide(store)
            await story.append(store, e.DecisionRevoked("1.0", "bob", story.at))

            row = await store.request(question)
            assert row is not None
            assert (row.status, row.decided_by, row.reason) == ("pending", None, None)

    async def test_a_question_that_went_to_others_has_no_deadline_any_more_and_says_since_when(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            first, second = await story.ask(one, "pay", "mail", expires_at=9000.0)
            await story.append(one, e.QuestionEscalated("1.0"))

            row, neighbour = await other.request(first), await other.request(second)
            listed = await other.requests(RequestQuery())
            assert row is not None
            assert neighbour is not None
            assert (row.status, row.expires_at, row.escalated_at) == ("pending", None, story.at)
            assert (neighbour.expires_at, neighbour.escalated_at) == (9000.0, None)
            assert listed.rows == [row, neighbour]

    async def test_a_call_that_is_asked_about_twice_in_one_batch_has_two_questions(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            ahead = RunWriter()
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
            assert [row.arguments_text for row in rows] == ['{"n":1}', '{"n":2}']

    async def test_a_request_that_a_standing_decision_decided_says_so_and_whose_it_was(self) -> None:
        async with self.open_store(lease_ttl=TTL) as one, self.open_store(lease_ttl=TTL) as other:
            story = RunWriter()
            first, second = await story.ask(one, "pay", "mail")
            by_grant = e.DecisionMade("1.0", 1, "digest 0", "approve", "ann", 5.0, grant="grant_1")
            await story.append(one, by_grant, e.DecisionMade("1.1", 1, "digest 1", "approve", "ann", 6.0))

            rows = [await other.request(each) for each in (first, second)]
            assert [(row.decided_by, row.grant) for row in rows if row is not None] == [
                ("ann", "grant_1"),
                ("ann", None),
            ]

    async def test_a_call_that_ends_undecided_closes_its_question_and_a_decided_one_stays_decided(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            first, second = await story.ask(store, "pay", "mail")
            await story.decide(store, "1.1", "reject")
            await story.append(
                store, e.CallEnded("1.0", "cancelled", "no"), e.CallEnded("1.1", "rejected", "not approved")
            )

            closed, decided = await store.request(first), await store.request(second)
            assert closed is not None
            assert decided is not None
            assert (closed.status, closed.decided_by) == ("closed", None)
            assert (decided.status, decided.decided_by) == ("rejected", "ann")

    async def test_pages_of_questions_are_oldest_first_without_gap_or_repetition(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            asked = [await RunWriter().ask(store, "pay", "mail") for _ in range(4)]

            pages = await _all_pages(store, RequestQuery(limit=3))
            assert [row.id for page in pages for row in page.rows] == [each for both in asked for each in both]
            assert [len(page.rows) for page in pages] == [3, 3, 2]

    async def test_pages_of_questions_newest_first_are_the_same_the_other_way_round(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            asked = [each for _ in range(4) for each in await RunWriter().ask(store, "pay", "mail")]

            pages = await _all_pages(store, RequestQuery(limit=3, newest_first=True))
            assert [row.id for page in pages for row in page.rows] == asked[::-1]
            of_run = RequestQuery(run_id=pages[0].rows[0].run_id, newest_first=True)
            assert [row.id for row in (await store.requests(of_run)).rows] == asked[:-3:-1]

    async def test_whoever_walks_through_pages_meets_each_row_that_stays_once_whatever_happens_meanwhile(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            stories = [RunWriter() for _ in range(9)]
            asked = [(await story.ask(store, "pay"))[0] for story in stories]

            pages = [await store.requests(RequestQuery(limit=3))]
            await stories[0].decide(store)  # behind the walker, before it, and at the very cursor
            await stories[2].decide(store)
            await stories[5].decide(store)
            (late,) = await RunWriter().ask(store, "pay")
            while pages[-1].cursor is not None:
                pages.append(await store.requests(RequestQuery(limit=3, cursor=pages[-1].cursor)))

            met = [row.id for page in pages for row in page.rows]
            assert met == [*asked[:5], *asked[6:], late]

    async def test_whoever_walks_through_runs_meets_each_once_though_others_begin_and_end(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            stories = [RunWriter() for _ in range(7)]
            for story in stories:
                await story.begin(store)

            pages = [await store.runs(RunQuery(limit=3))]
            await RunWriter().begin(store)
            await stories[4].end(store)
            await store.delete(stories[4].id)  # the very one that the cursor names
            while pages[-1].cursor is not None:
                pages.append(await store.runs(RunQuery(limit=3, cursor=pages[-1].cursor)))

            assert [row.id for page in pages for row in page.rows] == [story.id for story in reversed(stories)]

    async def test_questions_are_found_by_run_agent_tool_and_status(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            clerk, boss = RunWriter("Clerk"), RunWriter("Boss")
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
            ended, waiting, running = RunWriter("Clerk"), RunWriter("Boss"), RunWriter("Clerk")
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
            story = RunWriter(session="user-7", at=5000.0)
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
            story = RunWriter()
            await story.begin(store)
            await story.append(store, e.RunStopped("max_turns_exceeded", "too many"))

            row = await store.run(story.id)
            assert row is not None
            assert row.stopped == "max_turns_exceeded: too many"

    async def test_a_run_that_an_error_stopped_is_called_so_and_listed_as_nothing_else(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            stopped, asking, running, waiting = RunWriter(), RunWriter(), RunWriter(), RunWriter()
            await stopped.begin(store)
            await asking.ask(store, "pay")
            for story in (stopped, asking):
                await story.append(store, e.RunStopped("max_turns_exceeded", "too many"))
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
            story = RunWriter(session="user-7")
            await story.ask(one, "pay")
            waiting = await other.waiting_on("user-7")
            await story.append(one, e.CallEnded("1.0", "superseded", "never mind"))

            assert waiting == [story.id]
            assert await other.waiting_on("user-7") == []
            assert await other.waiting_on("user-8") == []

    async def test_a_row_shows_the_id_of_its_session_wherever_that_is_kept(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter(session="user-7", place="sqlite_1")
            await story.ask(store, "pay")

            row = await store.run(story.id)
            assert row is not None
            assert row.session == "user-7"
            assert await store.waiting_on(session_key("user-7", "sqlite_1")) == [story.id]


async def _all_pages(store: DeskStore, query: RequestQuery) -> list[Page[Any]]:  # Any: rows of one kind
    pages = [await store.requests(query)]
    while pages[-1].cursor is not None:
        pages.append(await store.requests(msgspec.structs.replace(query, cursor=pages[-1].cursor)))
    return pages
