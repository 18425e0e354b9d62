"""What people approved before, and how a call differs from it: pure, over a bounded number of samples.

Rule of this file: what cannot be compared is never called usual. A difference is a reason to look; that there is none
proves nothing, and takes no question away.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Literal, TypeAlias

import msgspec

from placet.facts.codec import Json, JsonObject, canonical

MAX_FIELDS = 24
"""Fields of a call that are compared: one with more is never usual."""
MAX_TEXT = 64
"""Longer texts are free text: somebody has to read them."""
MIN_TO_COMPARE = 5
"""From so many approvals on, what differs from them is called unusual."""
MIN_USUAL = 20
MIN_RUNS = 2
MOSTLY = 0.8
"""A field of which so large a part of the values is different each time names things: its form is compared."""
LONG_AGO = 60 * 86400.0
TIMES = 2.0
"""From so many times the median on, a number outside of the range is compared with the median."""
FAR = 10.0
"""From so many times the median on, a number is unusual although a person once approved one as large."""

Plain: TypeAlias = int | float | str | bool | None
Kind: TypeAlias = Literal["number", "text", "flag", "nothing", "long text", "list", "object"]


class Value(msgspec.Struct, frozen=True, array_like=True):
    """What is remembered of one field of one call: a small value itself, of a large one its size and a digest."""

    kind: Kind
    plain: Plain = None
    size: int = 0
    digest: str = ""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One call that a person decided about."""

    run: str
    call: str
    request: int
    at: float
    approved: bool
    by: str | None
    fields: dict[str, Value]
    is_whole: bool = True
    """All of its fields are here."""

    @property
    def shape(self) -> tuple[str, ...]:
        return shape_of(self.fields)


def shape_of(fields: Mapping[str, object]) -> tuple[str, ...]:
    """The names of the arguments. Calls with other names are not compared."""
    return tuple(sorted({_top(name) for name in fields}))


def _top(path: str) -> str:
    return path.partition("\x1f")[0]


def fields_of(arguments: JsonObject) -> tuple[dict[str, Value], bool]:
    """What is remembered of arguments, and whether it is all of them. Names within objects are joined by a sign that no
    readable name holds."""
    found: dict[str, Value] = {}
    for path, value in _leaves(arguments, "", 0):
        if len(found) >= MAX_FIELDS:
            return found, False
        found[path] = _remembered(value)
    return found, True


def _leaves(value: JsonObject, before: str, depth: int) -> Iterator[tuple[str, Json]]:
    for name, each in value.items():
        path = f"{before}\x1f{name}" if before else name
        if isinstance(each, dict) and each and depth < 3:
            yield from _leaves(each, path, depth + 1)
        else:
            yield path, each


def _remembered(value: Json) -> Value:
    if value is None:
        return Value("nothing")
    if isinstance(value, bool):
        return Value("flag", value)
    if isinstance(value, int | float) and abs(value) < 2**63:
        return Value("number", value)
    if isinstance(value, str) and len(value) <= MAX_TEXT and "\n" not in value:
        return Value("text", value)
    if isinstance(value, str):
        return Value("long text", None, len(value), _digest(value))
    if isinstance(value, list):
        return Value("list", None, len(value), _digest(value))
    return Value("object", None, len(value) if isinstance(value, dict) else 1, _digest(value))


def _digest(value: Json) -> str:
    return hashlib.blake2b(canonical(value), digest_size=9).hexdigest()


# -- comparing ---------------------------------------------------------------------------------------------------------

Standing: TypeAlias = Literal["same", "read", "odd"]
"""`same`: within what people approved. `read`: nothing to compare with, somebody reads it. `odd`: outside of it."""


