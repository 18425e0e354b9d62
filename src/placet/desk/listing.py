"""Lists of a store: whole, page after page, unless a number was asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from placet.ports import Page, RequestQuery, RunQuery

V = TypeVar("V")
Q = TypeVar("Q", RequestQuery, RunQuery)

PAGE = 500
"""Rows that are fetched at once: few enough for a pause between two, many enough to be quick."""


async def listed(fetch: Callable[[Q], Awaitable[Page[V]]], query: Q, limit: int | None) -> Page[V]:
    """At most `limit` rows, and the cursor of the next ones. Without a limit all rows from the query's cursor on.

    A cursor names the row behind which a page begins, so that rows that come or change between two pages neither hide
    nor repeat any other.
    """
    if limit is not None:
        return await fetch(msgspec.structs.replace(query, limit=limit))
    rows: list[V] = []
    cursor = query.cursor
    while True:
        page = await fetch(msgspec.structs.replace(query, cursor=cursor, limit=PAGE))
        rows += page.rows
        cursor = page.cursor
        if cursor is None:
            return Page(rows, None)
