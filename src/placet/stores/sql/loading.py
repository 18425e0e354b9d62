"""Loading logs, whole or behind a cached fold; when a fold is cached, and whose can be used.

A fold holds the whole history, so it is written when the log has grown by half since the last time: all in all about
three times the log's size, however often a run pauses. Code that folds otherwise has another version, and does not
use it.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

import msgspec

from placet.core.log import Line, Log
from placet.core.snapshot import dump, is_between_turns
from placet.core.state import RunFold
from placet.ports import StoredRun
from placet.stores.sql.rows import checked, lines_in
from placet.stores.sql.statements import Row, Statement, Steps

SHORT = 64
"""Logs with fewer lines are folded at once: a cache would not pay."""


class CachedFold(msgspec.Struct, frozen=True, kw_only=True):
    """The fold of a log's first lines, as it is stored."""

    position: int
    """Of how many lines."""
    size: int
    """How many bytes they have."""
    version: str
    checksum: int
    data: bytes

    @property
    def is_sound(self) -> bool:
        return zlib.crc32(self.data) == self.checksum


def fold_to_cache(log: Log, lines: Sequence[Line], run: RunFold) -> CachedFold | None:
    """The fold with these lines, if it is to be written with them."""
    length = len(log) + len(lines)
    if length - log.cached_at < max(SHORT, log.cached_at // 2) or not is_between_turns(run):
        return None
    data = dump(run)
    size = log.size + sum(len(line.text) for line in lines)
    return CachedFold(position=length, size=size, version=fold_version(), checksum=zlib.crc32(data), data=data)


def load(run_id: str) -> Steps[StoredRun | None]:
    """The whole log of a run."""
    rows = yield Statement("load", {"id": run_id, "start": 0})
    if not rows:
        return None
    length, head, key = rows[0][:3]
    texts = checked(run_id, length, lines_in(rows))
    cached_at = 0  # a short log has none
    if length >= SHORT:
        found = yield Statement("cached_at", {"id": run_id, "version": fold_version()})
        cached_at = found[0][0] if found else 0
    return StoredRun(length, head, Log(run_id, key, head, texts, cached_at=cached_at))


def load_recent(run_id: str) -> Steps[StoredRun | None]:
    """The end of a log behind its cached fold, or, where there is none that can be used, the whole log."""
    rows = yield Statement("load_recent", {"id": run_id, "version": fold_version()})
    if not rows:
        return None
    length, head, key, *_, takeovers = rows[0][:7]
    cached = _read_fold(rows[0][7:])
    if cached is None:
        texts = checked(run_id, length, _lines(rows))
        return StoredRun(length, head, Log(run_id, key, head, texts), takeovers=takeovers)
    if not cached.is_sound or length < cached.position:
        return (yield from _load_past_the_cache(run_id, takeovers))
    texts = checked(run_id, length, _lines(rows), cached.position)
    log = Log(
        run_id,
        key,
        head,
        texts,
        start=cached.position,
        base=cached.data,
        size_before=cached.size,
        cached_at=cached.position,
    )
    return StoredRun(length, head, log, takeovers=takeovers)


def _load_past_the_cache(run_id: str, takeovers: int) -> Steps[StoredRun | None]:
    """The whole log, where what is cached is damaged: the next append makes it anew."""
    stored = yield from load(run_id)
    if stored is None or stored.log is None:
        return stored
    stored.log.cached_at = 0
    return msgspec.structs.replace(stored, takeovers=takeovers)


def _lines(rows: Sequence[Row]) -> list[Row]:
    """Text, checksum and position of the lines in the rows of `load_recent`."""
    return [row[3:6] for row in rows if row[3] is not None]


def _read_fold(columns: Row) -> CachedFold | None:
    if columns[0] is None:
        return None
    position, size, version, checksum, data = columns
    return CachedFold(position=position, size=size, version=version, checksum=checksum, data=data or b"")


def cache_fold(run_id: str, fold: CachedFold) -> Statement:
    return Statement("cache_fold", msgspec.structs.asdict(fold) | {"id": run_id})


@cache
def fold_version() -> str:
    """A digest of the code that folds: any change of it makes the caches of before unusable."""
    package = resources.files("placet")
    digest = hashlib.blake2b(digest_size=16)
    for folder in ("facts", "core"):
        files = (each for each in (package / folder).iterdir() if each.name.endswith(".py"))
        for file in sorted(files, key=lambda each: each.name):
            digest.update(file.read_bytes())
    return digest.hexdigest()
