"""Decks: requests that are alike as one line of the list, and what they have in common in words.

Rule of this file: what is unusual, cannot be undone, or is no plain approval is never in a deck: it has its own line.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TypeAlias

from placet.core.baseline import Value
from placet.desk.pages.form_data import Filters
from placet.desk.pages.text_format import shortened
from placet.desk.web.waiting import Care, Place, Waiting, Waits

MIN_DECK = 3
"""So many requests that are alike are a deck: two lines are read as quickly as one about both."""
MAX_NAMED = 2
"""So many different values of a field are named in a deck's line."""
MAX_FIELDS = 6
PREFIX = "deck-"


@dataclass(frozen=True)
class Deck:
    """Requests that are alike: the same tool and agent, arguments of the same names, asked for the same reason."""

    like: str
    members: Sequence[Waits]
    """Oldest first."""
    unusual: int
    """How many that are alike have lines of their own, because something in them is unusual."""

    @property
    def id(self) -> str:
        return f"{PREFIX}{self.like}"

    @property
    def place(self) -> Place:
        return self.members[0].place

    @property
    def newest(self) -> float:
        return self.members[-1].place[0]

    @property
    def care(self) -> Care:
        return "usual" if self.usual == len(self.members) else "plain"

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def tool(self) -> str:
        return self.members[0].request.tool

    @property
    def agent(self) -> str:
        return self.members[0].request.agent

    @cached_property
    def usual(self) -> int:
        return sum(each.care == "usual" for each in self.members)

    @cached_property
    def expires_at(self) -> float | None:
        """The earliest deadline in it."""
        return min((each.request.expires_at for each in self.members if each.request.expires_at), default=None)

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        """What its members want, in one line: names and values apart, as in the line of one request."""
        sentence = _common_sentence([each.request.summary or "" for each in self.members])
        return [("", sentence)] if sentence else [*_ranges(self.members)]


@dataclass(frozen=True, slots=True)
class Single:
    """A request with a line of its own."""

    waits: Waits

    @property
    def id(self) -> str:
        return self.waits.request.id

    @property
    def place(self) -> Place:
        return self.waits.place

    @property
    def newest(self) -> float:
        return self.waits.place[0]

    @property
    def expires_at(self) -> float | None:
        return self.waits.request.expires_at

    @property
    def count(self) -> int:
        return 1

    @property
    def care(self) -> Care:
        return self.waits.care or "plain"


def all_lines(waiting: Waiting, filters: Filters) -> list[tuple[Key, Deck | Single]]:
    """All lines of the list, in its order, each with its key."""
    return ordered(_all_lines(waiting, filters), filters.sort)


def singles(waiting: Waiting, filters: Filters, found: Iterable[tuple[str, str]]) -> list[tuple[Key, Deck | Single]]:
    """The same of a few requests, by run and id, each in a line of its own. What does not wait any more is left out."""
    wanted = [next((each for each in waiting.of_run(run) if each.request.id == of), None) for run, of in found]
    return ordered((Single(each) for each in wanted if each is not None), filters.sort)


def ordered(lines: Iterable[Deck | Single], sort: str) -> list[tuple[Key, Deck | Single]]:
    return sorted(((key_of(line, sort), line) for line in lines), key=itemgetter(0))


def _all_lines(waiting: Waiting, filters: Filters) -> Iterator[Deck | Single]:
    for like, group in waiting.groups.items():
        first = group[0].request
        if (filters.agent and filters.agent != first.agent) or (filters.tool and filters.tool != first.tool):
            continue
        wanted = [each for each in group if not filters.run or each.request.run_id == filters.run]
        yield from _grouped(like, wanted) if filters.is_grouped else map(Single, wanted)


_CARE_FIRST: dict[Care, float] = {"high": 0, "unusual": 1, "plain": 2, "usual": 3}

Key: TypeAlias = tuple[float, float, str, tuple[int, ...]]


