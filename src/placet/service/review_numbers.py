"""Numbers about reviewing, out of the requests that a store indexes: how much is asked, how long it waits, what becomes
of it. For the team, to see where questions are too many or too slow; not for ranking people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from statistics import median

import msgspec

from placet.core.index import RequestRecord
from placet.ports import DeskStore, RequestQuery

DAY = 86400.0
PAGE = 500
MAX_ROWS = 50_000
"""Requests that are looked through, newest first: of more, the older ones are left out, and that is said."""
APPROVED = ("approved", "edited")


class Tally(msgspec.Struct):
    """What became of some requests."""

    name: str
    asked: int = 0
    approved: int = 0
    edited: int = 0
    """Of those approved, with changed arguments."""
    rejected: int = 0
    answered: int = 0
    expired: int = 0
    """They ended without an answer: a deadline, a cancelled run, another form of the question."""
    taken_back: int = 0
    """Approvals that were taken back before the call began."""
    waiting: int = 0
    by_grants: int = 0
    """A standing decision decided: no person looked."""
    waits: list[float] = []
    """Seconds from question to a person's decision."""

    @property
    def decided(self) -> int:
        return self.approved + self.rejected + self.answered

    @property
    def approval_rate(self) -> float | None:
        return self.approved / self.decided if self.decided else None

    @property
    def middle(self) -> float | None:
        return median(self.waits) if self.waits else None

    @property
    def p95(self) -> float | None:
        """So long at most for 95 of 100."""
        return sorted(self.waits)[max(0, -(-len(self.waits) * 95 // 100) - 1)] if self.waits else None

    def add(self, row: RequestRecord) -> None:
        self.asked += 1
        match row.status:
            case "pending":
                self.waiting += 1
            case "closed":
                if row.decided_by is not None:
                    self.taken_back += 1
                else:
                    self.expired += 1
            case "rejected":
                self.rejected += 1
            case "answered":
                self.answered += 1
            case "approved" | "edited":
                self.approved += 1
                self.edited += row.status == "edited"
        if row.grant is not None:
            self.by_grants += 1
        elif row.status not in ("pending", "closed") and row.decided_at is not None:
            self.waits.append(max(0.0, row.decided_at - row.created_at))


class ReviewNumbers(msgspec.Struct, frozen=True):
    """All of it, and by day, tool, agent and reviewer."""

    since: float
    whole: Tally
    days: list[Tally]
    """Oldest first, every day, also those without a question."""
    tools: list[Tally]
    agents: list[Tally]
    reviewers: list[Tally]
    is_cut: bool = False


async def review_numbers(store: DeskStore, now: float, days: int) -> ReviewNumbers:
    since = (now // DAY - days + 1) * DAY
    rows: list[RequestRecord] = []
    cursor: str | None = None
    while len(rows) < MAX_ROWS:
        page = await store.requests(RequestQuery(status=None, cursor=cursor, limit=PAGE, newest_first=True))
        rows += [row for row in page.rows if row.created_at >= since]
        cursor = page.cursor
        if cursor is None or page.rows[-1].created_at < since - DAY:  # requests are nearly in the order of their times
            return numbers_of(rows, since, days)
    return numbers_of(rows, since, days, is_cut=True)


def numbers_of(rows: Iterable[RequestRecord], since: float, days: int, *, is_cut: bool = False) -> ReviewNumbers:
    whole = Tally("all")
    by_day = {_day(since + each * DAY): Tally(_day(since + each * DAY)) for each in range(days)}
    tools: dict[str, Tally] = {}
    agents: dict[str, Tally] = {}
    reviewers: dict[str, Tally] = {}
    for row in rows:
        for tally in _places(row, tools, agents, reviewers):
            tally.add(row)
        whole.add(row)
        if (day := by_day.get(_day(row.created_at))) is not None:
            day.add(row)
    return ReviewNumbers(since, whole, [*by_day.values()], _sorted(tools), _sorted(agents), _sorted(reviewers), is_cut)


def _places(
    row: RequestRecord, tools: dict[str, Tally], agents: dict[str, Tally], reviewers: dict[str, Tally]
) -> Iterator[Tally]:
    yield tools.setdefault(row.tool, Tally(row.tool))
    yield agents.setdefault(row.agent, Tally(row.agent))
    if row.decided_by is not None and row.grant is None and row.status != "closed":
        yield reviewers.setdefault(row.decided_by, Tally(row.decided_by))


def _sorted(tallies: dict[str, Tally]) -> list[Tally]:
    """The most asked first; names decide where as much was asked, so that the order says nothing about people."""
    return sorted(tallies.values(), key=lambda each: (-each.asked, each.name))


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
