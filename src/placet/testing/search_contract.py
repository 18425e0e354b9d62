"""What every store that a desk can use must do for searching: a part of `DeskStoreContract`."""

from __future__ import annotations

from placet.core.words import words_asked, words_of
from placet.facts.ids import request_id
from placet.ports import DeskStore, Found, RequestQuery
from placet.testing.audit_contracts import AuditContract
from placet.testing.run_writer import TTL, RunWriter


async def _indexed(store: DeskStore, *ids: str) -> None:
    rows = [row for each in ids if (row := await store.request(each)) is not None]
    await store.index_words({row.id: words_of(row) for row in rows})


async def _search(store: DeskStore, text: str, **options: object) -> Found:
    return await store.search(words_asked(text), RequestQuery(**options))  # type: ignore[arg-type]


class SearchContract(AuditContract):
    """Requests are found by all their words, until what they said is gone."""

    async def test_a_request_is_found_by_the_beginnings_of_all_its_words_and_by_no_others(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter("Kassenprüfung")
            first, second = await story.ask(one, "pay_invoice", "mail")
            await _indexed(one, first, second)

            by_tool = await _search(other, "INVOI")
            by_agent = await _search(other, "kassenprufung")
            by_id = await _search(other, story.id)
            both = await _search(other, "kassen mail")
            assert [row.id for row in by_tool.rows] == [first]
            assert [row.id for row in by_agent.rows] == [first, second]
            assert [row.id for row in both.rows] == [second]
            assert {row.id for row in by_id.rows} == {first, second}
            assert (by_agent.total, by_tool.total) == (2, 1)
            assert (await _search(other, "voice")).rows == []
            assert (await _search(other, "kassen nothing")).total == 0
            assert (await other.search([], RequestQuery())).rows == []

    async def test_filters_pages_and_both_orders_hold_for_what_is_found(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            ids = await story.ask(store, *["pay"] * 5)
            others = await RunWriter("Other").ask(store, "pay")
            await _indexed(store, *ids, *others)
            await story.decide(store, "1.0")

            page = await _search(store, "pay", agent="Clerk", limit=2)
            rest = await _search(store, "pay", agent="Clerk", limit=9, cursor=page.cursor)
            newest = await _search(store, "pay", newest_first=True, limit=1)
            approved = await _search(store, "pay", status="approved")
            assert [row.id for row in (*page.rows, *rest.rows)] == ids[1:]
            assert (page.total, rest.cursor) == (4, None)
            assert [row.id for row in newest.rows] == others
            assert [row.id for row in approved.rows] == ids[:1]
            assert (await _search(store, "pay", status=None, run_id=story.id)).total == 5

    async def test_to_index_a_request_again_replaces_its_words_and_one_that_is_gone_is_passed_over(self) -> None:
        async with self.two_stores() as (one, other):
            (request,) = await RunWriter().ask(one, "pay")

            await one.index_words({request: ["before"]})
            await other.index_words({request: ["after"], request_id("run_gone", "1.0", 1): ["after"]})
            assert (await one.search(["before"], RequestQuery())).rows == []
            assert (await one.search(["after"], RequestQuery())).total == 1

    async def test_what_is_erased_or_deleted_is_not_found_and_cannot_be_indexed_again(self) -> None:
        async with self.two_stores() as (one, other):
            erased, deleted = RunWriter(), RunWriter()
            for story in (erased, deleted):
                (request,) = await story.ask(one, "pay")
                await _indexed(one, request)
                await story.append(one, *story.cancelled())
            row = await one.request(request_id(erased.id, "1.0", 1))
            assert row is not None

            await one.erase(erased.id)
            await one.delete(deleted.id)
            await other.index_words({row.id: words_of(row)})
            assert (await _search(other, "pay", status=None)).rows == []

    async def test_requests_are_counted_up_to_a_limit(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            await RunWriter().ask(store, "pay", "pay", "mail")

            assert await store.count_requests(RequestQuery()) == 3
            assert await store.count_requests(RequestQuery(tool="pay")) == 2
            assert await store.count_requests(RequestQuery(), 2) == 2
            assert await store.count_requests(RequestQuery(status="approved")) == 0
