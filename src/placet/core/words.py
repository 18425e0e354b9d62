"""The words by which a request is found: what is said of it, and what people ask for, are cut up alike.

Pure. Letters of any script, small, without their accents; a word is found by its beginning. Scripts that are written
without spaces are cut into single signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from placet.core.index import RequestRecord
from placet.facts.codec import Json

MAX_WORDS = 3000
"""Different words of one request that are kept."""
MAX_TEXT = 200_000
"""Characters of arguments that are looked at."""
MAX_LETTERS = 60
MAX_ASKED = 12
"""Words of one question that count."""
MAX_DEPTH = 30

_ONE_BY_ONE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W_]+")


def words_in(text: str) -> Iterator[str]:
    bare = "".join(
        each
        for each in unicodedata.normalize("NFKD", text.casefold())
        if not unicodedata.category(each).startswith("M")
    )
    for match in _WORD.finditer(_ONE_BY_ONE.sub(r" \g<0> ", unicodedata.normalize("NFC", bare))):
        yield match[0][:MAX_LETTERS]


def words_asked(text: str) -> list[str]:
    """What somebody looks for: all of these words have to be there."""
    return list(dict.fromkeys(words_in(text)))[:MAX_ASKED]


def words_of(request: RequestRecord, *more: str | None) -> list[str]:
    """By what a request is found: its tool, its agent, what would run, who decided and why, its ids."""
    found: dict[str, None] = {}
    for text in _said(request, more):
        for word in words_in(text):
            found[word] = None
            if len(found) >= MAX_WORDS:
                return list(found)
    return list(found)


def _said(request: RequestRecord, more: Iterable[str | None]) -> Iterator[str]:
    voters = [vote.by for vote in request.votes]
    about = (request.tool, request.agent, request.summary, request.why, request.decided_by, request.reason)
    yield from (each for each in (*about, *voters, *more, request.id, request.run_id) if each)
    if len(request.arguments_text) > MAX_TEXT:
        yield request.arguments_text[:MAX_TEXT]
    else:
        yield from _texts(request.arguments, 0)


def _texts(value: Json, depth: int) -> Iterator[str]:
    """The names and the values in it, in their order."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from _texts(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, depth + 1)
    elif value is not None:
        yield str(value)
