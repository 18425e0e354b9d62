"""Deleting from an SQLite file: in one transaction with its record in the operators' log."""

from __future__ import annotations

import sqlite3
import time

from placet.facts.events import DeletedRun, RunsDeleted
from placet.stores.erasing import deleted
from placet.stores.ownership import driven_by
from placet.stores.sqlite_files import SQL
from placet.stores.sqlite_writes import note_operators


def delete(db: sqlite3.Connection, run_id: str, wanted: RunsDeleted) -> bool:
    row = db.execute(SQL["run_to_delete"], (run_id,)).fetchone()
    if row is None:
        return False
    number, length, head, owner, lease_until = row
    if owner is not None and lease_until > time.time():
        raise driven_by(run_id, owner)
    _forget_run(db, number)
    if not length:
        return False  # somebody wanted to begin it, and never did
    note_operators(db, wanted.at, [deleted(wanted, [DeletedRun(run_id, length, head.hex())])])
    return True


def purge(db: sqlite3.Connection, limit: int, wanted: RunsDeleted) -> int:
    found = db.execute(SQL["ended_before"], (wanted.ended_before, time.time(), limit)).fetchall()
    for number, *_ in found:
        _forget_run(db, number)
    db.execute(SQL["delete_unbegun"], (time.time(),))
    if found:
        gone = [DeletedRun(run_id, length, head.hex()) for _, run_id, length, head in found]
        note_operators(db, wanted.at, [deleted(wanted, gone)])
    return len(found)


def _forget_run(db: sqlite3.Connection, number: int) -> None:
    for name in ("delete_lines", "delete_requests", "drop_fold", "delete_run"):
        db.execute(SQL[name], (number,))
