"""What the inbox lists: what waits, from memory, in the reader's order; what was decided, page after page; and what a
search finds of either.

Rule of this file: a page begins behind the key of a line, so that no line is hidden by what comes or goes.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any, Self

from placet.core.words import words_asked
from placet.desk.desk import DeskRequest
from placet.desk.pages.decks import Deck, Key, Single, all_lines, singles
from placet.desk.pages.form_data import Filters
from placet.desk.web.context import Web
from placet.desk.web.waiting import Care, Waits
from placet.facts.errors import UserError
from placet.ports import MAX_COUNTED, Page, RequestQuery

PAGE = 50
MAX_FOUND = 2000
"""So many of what waits and is found are sorted; of more, the oldest ones."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of the list."""

    lines: list[Deck | DeskRequest]
    cursor: str | None
    cares: dict[str, Care]
    """How much care each of the requests needs, as far as it is known."""
    agents: set[str]
    tools: set[str]
    total: int
    """How many requests there are on all pages, counted up to `MAX_COUNTED`."""
    is_cut: bool = False
    """More was found than can be sorted."""


async def listed(web: Web, filters: Filters, cursor: str | None) -> Listed:
    if filters.status == "pending":
        return await _waiting(web, filters, cursor)
    page, total = await _decided(web, _query(filters, cursor), filters)
    agents, tools = {row.agent for row in page.rows}, {row.tool for row in page.rows}
    return Listed([*page.rows], page.cursor, {}, agents, tools, total)


def _query(filters: Filters, cursor: str | None, limit: int = PAGE) -> RequestQuery:
    status: Any = None if filters.status == "all" else filters.status
    return RequestQuery(
        status=status,
        agent=filters.agent or None,
        tool=filters.tool or None,
        run_id=filters.run or None,
        cursor=cursor,
        limit=limit,
        newest_first=filters.sort == "newest",
    )


async def _decided(web: Web, query: RequestQuery, filters: Filters) -> tuple[Page[DeskRequest], int]:
    if filters.words:
        found = await web.desk.store.search(words_asked(filters.words), query)
        return Page(found.rows, found.cursor), found.total
    return await web.desk.store.requests(query), await web.desk.store.count_requests(query)


@dataclass(frozen=True, slots=True)
class _Ordered:
    """All lines of a list, as they stand while nothing changes."""

    lines: list[Deck | Single]
    keys: list[Key]
    total: int

    @classmethod
    def of(cls, lines: list[tuple[Key, Deck | Single]], total: int) -> Self:
        return cls([line for _, line in lines], [key for key, _ in lines], total)


async def _waiting(web: Web, filters: Filters, cursor: str | None) -> Listed:
    await web.waiting.refresh(web.clock.now())
    ordered, is_cut = await _ordered(web, filters)
    begins = bisect.bisect_right(ordered.keys, key_at(cursor)) if cursor is not None else 0
    shown, cares = ordered.lines[begins : begins + PAGE], dict[str, Care]()
    found: list[Deck | DeskRequest] = []
    for line in shown:
        if isinstance(line, Deck):
            found.append(line)
            continue
        request = await whole(web, line.waits)
        if request is not None:
            found.append(request)
            cares[request.id] = line.care
    first = [group[0].request for group in web.waiting.groups.values()]
    following = cursor_at(ordered.keys[begins + PAGE - 1]) if len(ordered.lines) > begins + PAGE else None
    agents, tools = {each.agent for each in first}, {each.tool for each in first}
    return Listed(found, following, cares, agents, tools, ordered.total, is_cut)


async def _ordered(web: Web, filters: Filters) -> tuple[_Ordered, bool]:
    """The lines of all pages. They are kept while nothing changes: to sort a hundred thousand takes a while."""
    if filters.words:
        found = await web.desk.store.search(words_asked(filters.words), _query(filters, None, MAX_FOUND))
        lines = singles(web.waiting, filters, [(row.run_id, row.id) for row in found.rows])
        return _Ordered.of(lines, found.total), found.cursor is not None
    return web.waiting.kept(filters, lambda: _all_of(web, filters)), False


def _all_of(web: Web, filters: Filters) -> _Ordered:
    lines = all_lines(web.waiting, filters)
    return _Ordered.of(lines, min(MAX_COUNTED, sum(line.count for _, line in lines)))


async def whole(web: Web, waits: Waits) -> DeskRequest | None:
    """A request with its arguments; None where it is gone by now."""
    return await web.desk.store.request(waits.request.id) if waits.is_cut else waits.request


def cursor_at(key: Key) -> str:
    return f"{key[0]!r}~{key[1]!r}~{key[2]}~{'.'.join(map(str, key[3]))}"


def key_at(cursor: str) -> Key:
    """The key that a cursor names."""
    try:
        rank, at, run_id, numbers = cursor.split("~")
        return float(rank), float(at), run_id, tuple(map(int, numbers.split(".")))
    except ValueError:
        raise UserError(f"{cursor!r} is not a cursor of this list: pass the one that came with a page.") from None
