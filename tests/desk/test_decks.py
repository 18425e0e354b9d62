"""What is alike stands together; what is odd stands apart; and the list in memory says what the index says."""

from __future__ import annotations

import asyncio
import random

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.desk import Desk
from placet.desk.pages.decks import Deck, Single, all_lines, deck_of
from placet.desk.pages.form_data import Filters
from placet.desk.web.waiting import Waiting
from placet.facts.codec import JsonObject
from placet.ports import RequestQuery
from tests.support.decided import remembered, waiting

USUAL: list[JsonObject] = [{"order": f"{1000 + n}", "cents": 3900 + n * 50} for n in range(24)]


async def listed(known: Waiting, filters: Filters | None = None) -> list[Deck | Single]:
    await known.refresh(SYSTEM_CLOCK.now())
    return [line for _, line in all_lines(known, filters or Filters())]


async def test_alike_requests_are_one_line_and_the_odd_one_has_its_own(any_url: str) -> None:
    async with Desk(any_url, run=False) as desk:
        await remembered(desk.store, "Support", "refund", USUAL)
        await waiting(desk.store, "Support", "refund", [*USUAL[:12], {"order": "1007", "cents": 490000}])
        await waiting(desk.store, "Support", "mail", [{"to": "ana@example.com"}])

        deck, odd, other = await listed(Waiting(desk.store))

    assert isinstance(deck, Deck)
    assert (len(deck.members), deck.usual, deck.unusual) == (12, 12, 1)
    assert deck.parts == [("order", "12 different"), ("cents", "3900–4450")]
    assert isinstance(odd, Single)
    assert (odd.care, odd.waits.request.arguments) == ("unusual", {"order": "1007", "cents": 490000})
    assert isinstance(other, Single)


async def test_other_names_agents_or_reasons_are_not_alike_and_two_are_no_deck(url: str) -> None:
    same: JsonObject = {"order": "1", "cents": 1}
    async with Desk(url, run=False) as desk:
        await waiting(desk.store, "Support", "refund", [same, same])
        await waiting(desk.store, "Support", "refund", [{"order": "1", "euros": 1}])
        await waiting(desk.store, "Billing", "refund", [same])

        lines = await listed(Waiting(desk.store))

    assert [type(line) for line in lines] == [Single] * 4


async def test_what_cannot_be_undone_is_in_no_deck(url: str) -> None:
    async with Desk(url, run=False) as desk:
        await waiting(desk.store, "Ops", "drop", [{"table": f"t{n}"} for n in range(5)], irreversible=True)

        lines = await listed(Waiting(desk.store))

    assert [line.care for line in lines if isinstance(line, Single)] == ["high"] * 5


async def test_sentences_of_a_deck_become_one_with_the_range_of_their_numbers(url: str) -> None:
    sums = ("39.00", "52.50", "41.00", "1,250.00")
    said = [f"Refund {amount} € to {name}" for amount, name in zip(sums, ("ana", "ben", "cem", "dev"), strict=True)]
    async with Desk(url, run=False) as desk:
        await waiting(desk.store, "Support", "refund", USUAL[:4], summaries=said)

        (deck,) = await listed(Waiting(desk.store))

    assert isinstance(deck, Deck)
    assert deck.parts == [("", "Refund 39.00–1,250.00 € to …")]


async def test_the_ungrouped_view_has_a_line_for_each_and_filters_hold_in_both(url: str) -> None:
    async with Desk(url, run=False) as desk:
        run = await waiting(desk.store, "Support", "refund", USUAL[:4])
        await waiting(desk.store, "Support", "refund", USUAL[4:8])
        known = Waiting(desk.store)

        assert len(await listed(known, Filters(view="each"))) == 8
        assert len(await listed(known, Filters(view="each", run=run.id))) == 4
        assert len(await listed(known, Filters(tool="refund"))) == 1
        assert await listed(known, Filters(tool="mail")) == []
        (deck,) = await listed(known, Filters(run=run.id))
        assert deck_of(known, Filters(), deck.id) == (await listed(known))[0]


@pytest.mark.promise("P16")
async def test_the_list_in_memory_follows_whatever_happens(any_url: str) -> None:
    """Beside the index, after each of many random steps: asked, decided, taken back, ended, by other processes too."""
    dice = random.Random(7)
    async with Desk(any_url, run=False) as desk, Desk(any_url, run=False) as other:
        known = Waiting(desk.store)
        for step in range(40):
            rows = (await desk.store.requests(RequestQuery(limit=500))).rows
            match dice.choice(("ask", "ask", "decide", "reject", "revoke", "nothing")):
                case "ask":
                    calls: list[JsonObject] = [{"order": f"{n}", "cents": 10 * n} for n in range(dice.randint(1, 5))]
                    await waiting(other.store, "Support", dice.choice(("refund", "mail")), calls, at=1000.0 + step)
                case "decide" | "reject" as verdict if rows:
                    row = dice.choice(rows)
                    await other.decide(row.id, "approve" if verdict == "decide" else "reject", by="ana")
                case "revoke":
                    done = (await desk.store.requests(RequestQuery(status="approved", limit=500))).rows
                    if done:
                        await other.revoke(dice.choice(done).id, by="ana")
                case _:
                    pass
            await known.refresh(SYSTEM_CLOCK.now())
            rows = (await desk.store.requests(RequestQuery(limit=500))).rows
            mine = [each for group in known.groups.values() for each in group]

            assert {each.request.id: each.request for each in mine} == {row.id: row for row in rows}, step
            assert known.count == len(rows)
            assert all(each.care is not None for each in mine)


async def test_a_decision_by_hand_makes_waiting_calls_usual_or_not_without_a_restart(url: str) -> None:
    async with Desk(url, run=False) as desk:
        await waiting(desk.store, "Support", "refund", [{"order": "1005", "cents": 4100}])
        known = Waiting(desk.store)
        (before,) = await listed(known)
        await remembered(desk.store, "Support", "refund", USUAL)
        (after,) = await listed(known)

    assert isinstance(before, Single)
    assert isinstance(after, Single)
    assert after.care == "usual"


@pytest.mark.parametrize("many", [1000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_however_many_wait_only_what_is_new_is_read(url: str, many: int) -> None:
    reads: list[str] = []
    async with Desk(url, run=False) as desk:
        for first in range(0, many, 50):
            calls: list[JsonObject] = [{"order": f"{first + n}", "cents": 4000 + n} for n in range(50)]
            await waiting(desk.store, "Support", "refund", calls, at=1000.0 + first)
        known = Waiting(desk.store)
        (deck,) = await listed(known)
        requests = desk.store.requests

        async def counted(query: RequestQuery) -> object:
            reads.append(query.run_id or "all")
            return await requests(query)

        desk.store.requests = counted  # type: ignore[method-assign, assignment]
        await listed(known)
        new = await waiting(desk.store, "Support", "mail", [{"to": "ana@example.com"}])
        lines = await listed(known)

    assert isinstance(deck, Deck)
    assert (len(deck.members), len(lines)) == (many, 2)
    assert reads == [new.id]


async def test_reading_at_the_same_time_gives_everybody_the_same(url: str) -> None:
    async with Desk(url, run=False) as desk:
        await waiting(desk.store, "Support", "refund", USUAL[:6])
        known = Waiting(desk.store)

        found = await asyncio.gather(*(listed(known) for _ in range(8)))

    assert all(each == found[0] for each in found)
    assert len(found[0]) == 1
