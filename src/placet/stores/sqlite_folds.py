"""Cached folds in an SQLite file: read before the log, and written with it."""

from __future__ import annotations

import sqlite3
from typing import Any

from placet.ports import StoredRun
from placet.stores.caching import CachedFold, fold_version, recent_log
from placet.stores.rows import checked
from placet.stores.sqlite_files import SQL


def load(db: sqlite3.Connection, run_id: str) -> tuple[list[tuple[Any, ...]], int]:  # Any: what the columns hold
    """The rows of a whole log, and after how many lines its fold was cached."""
    found = db.execute(SQL["cached_at"], (run_id, fold_version())).fetchone()
    return db.execute(SQL["load"], (run_id,)).fetchall(), found[0] if found is not None else 0


def load_recent(db: sqlite3.Connection, run_id: str) -> StoredRun | None:
    """The end of a log behind its cached fold; None where there is none that can be used."""
    row = db.execute(SQL["cached_fold"], (run_id, fold_version())).fetchone()
    if row is None:
        return None
    position, size, version, checksum, data = row
    cached = CachedFold(position=position, size=size, version=version, checksum=checksum, data=data)
    rows = db.execute(SQL["load_from"], (position, run_id)).fetchall() if cached.is_sound else []
    if not rows or rows[0][0] < position:
        return None
    length, head, key = rows[0][:3]
    lines = [row[3:] for row in rows if row[3] is not None]
    texts = checked(run_id, length, lines, position)
    return StoredRun(length, head, recent_log(run_id, key, head, texts, cached))


def cache(db: sqlite3.Connection, run: int, fold: CachedFold) -> None:
    given = (run, fold.position, fold.size, fold.version, fold.checksum, fold.data)
    db.execute(SQL["cache_fold"], given)
