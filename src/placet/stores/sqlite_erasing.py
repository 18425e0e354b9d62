"""Erasing in an SQLite file: the old bytes are overwritten, in the file and in what SQLite keeps beside it."""

from __future__ import annotations

import sqlite3
import zlib

from placet.core.log import Log
from placet.facts.events import RunErased
from placet.stores.erasing import check_status_to_erase, closing_erased, request_erased, with_place
from placet.stores.rows import checked
from placet.stores.sqlite_files import SQL, SQLiteFile
from placet.stores.sqlite_writes import note_operators


def erase(db: sqlite3.Connection, wanted: RunErased) -> bool:
    """Inside a transaction. False: it was erased before."""
    row = db.execute(SQL["place"], (wanted.run,)).fetchone()
    check_status_to_erase(wanted.run, row[-1] if row is not None else None)
    number, length, *_ = row  # a driver that is about to let go of a run that has ended writes nothing any more
    head, key = db.execute(SQL["secrets_of_run"], (number,)).fetchone()
    lines = db.execute(SQL["lines_of"], (number,)).fetchall()
    log = Log(wanted.run, key, head, checked(wanted.run, length, lines))
    if log.is_erased:
        return False
    db.execute("PRAGMA secure_delete = ON")  # what is overwritten is overwritten with zeros
    for position, text in enumerate(log.erased().lines):
        db.execute(SQL["erase_line"], (text, zlib.crc32(text), number, position))
    for ordinal, data, closing in db.execute(SQL["requests_to_erase"], (number,)).fetchall():
        db.execute(SQL["erase_request"], (request_erased(data), closing_erased(closing), ordinal))
    db.execute(SQL["drop_fold"], (number,))
    db.execute(SQL["erase_run"], (wanted.at, number))
    note_operators(db, wanted.at, [with_place(wanted, length, head)])
    return True


def empty_the_wal(file: SQLiteFile) -> None:
    """Have what is in the write-ahead log moved into the file and cut off. While others read an older state of the
    file, SQLite leaves it for later."""
    db = file.connect()
    try:
        db.execute("PRAGMA busy_timeout = 2000")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.close()
