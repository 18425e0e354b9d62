"""A run's log as bytes: append-only lines, and the chain that ties each line to all lines before it.

Each fact that carries somebody's data enters the chain as a salted digest of its own. To erase it, its text and its
salt are replaced by the digest, and the chain still verifies; without the salt nobody can guess what stood there. The
salts come from one key per run, so they cost no space until something is erased.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from placet.codec import encode
from placet.errors import StateRefused
from placet.events import (
    AnyFact,
    CallsAllowed,
    CallsDeferred,
    CallsStarted,
    Fact,
    InChild,
    Record,
    RequestSent,
    TurnLimitSet,
)

_record_decoder = msgspec.json.Decoder(Record)
_WITHOUT_PAYLOAD = (RequestSent, CallsAllowed, CallsDeferred, CallsStarted, TurnLimitSet)


class Log:
    """The lines of one run, from the first to the last that this holder knows."""

    __slots__ = ("head", "key", "lines", "run_id")

    def __init__(self, run_id: str, key: bytes, head: bytes = b"", lines: Sequence[bytes] = ()) -> None:
        self.run_id = run_id
        self.key = key
        self.head = head
        self.lines = list(lines)

    def __len__(self) -> int:
        return len(self.lines)

    def copy(self) -> Log:
        return Log(self.run_id, self.key, self.head, self.lines)

    def next_line(self, at: float, facts: Sequence[AnyFact]) -> tuple[bytes, bytes]:
        """The line that would hold these facts after the last one, and the head that the chain would have then."""
        texts = [encode(fact) for fact in facts]
        line = b"[" + encode(at) + b",[" + b",".join(texts) + b"]]"
        return line, self._head_after(len(self.lines), at, facts, texts)

    def append(self, line: bytes, head: bytes) -> None:
        self.lines.append(line)
        self.head = head

    def adopt(self, line: bytes) -> None:
        """Append a line of another log: it gets a place in this one's chain."""
        record = read_line(line)
        self.append(line, self._head_after(len(self), record.at, record.facts, [encode(fact) for fact in record.facts]))

    def starts_with(self, other: Log) -> bool:
        return len(other) <= len(self) and self.lines[: len(other)] == other.lines

    def _head_after(self, position: int, at: float, facts: Sequence[Fact], texts: Sequence[bytes]) -> bytes:
        chain = hashlib.blake2b(self.head, digest_size=32)
        chain.update(encode(at))
        for index, (fact, text) in enumerate(zip(facts, texts, strict=True)):
            bare = fact.fact if isinstance(fact, InChild) else fact
            chain.update(b"|" + (text if isinstance(bare, _WITHOUT_PAYLOAD) else self._leaf(position, index, text)))
        return chain.digest()

    def _leaf(self, position: int, index: int, text: bytes) -> bytes:
        salt = hashlib.blake2b(b"%d.%d" % (position, index), key=self.key, digest_size=16).digest()
        return hashlib.blake2b(text, key=salt, digest_size=32).digest()

    def verify(self) -> bool:
        """Whether the head is the one that the lines give: finds changed, reordered, added and missing lines."""
        walker = Log(self.run_id, self.key)
        for line in self.lines:
            walker.adopt(line)
        return walker.head == self.head


def read_line(line: bytes | msgspec.Raw) -> Record:
    try:
        return _record_decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StateRefused(
            f"A line of the log cannot be read ({error}). It was altered, cut, or written by a newer version of Placet."
        ) from error
