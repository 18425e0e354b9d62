"""What waits, in memory: a projection of the store's index that follows the feed, for lists that group what is alike.

Rule of this file: it only shortens the way to what the store's index says. A run that the feed names is read from the
index again, whole, so nothing here is derived a second time; what is decided is looked at in the run's log as always.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, TypeAlias, TypeVar, cast

import msgspec

from placet.core.baseline import NOTHING, Baseline, Comparison, Sample, Value, fields_of, shape_of
from placet.core.index import RequestRecord
from placet.facts.codec import canonical
from placet.ports import DeskStore, RequestQuery
from placet.service.baselines import newest_sample, samples_of, samples_place

Care: TypeAlias = Literal["usual", "plain", "unusual", "high"]
"""How much care a yes needs. `usual`: one key. `plain`: two gestures. `unusual`: the odd values are acknowledged first.
`high`: it cannot be undone, or may have happened: no key, no green button."""

V = TypeVar("V")

MAX_KEPT = 4
"""Lists that were made of all that waits, and are kept until something is different."""
PAGE = 500
MAX_BEHIND = 2000
"""So many appends are followed one by one; after more, all is read again."""
WHOLE_AGAIN = 300.0
"""Seconds after which all is read again: what the feed does not tell (an index that was built anew) is seen then."""
SAMPLES_AGAIN = 30.0
"""Seconds after which samples are read again, although no newer ones came: some may have been taken back."""
LARGE = 300
RECOMPARED = 3.0
"""A group of more than so many requests is compared again at most once in so many seconds."""
KEPT_TEXT = 4000
"""Larger arguments are not kept: a line that shows them reads the request from the store."""


Place: TypeAlias = tuple[float, str, tuple[int, ...]]


class Waits(msgspec.Struct, gc=False):
    """One request that waits, with what lists need of it."""

    request: RequestRecord
    """Without its arguments, where they are large."""
    is_cut: bool
    is_object: bool
    """Its arguments are one JSON object, as they should be."""
    fields: dict[str, Value]
    is_whole: bool
    like: str
    """What requests that are alike have in common."""
    place: Place
    """Lists are oldest first."""
    care: Care | None = None
    """None: it was not compared yet."""


def care_of(request: RequestRecord, comparison: Comparison) -> Care:
    if request.kind == "in_doubt" or request.irreversible:
        return "high"
    if request.kind != "approval":
        return "plain"
    if comparison.is_unusual:
        return "unusual"
    return "usual" if comparison.is_usual and request.ballot is None and request.why is None else "plain"


def _read(request: RequestRecord) -> Waits:
    arguments = request.arguments
    fields, is_whole = ({}, False) if isinstance(arguments, str) else fields_of(arguments)
    names = sorted(arguments) if isinstance(arguments, dict) else ["\x1f not an object"]
    alike = [request.agent, request.tool, request.kind, names, request.needs, request.why, request.irreversible]
    is_cut = len(request.arguments_text) > KEPT_TEXT
    kept = msgspec.structs.replace(request, arguments_text="{}") if is_cut else request
    like = hashlib.blake2b(canonical(alike), digest_size=9).hexdigest()
    numbers = tuple(map(int, re.findall(r"\d+", request.call)))
    return Waits(
        kept, is_cut, isinstance(arguments, dict), fields, is_whole, like, (request.created_at, request.run_id, numbers)
    )


class _Samples(msgspec.Struct):
    """What people decided about a tool of an agent, as it was read."""

    newest: str
    read_at: float
    all: list[Sample]
    baselines: dict[tuple[str, ...], Baseline]


class Waiting:
    """All requests that wait in a store. `refresh` brings it up to date; one process has one."""

    def __init__(self, store: DeskStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._by_run: dict[str, list[Waits]] = {}
        self._groups: dict[str, list[Waits]] = {}
        """By what is alike, oldest first."""
        self._sequence: int | None = None
        self._read_at = 0.0
        self._samples: dict[tuple[str, str], _Samples] = {}
        self._samples_at = ""
        self._grown: set[str] = set()
        """Groups to which something came."""
        self._due: set[str] = set()
        """Groups whose samples are others by now."""
        self._compared: dict[str, float] = {}
        """When each large group was compared as a whole."""
        self._kept: dict[object, tuple[int, object]] = {}
        self.version = 0
        """Another number: something is different."""

    @property
    def groups(self) -> dict[str, list[Waits]]:
        return self._groups

    def of_run(self, run_id: str) -> Sequence[Waits]:
        return self._by_run.get(run_id, ())

    @property
    def count(self) -> int:
        return sum(map(len, self._by_run.values()))

    def kept(self, name: object, make: Callable[[], V]) -> V:
        """What was made of all that waits, until something is different. `name` says what it is."""
        known = self._kept.get(name)
        if known is not None and known[0] == self.version:
            return cast("V", known[1])
        made = make()
        self._kept.pop(name, None)
        self._kept[name] = (self.version, made)
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return made

    async def refresh(self, now: float) -> None:
        """Take in what has happened since the last time. `now` is what samples are compared at."""
        async with self._lock:
            await self._follow()
            await self._compare(now)

    # -- following the feed ---------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        if self._sequence is None or time.monotonic() - self._read_at > WHOLE_AGAIN:
            await self._read_all()
            return
        runs: set[str] = set()
        after = self._sequence
        while entries := await self._store.feed(after, PAGE):
            after = entries[-1].sequence
            runs |= {entry.run_id for entry in entries if entry.run_id in self._by_run or _may_ask(entry.text)}
            if after - self._sequence > MAX_BEHIND:
                await self._read_all()
                return
        for run_id in runs:
            self._replace(run_id, [row async for row in self._rows(run_id)])
        self._sequence = after

    async def _read_all(self) -> None:
        sequence = await self._store.latest_sequence()  # before the rows: what happens meanwhile is followed later
        by_run: dict[str, list[Waits]] = {}
        known = {each.request.id: each for rows in self._by_run.values() for each in rows}
        async for row in self._rows(None):
            by_run.setdefault(row.run_id, []).append(_same_or_read(known.get(row.id), row))
        groups: dict[str, list[Waits]] = {}
        for each in sorted((each for rows in by_run.values() for each in rows), key=lambda each: each.place):
            groups.setdefault(each.like, []).append(each)
        self._by_run, self._groups = by_run, groups
        self._sequence, self._read_at = sequence, time.monotonic()
        self._grown |= set(groups)
        self.version += 1

    async def _rows(self, run_id: str | None) -> AsyncIterator[RequestRecord]:
        cursor: str | None = None
        while True:
            page = await self._store.requests(RequestQuery(run_id=run_id, cursor=cursor, limit=PAGE))
            for row in page.rows:
                yield row
            cursor = page.cursor
            if cursor is None:
                return

    def _replace(self, run_id: str, rows: Sequence[RequestRecord]) -> None:
        before = self._by_run.pop(run_id, [])
        known = {each.request.id: each for each in before}
        found = [_same_or_read(known.get(row.id), row) for row in rows]
        if found:
            self._by_run[run_id] = found
        if [id(each) for each in found] == [id(each) for each in before]:
            return
        for like in {each.like for each in (*before, *found)}:
            self._regroup(like, run_id, [each for each in found if each.like == like])
        self._grown |= {each.like for each in found}
        self.version += 1

    def _regroup(self, like: str, run_id: str, found: Sequence[Waits]) -> None:
        others = [each for each in self._groups.get(like, ()) if each.request.run_id != run_id]
        group = sorted([*others, *found], key=lambda each: each.place)
        if group:
            self._groups[like] = group
        else:
            self._groups.pop(like, None)
            self._compared.pop(like, None)

    # -- comparing ------------------------------------------------------------------------------------------------

    async def _compare(self, now: float) -> None:
        """Say of every request how much care it needs: of new ones, and of all whose samples are others by now."""
        await self._note_new_samples()
        for like in [*self._due]:
            group = self._groups.get(like)
            if group is None:
                self._due.discard(like)
            elif len(group) <= LARGE or time.monotonic() - self._compared.get(like, 0.0) > RECOMPARED:
                self._due.discard(like)
                self._compared[like] = time.monotonic()
                await self._judge(group, group, now)
        for like in self._grown:
            group = self._groups.get(like, [])
            await self._judge(group, [each for each in group if each.care is None], now)
        self._grown.clear()

    async def _judge(self, group: Sequence[Waits], those: Sequence[Waits], now: float) -> None:
        if not those:
            return
        baseline = await self._baseline_of(group[0], now)
        for number, each in enumerate(those):
            if number % 500 == 499:
                await asyncio.sleep(0)  # others have their turn
            each.care = _care(each, self._without(each, baseline, now), now)
        self.version += 1

    async def _note_new_samples(self) -> None:
        """Which groups have to be compared again, because people decided something about their tool."""
        place = await samples_place(self._store)
        if place == self._samples_at:
            return
        self._samples_at = place
        stale: set[tuple[str, str]] = set()
        for tool, known in list(self._samples.items()):
            is_old = time.monotonic() - known.read_at > SAMPLES_AGAIN
            if is_old or await newest_sample(self._store, *tool) != known.newest:
                del self._samples[tool]
                stale.add(tool)
        self._due |= {like for like, group in self._groups.items() if _tool_of(group[0]) in stale}

    async def _baseline_of(self, first: Waits, now: float) -> Baseline:
        tool = _tool_of(first)
        shape = shape_of(first.fields)
        known = self._samples.get(tool)
        if known is None:
            newest = await newest_sample(self._store, *tool)
            known = _Samples(newest, time.monotonic(), await samples_of(self._store, *tool), {})
            self._samples[tool] = known
        if shape not in known.baselines:
            known.baselines[shape] = Baseline(shape, known.all, now)
        return known.baselines[shape]

    def _without(self, mine: Waits, baseline: Baseline, now: float) -> Baseline:
        """A call is not compared with what was decided about itself."""
        call = (mine.request.run_id, mine.request.call)
        if call not in baseline.calls:
            return baseline
        known = self._samples[_tool_of(mine)].all
        return Baseline(shape_of(mine.fields), [each for each in known if (each.run, each.call) != call], now)


def _tool_of(each: Waits) -> tuple[str, str]:
    return each.request.agent, each.request.tool


def _care(each: Waits, baseline: Baseline, now: float) -> Care:
    request = each.request
    if request.kind != "approval" or not each.is_object:
        return care_of(request, NOTHING)
    return care_of(request, baseline.compare(each.fields, now, is_whole=each.is_whole))


def _same_or_read(known: Waits | None, row: RequestRecord) -> Waits:
    """What is known of a request is kept while the index says the same of it."""
    if known is not None:
        kept = msgspec.structs.replace(row, arguments_text="{}") if known.is_cut else row
        if kept == known.request:
            return known
    return _read(row)


_ASKING = (b'"hold"', b'"doubt"', b'"elicit"', b'"revoke"')


def _may_ask(text: bytes) -> bool:
    """Whether a line may have put a question: a run of which nothing waits is read only then."""
    return any(word in text for word in _ASKING)
