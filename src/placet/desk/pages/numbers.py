"""The page of numbers: how much is asked, how long it waits, what becomes of it; drawn here, and as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from placet.desk.pages.rendering import show
from placet.desk.web.context import actor_of, web_of
from placet.service.review_numbers import ReviewNumbers, Tally, review_numbers

SPANS = (7, 30, 90)
WIDTH, HEIGHT = 720, 120
COLUMNS = (
    "kind", "name", "asked", "approved", "edited", "rejected", "answered", "expired", "taken_back", "waiting",
    "by_grants", "median_seconds", "p95_seconds",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of the column of one day."""

    x: float
    y: float
    width: float
    height: float
    look: str
    label: str


async def numbers(request: Request) -> Response:
    web = web_of(request)
    actor_of(request)
    days = _days(request)
    found = await review_numbers(web.desk.store, web.clock.now(), days)
    tables = [("Tool", found.tools[:50]), ("Agent", found.agents[:50]), ("Reviewer", found.reviewers[:50])]
    drawn = {"bars": bars_of(found), "width": WIDTH, "height": HEIGHT, "most": max(day.asked for day in found.days)}
    return show(
        request,
        "numbers.html",
        {"page": "numbers", "it": found, "days": days, "spans": SPANS, "tables": tables, **drawn},
    )


async def numbers_csv(request: Request) -> Response:
    web = web_of(request)
    actor_of(request)
    found = await review_numbers(web.desk.store, web.clock.now(), _days(request))
    headers = {"Content-Disposition": 'attachment; filename="placet-numbers.csv"'}
    return Response(csv_of(found), media_type="text/csv; charset=utf-8", headers=headers)


def _days(request: Request) -> int:
    wanted = request.query_params.get("days", "")
    return next((each for each in SPANS if str(each) == wanted), 30)


def bars_of(found: ReviewNumbers) -> list[Bar]:
    """One column for each day: what was approved at the bottom, then what was not, then the rest."""
    most = max(1, *(day.asked for day in found.days))
    step = WIDTH / len(found.days)
    bars: list[Bar] = []
    for place, day in enumerate(found.days):
        top = float(HEIGHT)
        rest = day.asked - day.approved - day.rejected
        parts = (("yes", day.approved, "approved"), ("no", day.rejected, "rejected"), ("rest", rest, "other"))
        for look, count, word in parts:
            height = round(count / most * HEIGHT, 2)
            top -= height
            if count:
                label = f"{day.name}: {count} {word} of {day.asked}"
                x, width = round(place * step, 2), round(max(1.0, step - 2), 2)
                bars.append(Bar(x, round(top, 2), width, height, look, label))
    return bars


def csv_of(found: ReviewNumbers) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    by_name = (("tool", found.tools), ("agent", found.agents), ("reviewer", found.reviewers))
    kinds = (("all", [found.whole]), ("day", found.days), *by_name)
    for kind, tallies in kinds:
        for each in tallies:
            writer.writerow([kind, _plain(each.name), *_cells(each)])
    return out.getvalue()


def _cells(each: Tally) -> list[object]:
    seconds = ["" if value is None else round(value, 3) for value in (each.middle, each.p95)]
    return [*(getattr(each, name) for name in COLUMNS[2:-2]), *seconds]


def _plain(name: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{name}" if name.startswith(_FORMULA) else name
