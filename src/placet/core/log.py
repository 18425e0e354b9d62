"""A run's log as bytes: append-only lines, and the chain that ties each line to all lines before it.

Each fact that carries personal data enters the chain as a salted digest of its own. To erase it, its text and its
salt are replaced by the digest, and the chain still verifies; without the salt what was there cannot be guessed. The
salts come from one key per run, so they cost no space until something is erased.

The chain begins with the run's id, so a log under another run's name does not verify. Chains that were begun by older
code begin with nothing; they go on as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from placet.facts.codec import encode
from placet.facts.errors import StateRefused
from placet.facts.events import (
    AnyFact,
    CallsAllowed,
    CallsDeferred,
    CallsStarted,
    Erased,
    Fact,
    InChild,
    Record,
    RequestSent,
    TurnLimitSet,
)

_WITHOUT_PAYLOAD: frozenset[type] = frozenset({RequestSent, CallsAllowed, CallsDeferred, CallsStarted, TurnLimitSet})


class Line(msgspec.Struct, frozen=True, gc=False):
    """One append: its text as it is stored, the chain's head after it, and what it says."""

    text: bytes
    head: bytes
    at: float
    facts: Sequence[AnyFact]


class Log:
    """The lines of one run, from the first (or, of a holder that needs only the end, from `start`) to the last that
    this holder knows."""

    __slots__ = ("base", "cached_at", "head", "is_bound", "key", "lines", "run_id", "size_before", "start")

    def __init__(
        self,
        run_id: str,
        key: bytes,
        head: bytes = b"",
        lines: Sequence[bytes] = (),
        *,
        start: int = 0,
        base: bytes | None = None,
        size_before: int = 0,
        cached_at: int = 0,
        is_bound: bool = True,
    ) -> None:
        self.run_id = run_id
        self.key = key
        self.head = head
        self.lines = list(lines)
        self.start = start
        """How many lines stand before those that are held here."""
        self.base = base
        """The fold of those lines, as `core.snapshot` writes it."""
        self.size_before = size_before
        """How many bytes they have."""
        self.cached_at = cached_at
        """After how many lines the store last cached the fold."""
        self.is_bound = is_bound
        """Whether a chain that begins here begins with the run's id: False only to follow a chain of older code."""

    def __len__(self) -> int:
        return self.start + len(self.lines)

    @property
    def size(self) -> int:
        """How many bytes the lines have, all of them."""
        return self.size_before + sum(map(len, self.lines))

    def copy(self) -> Log:
        return self._with(self.head, self.lines)

    def cut_like(self, other: Log) -> Log:
        """This whole log, as a holder of the other's end holds it."""
        assert not self.start, "only a whole log can be cut"
        return other._with(self.head, self.lines[other.start :])

    def _with(self, head: bytes, lines: Sequence[bytes]) -> Log:
        return Log(
            self.run_id,
            self.key,
            head,
            lines,
            start=self.start,
            base=self.base,
            size_before=self.size_before,
            cached_at=self.cached_at,
            is_bound=self.is_bound,
        )

    def next_line(self, at: float, facts: Sequence[AnyFact]) -> Line:
        """The line that would hold these facts after the last one."""
        texts, time = list(map(encode, facts)), encode(at)
        text = b"".join((b"[", time, b",[", b",".join(texts), b"]]"))
        return Line(text, self._head_after(time, facts, texts), at, facts)

    def append(self, line: Line) -> None:
        self.lines.append(line.text)
        self.head = line.head

    def adopt(self, text: bytes) -> Line:
        """Append a line of another log: it gets a place in this one's chain. Digests are of the text as it stands."""
        record, parts = read_line(text), _parts_of(text)
        line = Line(text, self._head_after(parts.at, record.facts, parts.facts), record.at, record.facts)
        self.append(line)
        return line

    def starts_with(self, other: Log) -> bool:
        """Whether this log begins with the other one: the same facts, however their JSON is written."""
        if self.start != other.start or len(other.lines) > len(self.lines):
            return False
        mine = self.lines[: len(other.lines)]
        return mine == other.lines or read_lines(mine) == read_lines(other.lines)

    def verify(self) -> bool:
        """Whether the head is the one that the lines give: finds changed, reordered, added and missing lines, and
        lines of another run.

        Only of a whole log.
        """
        return self.heads() is not None

    def heads(self) -> list[bytes] | None:
        """The chain's head after each line; None where the last is not ours."""
        for is_bound in (True, False):
            walker = Log(self.run_id, self.key, is_bound=is_bound)
            found = [walker.adopt(text).head for text in self.lines]
            if walker.head == self.head:
                return found
        return None

    @property
    def is_erased(self) -> bool:
        """Whether what the facts said is gone. Then nothing can be made of the log but its chain."""
        return not self.start and bool(self.lines) and was_erased(read_line(self.lines[0]))

    def erased(self) -> Log:
        """The same log without what its facts said: each gives way to its salted digest, and the key of the salts
        goes too. The chain is the same, head and all."""
        lines = [self._line_erased(position, text) for position, text in enumerate(self.lines)]
        return Log(self.run_id, b"", self.head, lines)

    def _line_erased(self, position: int, text: bytes) -> bytes:
        record, parts = read_line(text), _parts_of(text)
        kept = [
            fact if _is_open(said) else encode(Erased(self._leaf(position, index, fact).hex(), _tag_of(said)))
            for index, (said, fact) in enumerate(zip(record.facts, parts.facts, strict=True))
        ]
        return b"[" + parts.at + b",[" + b",".join(kept) + b"]]"

    def _head_after(self, at: bytes, facts: Sequence[AnyFact], texts: Sequence[bytes]) -> bytes:
        position = self.start + len(self.lines)
        before = self.head if position or not self.is_bound else _beginning(self.run_id)
        parts = [before + at, *texts]
        for place, fact in enumerate(facts, 1):
            kind = type(fact)
            if kind in _WITHOUT_PAYLOAD:
                continue
            if kind is Erased:
                parts[place] = _digest_of(fact)  # type: ignore[arg-type]  # narrowed by kind
            elif kind is not InChild or _kind_of(fact) not in _WITHOUT_PAYLOAD:
                parts[place] = self._leaf(position, place - 1, parts[place])
        return blake2b(b"|".join(parts), digest_size=32).digest()

    def _leaf(self, position: int, index: int, text: bytes) -> bytes:
        salt = blake2b(b"%d.%d" % (position, index), key=self.key, digest_size=16).digest()
        return blake2b(text, key=salt, digest_size=32).digest()