class FieldNote(msgspec.Struct, frozen=True, kw_only=True):
    """How one field stands to what people approved."""

    name: str
    """The argument, and within it the way to the field."""
    standing: Standing
    text: str
    """In words: the usual range or set, how often, since when not."""

    @property
    def argument(self) -> str:
        return self.name.partition(".")[0]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A call beside what people decided about calls like it."""

    approved: int
    """Approvals of calls like it, among those that are remembered."""
    runs: int
    rejected: int
    """Rejections of calls that do not differ from what was approved: the arguments alone do not tell yes from no."""
    notes: Sequence[FieldNote]
    is_whole: bool = True

    @property
    def odd(self) -> list[FieldNote]:
        return [note for note in self.notes if note.standing == "odd"]

    @property
    def is_unusual(self) -> bool:
        return self.approved >= MIN_TO_COMPARE and bool(self.odd)

    @property
    def is_usual(self) -> bool:
        """At least 20 approvals of like calls in two runs, no rejection among them, nothing outside of them."""
        return (
            self.approved >= MIN_USUAL
            and self.runs >= MIN_RUNS
            and not self.rejected
            and self.is_whole
            and all(note.standing == "same" for note in self.notes)
        )

    @property
    def line(self) -> str:
        """In one line what it is compared with."""
        if not self.approved:
            return "Nobody has approved a call like this before."
        many = f"{self.approved} like it approved in {self.runs} {'run' if self.runs == 1 else 'runs'}"
        if self.rejected:
            return f"{many}, {self.rejected} rejected."
        return f"{many}, none rejected."


NOTHING = Comparison(approved=0, runs=0, rejected=0, notes=())


def compare(arguments: JsonObject | str, samples: Sequence[Sample], now: float) -> Comparison:
    """How a call stands to what people decided about calls of this tool by this agent."""
    if isinstance(arguments, str):
        return NOTHING
    fields, is_whole = fields_of(arguments)
    return Baseline(shape_of(fields), samples, now).compare(fields, now, is_whole=is_whole)


class Baseline:
    """What people decided about calls of one shape, read once: each call that is compared with it costs as much as it
    has fields, however many samples there are."""

    def __init__(self, shape: tuple[str, ...], samples: Sequence[Sample], now: float) -> None:
        like = [sample for sample in samples if sample.shape == shape]
        approved = [sample for sample in like if sample.approved]
        self._fields = _seen_fields(approved)
        self._approved = len(approved)
        self._runs = len({sample.run for sample in approved})
        self._is_whole = all(sample.is_whole for sample in approved)
        no = [sample for sample in like if not sample.approved]
        self._rejected = sum(not (approved and self._has_odd(sample.fields, now)) for sample in no)
        self.calls = frozenset((sample.run, sample.call) for sample in like)
        """Whose samples these are: a call is not compared with itself."""

    def compare(self, fields: Mapping[str, Value], now: float, *, is_whole: bool) -> Comparison:
        return Comparison(
            approved=self._approved,
            runs=self._runs,
            rejected=self._rejected,
            notes=self._notes(fields, now) if self._approved else (),
            is_whole=is_whole and self._is_whole,
        )

    def _notes(self, fields: Mapping[str, Value], now: float) -> list[FieldNote]:
        names = [*fields, *(name for name in self._fields if name not in fields)]
        return [self._note(name, fields.get(name), now) for name in names]

    def _has_odd(self, fields: Mapping[str, Value], now: float) -> bool:
        return any(note.standing == "odd" for note in self._notes(fields, now))

    def _note(self, name: str, value: Value | None, now: float) -> FieldNote:
        standing, text = self._stands(name, value, now)
        return FieldNote(name=name.replace("\x1f", "."), standing=standing, text=text)

    def _stands(self, name: str, value: Value | None, now: float) -> tuple[Standing, str]:
        seen = self._fields.get(name)
        if seen is None:
            return "odd", "never given before"
        if value is None:
            return "odd", f"left out here, given {_times(seen.total)} before"
        alike = seen.kinds.get(value.kind)
        if alike is None:
            return "odd", f"first time {_KIND[value.kind]}; always {_KIND[next(iter(seen.kinds))]} before"
        if alike.numbers is not None:
            return _number(value, alike.numbers)
        return _one_of_many(value, alike, seen.total, now)


class _Numbers(msgspec.Struct, frozen=True):
    low: float
    high: float
    middle: float


class _Alike(msgspec.Struct, frozen=True):
    """The values of one kind that a field had."""

    kind: Kind
    numbers: _Numbers | None
    """Of amounts: what is compared in place of the values."""
    count: int
    counted: Counter[tuple[Plain, str]]
    last: dict[tuple[Plain, str], float]
    """When each value was approved the last time."""
    newest: float
    forms: frozenset[str]

    @property
    def is_naming(self) -> bool:
        return len(self.counted) >= MOSTLY * self.count and self.count >= MIN_TO_COMPARE


class _Seen(msgspec.Struct, frozen=True):
    """All that a field was."""

    total: int
    kinds: dict[Kind, _Alike]


def _seen_fields(approved: Sequence[Sample]) -> dict[str, _Seen]:
    found: dict[str, dict[Kind, list[tuple[float, Value]]]] = {}
    for sample in approved:
        for name, value in sample.fields.items():
            found.setdefault(name, {}).setdefault(value.kind, []).append((sample.at, value))
    return {
        name: _Seen(sum(map(len, kinds.values())), {kind: _alike(name, kind, seen) for kind, seen in kinds.items()})
        for name, kinds in found.items()
    }


def _alike(name: str, kind: Kind, seen: Sequence[tuple[float, Value]]) -> _Alike:
    numbers = None
    if kind == "number" and not names_things(name):
        given = [_as_number(value) for _, value in seen]
        numbers = _Numbers(min(given), max(given), median(given))
    last: dict[tuple[Plain, str], float] = {}
    for at, value in seen:
        key = (value.plain, value.digest)
        last[key] = max(at, last.get(key, at))
    counted = Counter((value.plain, value.digest) for _, value in seen)
    forms = frozenset(_form(str(value.plain)) for _, value in seen if kind in ("text", "number"))
    return _Alike(kind, numbers, len(seen), counted, last, max(at for at, _ in seen), forms)


_KIND: dict[Kind, str] = {
    "number": "a number",
    "text": "a text",
    "flag": "yes or no",
    "nothing": "nothing",
    "long text": "a long text",
    "list": "a list",
    "object": "an object",
}
_NAMING = re.compile(r"(^|[_\x1f-])(ids?|no|nr|number|key|ref|uuid|token)$|Id$", re.ASCII)


def names_things(name: str) -> bool:
    """Whether a number is no amount: an order's number has no usual range."""
    return _NAMING.search(name) is not None


