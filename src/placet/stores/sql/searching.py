"""Searching: the words of requests are kept, and requests are found by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placet.core.index import RequestRecord
from placet.facts.codec import canonical
from placet.ports import MAX_COUNTED, Found, RequestQuery
from placet.stores.sql.forgetting import ERASED
from placet.stores.sql.rows import LAST, after_cursor, check_limit, check_status, filtered, page_of, read_request
from placet.stores.sql.statements import Given, Row, Statement, Steps

_IS_ERASED = f'%"arguments":{canonical(ERASED).decode()}%'
"""What a row holds whose run was erased. In the text of arguments quotation marks are escaped: none looks like it."""

CONDITIONS = ("run_id", "status", "agent", "tool")


def keep_words(again: bool, words: Mapping[str, Sequence[str]]) -> Steps[None]:
    given: list[Given] = [
        {"id": key, "words": " ".join(each), "erased": _IS_ERASED} for key, each in sorted(words.items())
    ]
    yield Statement("forget_words", given)
    yield Statement("keep_words", given)


def conditions(query: RequestQuery) -> Given:
    check_status(query.status, "request")
    return {"run_id": query.run_id, "status": query.status, "agent": query.agent, "tool": query.tool}


def count(query: RequestQuery, most: int) -> Steps[int]:
    given = conditions(query)
    rows = yield Statement("count_requests", {**given, "limit": most}, filtered(given, *CONDITIONS))
    return int(rows[0][0])


def search(wanted: str, query: RequestQuery) -> Steps[Found]:
    """`wanted` in the words of the dialect."""
    given, limit = conditions(query), check_limit(query.limit)
    filters = filtered(given, *CONDITIONS)
    after = after_cursor(query.cursor, LAST if query.newest_first else 0)
    name = "found_newest" if query.newest_first else "found"
    rows = yield Statement(name, {**given, "words": wanted, "after": after, "limit": limit + 1}, filters)
    counted = yield Statement("count_found", {**given, "words": wanted, "limit": MAX_COUNTED}, filters)
    page = page_of(rows, limit, _ordinal, _request)
    return Found(rows=page.rows, cursor=page.cursor, total=int(counted[0][0]))


def _ordinal(row: Row) -> int:
    return int(row[0])


def _request(row: Row) -> RequestRecord:
    return read_request(*row[1:])
