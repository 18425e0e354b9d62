"""The page of numbers and its CSV: counted by hand once, and what a name could do to a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import msgspec

from placet.core.index import RequestRecord
from placet.service.review_numbers import DAY, numbers_of
from tests.desk.pages.test_deciding_pages import browser
from tests.support.decided import decided, waiting
from tests.support.desk_server import running_desk

ASKED = RequestRecord(
    id="r", run_id="run_1", call="1.0", number=1, kind="approval", agent="Support", tool="refund",
    arguments_text="{}", digest="d", created_at=10 * DAY + 5,
)  # fmt: skip


def row(status: str, by: str | None = "ana", after: float = 60.0, **more: object) -> RequestRecord:
    given = {"status": status, "decided_by": by, "decided_at": ASKED.created_at + after, **more}
    return msgspec.structs.replace(ASKED, **given)


def test_what_became_of_requests_is_counted_once_each_and_by_whom() -> None:
    rows = [
        row("approved", after=10),
        row("edited", after=20),
        row("rejected", "ben", after=90),
        row("answered", "ben", after=40),
        row("approved", "ana", after=0, grant="grant_1"),
        row("closed", None),
        row("closed", "ana"),
        msgspec.structs.replace(ASKED, tool="mail", created_at=12 * DAY),
    ]

    found = numbers_of(rows, 9 * DAY, 5)
    whole = found.whole

    assert (whole.asked, whole.approved, whole.edited, whole.rejected, whole.answered) == (8, 3, 1, 1, 1)
    assert (whole.expired, whole.taken_back, whole.waiting, whole.by_grants) == (1, 1, 1, 1)
    assert (whole.middle, whole.p95, whole.approval_rate) == (30.0, 90.0, 0.6)
    assert [(each.name, each.asked) for each in found.reviewers] == [("ana", 2), ("ben", 2)]
    assert [(each.name, each.asked) for each in found.tools] == [("refund", 7), ("mail", 1)]
    assert [each.asked for each in found.days] == [0, 7, 0, 1, 0]


async def test_the_page_and_the_csv_say_the_same_and_a_name_is_no_formula(tmp_path: Path) -> None:
    async with running_desk(tmp_path, run=False) as desk:
        await decided(desk.desk.store, "Support", "refund", [{"n": 1}, {"n": 2}], by="carol")
        await decided(desk.desk.store, "Support", "refund", [{"n": 3}], verdict="reject", by="carol")
        await waiting(desk.desk.store, "<i>Ops</i>", "=HYPERLINK", [{"n": 1}])
        ana = await browser(desk)

        page = (await ana.get("/numbers?days=7")).text
        text = await ana.get("/numbers.csv?days=7")
        nobody = await desk.client().get("/numbers.csv")

    rows = {(each["kind"], each["name"]): each for each in csv.DictReader(io.StringIO(text.text))}
    assert rows["all", "all"]["asked"] == "4"
    assert (rows["tool", "refund"]["approved"], rows["tool", "refund"]["rejected"]) == ("2", "1")
    assert rows["reviewer", "carol"]["asked"] == "3"
    assert ("tool", "'=HYPERLINK") in rows
    assert len([each for each in rows if each[0] == "day"]) == 7
    assert "<dt>Asked</dt><dd>4</dd>" in page
    assert "<dt>Approved</dt><dd>67 %</dd>" in page
    assert "<i>Ops" not in page
    assert len(re.findall('<rect class="bar', page)) >= 3
    assert nobody.status_code == 401