def _number(value: Value, seen: _Numbers) -> tuple[Standing, str]:
    given, low, high, middle = _as_number(value), seen.low, seen.high, seen.middle
    usual = f"{_shown(low)}" if low == high else f"{_shown(low)} to {_shown(high)}"
    if middle > 0 and given / middle >= FAR:
        return "odd", f"{_shown(given / middle)} times the median; {usual} before"
    if low <= given <= high:
        return "same", f"always {usual}" if low == high else f"usually {usual}, median {_shown(middle)}"
    where = "above" if given > high else "below"
    if middle > 0 and given / middle >= TIMES:
        return "odd", f"{_shown(given / middle)} times the median; {usual} before"
    return "odd", f"{where} all before: {usual}"


def _as_number(value: Value) -> float | int:
    assert isinstance(value.plain, int | float), "a number"
    return value.plain


def _shown(number: float) -> str:
    if number == int(number) and abs(number) < 10**15:
        return str(int(number))
    return f"{number:.3g}"


def _one_of_many(value: Value, alike: _Alike, total: int, now: float) -> tuple[Standing, str]:
    """A value that is one of a set, or one that names something else each time, or one that somebody has to read."""
    key = (value.plain, value.digest)
    same = alike.counted[key]
    is_naming = alike.is_naming
    if same:
        last = alike.last[key]
        if now - last > LONG_AGO and alike.newest > last and not is_naming:
            return "odd", f"not seen for {int((now - last) / 86400)} days; {same} of {total} times before"
        return "same", "always this" if same == total else f"{same} of {total} times before"
    if value.kind == "long text" or (value.kind in ("list", "object") and is_naming):
        return "read", f"not one of the {alike.count} before"
    if value.kind in ("text", "number") and is_naming:
        if _form(str(value.plain)) in alike.forms:
            return "same", "another one each time, of the form seen before"
        return "odd", "of another form than all before"
    return "odd", f"first time; {_few(alike.counted)} before"


def _few(counted: Counter[tuple[Plain, str]]) -> str:
    shown = [f"{plain}" for (plain, _), _ in counted.most_common(3) if plain is not None]
    more = len(counted) - len(shown)
    if not shown:
        return f"{len(counted)} others"
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


_ADDRESS = re.compile(r"[^\s@]+@([^\s@]+)")
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s]*)")


def _form(text: str) -> str:
    """What is the same in names of one sort: where a mail goes, which host, which folder; then letters and digits."""
    if (address := _ADDRESS.fullmatch(text)) is not None:
        return f"…@{address[1].lower()}"
    if (url := _URL.match(text)) is not None:
        return f"{url[1].lower()}/…"
    folder, slash, rest = text.rpartition("/")
    if slash:
        return f"{folder}/{_letters(rest)}"
    return _letters(text)


def _letters(text: str) -> str:
    def sort(match: re.Match[str]) -> str:
        word = match[0]
        return "9" if word.isdigit() else "a" if word.isalpha() else "x"

    return re.sub(r"\w+", sort, text.replace("_", " _ "))