def _beginning(run_id: str) -> bytes:
    """What stands in a chain before its first line, as long as the heads that follow."""
    return blake2b(b"placet log 2 " + run_id.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def was_erased(first: Record) -> bool:
    """Whether a log that begins so was erased."""
    return any(isinstance(fact, Erased) for fact in first.facts)


def _is_open(fact: AnyFact) -> bool:
    """Whether a fact is in the chain as it stands, since it carries no personal data (or does not any more)."""
    return _kind_of(fact) in _WITHOUT_PAYLOAD or type(fact) is Erased


def _kind_of(fact: AnyFact) -> type[Fact]:
    return type(fact.fact) if type(fact) is InChild else type(fact)


def _tag_of(fact: AnyFact) -> str:
    return str(_kind_of(fact).__struct_config__.tag)


def _digest_of(fact: Erased) -> bytes:
    """The digest of an erased fact. Any other length could pass for something else in the chain."""
    try:
        digest = bytes.fromhex(fact.digest)
    except ValueError as error:
        raise StateRefused(f"The digest of an erased fact cannot be read ({error}): it was altered.") from error
    if len(digest) != 32:
        raise StateRefused("The digest of an erased fact is not one: it was altered.")
    return digest


class _Parts(msgspec.Struct, frozen=True, array_like=True):
    """A line's parts as they are written."""

    at: msgspec.Raw
    facts: list[msgspec.Raw]


_parts_decoder = msgspec.json.Decoder(_Parts)


class _PartTexts(msgspec.Struct, frozen=True):
    at: bytes
    facts: list[bytes]


def _parts_of(text: bytes) -> _PartTexts:
    parts = _parts_decoder.decode(text)
    return _PartTexts(bytes(parts.at), [bytes(fact) for fact in parts.facts])


@functools.cache  # not at import: a decoder of all kinds of facts takes milliseconds, and many programs read no log
def _record_decoder() -> msgspec.json.Decoder[Record]:
    return msgspec.json.Decoder(Record)


@functools.cache
def _records_decoder() -> msgspec.json.Decoder[list[Record]]:
    return msgspec.json.Decoder(list[Record])


def read_line(line: bytes | msgspec.Raw) -> Record:
    try:
        return _record_decoder().decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StateRefused(
            f"A line of the log cannot be read ({error}). It was altered, cut, or written by a newer version of Placet."
        ) from error


def read_lines(lines: Sequence[bytes]) -> list[Record]:
    """Many lines at once: one call of the decoder is cheaper than one for each."""
    try:
        return _records_decoder().decode(b"[" + b",".join(lines) + b"]")
    except (msgspec.DecodeError, RecursionError):
        return [read_line(line) for line in lines]  # says which, and why