def key_of(line: Deck | Single, sort: str) -> Key:
    """Where a line stands in an order. No two lines have the same: a page begins behind one."""
    at, run_id, numbers = line.place
    if sort == "newest":
        return -line.newest, at, run_id, numbers
    if sort == "deadline":
        return math.inf if line.expires_at is None else line.expires_at, at, run_id, numbers
    return _CARE_FIRST[line.care] if sort == "risk" else 0.0, at, run_id, numbers


def deck_of(waiting: Waiting, filters: Filters, deck_id: str) -> Deck | None:
    """One deck, made once as long as nothing is different; None when too few are left of it."""
    return waiting.kept((deck_id, filters), lambda: _deck_of(waiting, filters, deck_id))


def _deck_of(waiting: Waiting, filters: Filters, deck_id: str) -> Deck | None:
    like = deck_id.removeprefix(PREFIX)
    wanted = [each for each in waiting.groups.get(like, ()) if not filters.run or each.request.run_id == filters.run]
    return next((line for line in _grouped(like, wanted) if isinstance(line, Deck)), None)


def _grouped(like: str, group: Sequence[Waits]) -> Iterator[Deck | Single]:
    members = [each for each in group if each.request.kind == "approval" and each.care in ("usual", "plain")]
    if len(members) < MIN_DECK:
        yield from map(Single, group)
        return
    yield Deck(like, members, sum(each.care == "unusual" for each in group))
    inside = {id(each) for each in members}
    yield from (Single(each) for each in group if id(each) not in inside)


# -- in words ----------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(\D*?)(\d[\d.,]*\d|\d)(\D*)")


def _common_sentence(sentences: Sequence[str]) -> str:
    """The sentences of all as one: what is the same stays, numbers become a range, other words become «…»."""
    words = [each.split() for each in sentences]
    if not all(words) or len({len(each) for each in words}) != 1:
        return ""
    merged = [_merged(column) for column in zip(*words, strict=True)]
    if all(each == "…" for each in merged):
        return ""
    kept = [each for n, each in enumerate(merged) if each != "…" or n == 0 or merged[n - 1] != "…"]
    return shortened(" ".join(kept), 200)


def _merged(words: Sequence[str]) -> str:
    if len(set(words)) == 1:
        return words[0]
    matches = [_NUMBER.fullmatch(word) for word in words]
    if not all(matches) or len({(match[1], match[3]) for match in matches if match}) != 1:
        return "…"
    numbers = sorted(((_as_number(match[2]), match[2]) for match in matches if match), key=lambda each: each[0])
    before, after = (matches[0][1], matches[0][3]) if matches[0] else ("", "")
    return f"{before}{numbers[0][1]}–{numbers[-1][1]}{after}"


def _as_number(text: str) -> float:
    """For comparing alone: the last sign is the one before decimals, where two digits follow it."""
    whole, _, rest = re.sub(r"[.,](?=\d{3}(\D|$))", "", text).replace(",", ".").rpartition(".")
    return float(f"{whole.replace('.', '')}.{rest}") if whole else float(rest)


def _ranges(members: Sequence[Waits]) -> Iterator[tuple[str, str]]:
    names = list(members[0].fields)
    for name in names[:MAX_FIELDS]:
        yield shortened(name.replace("\x1f", "."), 40), _range([e.fields[name] for e in members if name in e.fields])
    if len(names) > MAX_FIELDS:
        yield "", f"and {len(names) - MAX_FIELDS} more"


def _range(values: Sequence[Value]) -> str:
    numbers = [each.plain for each in values if each.kind == "number" and isinstance(each.plain, int | float)]
    if len(numbers) == len(values):
        low, high = min(numbers), max(numbers)
        return f"{low}" if low == high else f"{low}–{high}"
    counted = Counter((each.kind, each.plain, each.digest) for each in values)
    if len(counted) > MAX_NAMED or any(each.kind in ("long text", "list", "object") for each in values):
        return "always the same" if len(counted) == 1 else f"{len(counted)} different"
    return ", ".join(_named(kind, plain) for (kind, plain, _), _ in counted.most_common())


def _named(kind: str, plain: object) -> str:
    if kind == "nothing":
        return "null"
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return str(plain)
