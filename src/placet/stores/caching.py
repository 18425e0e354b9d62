"""When a store caches the fold of a log, and whose cache it can use.

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


def recent_log(run_id: str, key: bytes, head: bytes, texts: Sequence[bytes], cached: CachedFold) -> Log:
    """The end of a log, behind a cached fold."""
    return Log(
        run_id,
        key,
        head,
        texts,
        start=cached.position,
        base=cached.data,
        size_before=cached.size,
        cached_at=cached.position,
    )


def without_cache(stored: StoredRun | None) -> StoredRun | None:
    """A run whose cached fold, if it has one, is of no use: the next append makes it anew."""
    if stored is not None and stored.log is not None:
        stored.log.cached_at = 0
    return stored


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
