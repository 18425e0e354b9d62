"""Decks, the quick yes and the pause before the effect, asked over HTTP as a browser does."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.facts.codec import JsonObject
from tests.desk.pages.test_deciding_pages import browser, post
from tests.support.decided import remembered, waiting
from tests.support.desk_server import RunningDesk, running_desk

USUAL: list[JsonObject] = [{"order": f"{1000 + n}", "cents": 3900 + n * 50} for n in range(24)]
ODD: JsonObject = {"order": "1007", "cents": 490000}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    """Nobody drives the runs: what was decided about a call stays in sight."""
    async with running_desk(tmp_path, run=False) as running:
        await remembered(running.desk.store, "Support", "refund", USUAL)
        yield running


async def delays(desk: RunningDesk, run_id: str) -> int:
    stored = await desk.desk.store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    return sum(line.count(b'["notbefore"') for line in stored.log.lines)


async def test_the_inbox_shows_a_deck_as_one_line_and_opens_it_as_a_table(desk: RunningDesk) -> None:
    await waiting(desk.desk.store, "Support", "refund", [*USUAL[:12], ODD])
    ana = await browser(desk)

    page = (await ana.get("/inbox")).text
    each = (await ana.get("/inbox?view=each")).text

    assert page.count('<li class="row') == 2
    assert "3900–4450" in page
    assert "1 unusual" in page
    assert page.count('name="pick"') == 13  # one box of the odd one, and the twelve of the table that is open
    assert each.count('<li class="row') == 13


async def test_a_deck_is_approved_whole_and_can_be_taken_back_whole_before_it_begins(desk: RunningDesk) -> None:
    run = await waiting(desk.desk.store, "Support", "refund", [*USUAL[:4], ODD])
    ana = await browser(desk)
    page = (await ana.get("/inbox")).text
    picks = re.findall(r'<td><input type="checkbox" name="pick" value="([^"]+)" checked', page)

    answer = await post(ana, "/inbox/decide-together", pick=picks, decision="approve")
    undone = re.findall(r'name="open" value="([^"]+)"', answer.text)
    delayed = await delays(desk, run.id)
    back = await post(ana, "/inbox/revoke-together", open=undone)

    assert "4 decided" in answer.text
    assert (len(undone), delayed) == (4, 4)
    assert "4 taken back" in back.text
    assert [row.status for row in await desk.desk.pending()] == ["pending"] * 5


async def test_a_plain_yes_to_what_is_usual_begins_later_and_one_by_the_api_at_once(desk: RunningDesk) -> None:
    mine = await waiting(desk.desk.store, "Support", "refund", USUAL[:1])
    theirs = await waiting(desk.desk.store, "Support", "refund", USUAL[1:2])
    ana, program = await browser(desk), await desk.person("program")
    first, second = await desk.desk.pending()

    page = (await ana.get(f"/inbox?open={first.id}")).text
    await post(ana, "/inbox/decide", open=first.id, digest=first.digest, decision="approve")
    await program.post(f"/v1/approvals/{second.id}/decisions", json={"decision": "approve"})

    (button,) = re.findall(r'<button type="submit" class="primary yes"[^>]*>', page)
    assert "data-focus-only" not in button
    assert (await delays(desk, mine.id), await delays(desk, theirs.id)) == (1, 0)
    assert [(await desk.desk.request(each.id)).status for each in (first, second)] == ["approved", "approved"]


async def test_what_is_not_usual_needs_two_gestures_and_begins_at_once(desk: RunningDesk) -> None:
    run = await waiting(desk.desk.store, "Support", "mail", [{"to": "ana@example.com"}])
    ana = await browser(desk)
    (request,) = await desk.desk.pending()

    page = (await ana.get(f"/inbox?open={request.id}")).text
    await post(ana, "/inbox/decide", open=request.id, digest=request.digest, decision="approve")

    (button,) = re.findall(r'<button type="submit" class="primary yes"[^>]*>', page)
    assert "data-focus-only" in button
    assert await delays(desk, run.id) == 0


async def test_after_a_decision_the_next_line_is_shown_be_it_a_deck(desk: RunningDesk) -> None:
    await waiting(desk.desk.store, "Support", "mail", [{"to": "ana@example.com"}], at=1000.0)
    await waiting(desk.desk.store, "Support", "refund", USUAL[:4], at=2000.0)
    ana = await browser(desk)
    (mail, *_) = await desk.desk.pending()

    ana.headers["HX-Request"] = "true"
    answer = await post(ana, "/inbox/decide", open=mail.id, digest=mail.digest, decision="reject")

    assert "4 requests" in answer.text
    assert re.search(r"open=deck-[0-9a-f]+", answer.headers["HX-Push-Url"])


async def test_a_deck_that_is_gone_says_so(desk: RunningDesk) -> None:
    ana = await browser(desk)

    answer = await ana.get("/inbox?open=deck-000000000000000000")

    assert answer.status_code == 200
    assert "Nothing is left to decide together here" in answer.text


async def test_of_more_than_two_hundred_the_first_are_shown_and_the_rest_is_counted(desk: RunningDesk) -> None:
    for first in range(0, 220, 22):
        calls: list[JsonObject] = [{"order": f"{first + n}", "cents": 4000} for n in range(22)]
        await waiting(desk.desk.store, "Support", "refund", calls, at=1000.0 + first)
    ana = await browser(desk)

    page = (await ana.get("/inbox")).text

    assert page.count('name="pick"') == 200
    assert "20 more like these wait" in page


async def test_after_enough_decisions_a_deck_offers_a_bounded_standing_decision_and_makes_what_was_shown(
    desk: RunningDesk,
) -> None:
    await waiting(desk.desk.store, "Support", "refund", USUAL[:4])
    ana = await browser(desk)
    page = (await ana.get("/inbox")).text
    fields = {
        name: found[0] for name in ("deck", "offer") if (found := re.findall(f'name="{name}" value="([^"]+)"', page))
    }
    (first, *_) = await desk.desk.pending()

    other = await post(ana, "/inbox/offer", deck=fields["deck"], offer="0" * 24, digest=first.digest)
    none = await desk.desk.grants()
    made = await post(ana, "/inbox/offer", **fields, digest=first.digest)
    (grant,) = await desk.desk.grants()

    assert "24 of the last 24 decisions" in page
    assert (other.status_code, none) == (409, [])
    assert "Up to 50 more like it" in made.text
    assert grant.by == "ana"
    assert grant.terms is not None
    assert [(each.argument, each.kind, each.values) for each in grant.terms.matching] == [
        ("cents", "range", [3900, 5050])
    ]
    assert (grant.until or 0) > 0
    assert (await desk.desk.request(first.id)).status == "approved"


async def test_nothing_is_offered_where_somebody_said_no_within_the_bounds(desk: RunningDesk) -> None:
    await remembered(desk.desk.store, "Support", "refund", [USUAL[3]], verdict="reject")
    await waiting(desk.desk.store, "Support", "refund", USUAL[:4])
    ana = await browser(desk)

    page = (await ana.get("/inbox")).text

    assert "Stop asking about these" not in page
