"""The operators' log, as every store on SQL writes it: in the transaction of what it tells of."""

from __future__ import annotations

import os
import zlib
from collections.abc import Container, Sequence

import msgspec

from placet.core.log import Line, Log
from placet.facts.events import AnyFact, GrantMade, GrantRevoked, HoldPlaced, Pattern, StandingGrantMade
from placet.ports import OPERATORS, Hold, Record
from placet.stores.rows import checked

SETTING = "setting"
"""The kind of the records that say how all desks on a store are set."""
FOUR_EYES = "four-eyes"


def read_patterns(record: Record | None) -> list[Pattern]:
    """Where four eyes are demanded, out of the record that says so."""
    return [] if record is None else msgspec.json.decode(record.data, type=list[Pattern])


def log_at(length: int, head: bytes, key: bytes) -> Log:
    """The log at its end. Its key is made with its first line."""
    return Log(OPERATORS, key or os.urandom(16), head, start=length)


def whole_log(rows: Sequence[tuple[int, bytes, bytes, bytes | None, int | None, int | None]]) -> Log:
    """The log out of the rows of `operators_log`; StoreError if it is not what was written."""
    length, head, key = rows[0][:3]
    lines = [(text, checksum or 0, position or 0) for *_, text, checksum, position in rows if text is not None]
    return Log(OPERATORS, key, head, checked(OPERATORS, length, lines))


def checksum_of(line: Line) -> int:
    return zlib.crc32(line.text)


def placed(hold: Hold) -> HoldPlaced:
    return HoldPlaced(hold.kind, hold.name, hold.by, hold.at, hold.reason)


def news_about_grants(
    run_id: str, facts: Sequence[GrantMade | GrantRevoked], known: Container[str], standing: Container[str]
) -> list[AnyFact]:
    """What an append to a run's log says about standing grants that the store did not know before. A fork repeats
    the grants of its origin: those are no news."""
    made = {fact.id for fact in facts if isinstance(fact, GrantMade) and fact.id not in known}
    found: list[AnyFact] = []
    for fact in facts:
        if isinstance(fact, GrantMade):
            if fact.id in made:
                found.append(StandingGrantMade(run_id, fact))
        elif fact.id in standing or fact.id in made:
            found.append(fact)
    return found
