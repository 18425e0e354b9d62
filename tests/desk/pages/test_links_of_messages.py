"""Links in messages: programs that look for viruses follow them, previews fetch them, and nothing is decided by it."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.desk.pages.test_deciding_pages import HTML, browser, desk, post
from tests.support.desk_server import RunningDesk

__all__ = ["desk"]


@pytest.mark.promise("P25")
async def test_a_link_in_a_message_demands_a_log_in_and_decides_nothing(desk: RunningDesk) -> None:
    await desk.waiting_run()
    (first, _) = await desk.desk.pending()
    link = f"/inbox?open={first.id}"
    scanner = desk.client()
    scanner.headers.update(HTML)
    got, headed = await scanner.get(link), await scanner.head(link)
    posted = await scanner.post("/inbox/decide", data={"open": first.id, "decision": "approve"})
    ana = await browser(desk)
    looked = [await ana.get(f"{link}&decision=approve"), await ana.get(f"/inbox/decide?open={first.id}")]
    untouched = await desk.desk.request(first.id)
    decided = await post(ana, "/inbox/decide", open=first.id, digest=first.digest, decision="approve")

    assert (got.status_code, headed.status_code) == (303, 401)
    place = urlsplit(got.headers["location"])
    assert (place.path, parse_qs(place.query)["next"]) == ("/login", [link]), "who logs in comes to the request"
    assert posted.status_code in (303, 401, 403)
    assert [answer.status_code for answer in looked] == [200, 405]
    assert untouched.status == "pending"
    assert decided.status_code in (200, 303)
    assert (await desk.desk.request(first.id)).status == "approved"
