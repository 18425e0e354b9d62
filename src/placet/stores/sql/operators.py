"""The operators' log, and what is done only together with its entry there: holds, standing grants, records."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence

import msgspec

from placet.core.log import Line, Log
from placet.facts.errors import StoreError
from placet.facts.events import AnyFact, GrantMade, GrantRevoked, HoldPlaced, Pattern, StandingGrantMade
from placet.facts.voting_settings import NO_SETTINGS, VotingSettings
from placet.ports import OPERATORS, Hold, RecordStep, StoredRecord
from placet.stores.sql.rows import checked, lines_in, text_of
from placet.stores.sql.statements import Row, Statement, Steps

SETTING = "setting"
"""The kind of the records that say how all desks on a store are set."""
FOUR_EYES = "four-eyes"
VOTING = "voting"


def read_patterns(record: StoredRecord | None) -> list[Pattern]:
    """Where four eyes are demanded, out of the record that says so."""
    return [] if record is None else msgspec.json.decode(record.data, type=list[Pattern])


def read_voting(record: StoredRecord | None) -> VotingSettings:
    """How voting is set, out of the record that says so."""
    if record is None:
        return NO_SETTINGS
    try:
        return msgspec.json.decode(record.data, type=VotingSettings)
    except msgspec.MsgspecError as error:  # who has to approve is not guessed
        raise StoreError(f"How voting is set cannot be read ({error}): it was altered.") from error


def whole_log(rows: Sequence[Row]) -> Log:
    """The log out of the rows of `operators_log`; StoreError if it is not what was written."""
    length, head, key = rows[0][:3]
    return Log(OPERATORS, key, head, checked(OPERATORS, length, lines_in(rows)))


def placed(hold: Hold) -> HoldPlaced:
    return HoldPlaced(hold.kind, hold.name, hold.by, hold.at, hold.reason)


# -- writing to the log -----------------------------------------------------------------------------------------------


def locked_log() -> Steps[Log]:
    """The log at its end. Its row is locked, before any other of the transaction: so no two of them wait for each
    other. Its key is made with its first line."""
    ((length, head, key),) = yield Statement("operators_place")
    return Log(OPERATORS, key or os.urandom(16), head, start=length)


def write_line(log: Log, line: Line) -> Steps[None]:
    given = {"position": len(log), "text": line.text, "checksum": zlib.crc32(line.text)}
    yield Statement("operators_line", given)
    yield Statement("operators_advance", {"length": len(log) + 1, "head": line.head, "key": log.key})


def last_line() -> Steps[bytes | None]:
    rows = yield Statement("operators_last")
    return bytes(rows[0][0]) if rows else None


def audited(again: bool, at: float, fact: AnyFact, act: Statement, *then: Statement) -> Steps[bool]:
    """Do something and write it down, both or neither. `act` gives no row where there was nothing to do: then nothing
    is written, and what would have followed it is not done."""
    log = yield from locked_log()
    line = log.next_line(at, [fact])
    if again and (yield from last_line()) == line.text:  # the answer to the first try was lost
        return True
    if not (yield act):
        return False
    for statement in then:  # noqa: UP028  # rows are sent in, and a tuple takes none
        yield statement
    yield from write_line(log, line)
    return True


def keep_grant(grant: GrantMade) -> Statement:
    name = "keep_grant" if grant.terms is None else "keep_bounded_grant"
    return Statement(name, {"id": grant.id, "agent": grant.agent, "data": text_of(grant)})


def end_grant(grant_id: str) -> Steps[bool]:
    """Whether it stood. A run's grant is in neither table: that it is taken back is in the run's log alone."""
    given = {"id": grant_id}
    return bool((yield Statement("revoke_grant", given)) or (yield Statement("revoke_bounded_grant", given)))


def revoke_grant(again: bool, fact: GrantRevoked) -> Steps[bool]:
    """A standing grant ends, and the operators' log says so, both or neither."""
    log = yield from locked_log()
    line = log.next_line(fact.at, [fact])
    if again and (yield from last_line()) == line.text:  # the answer to the first try was lost
        return True
    if not (yield from end_grant(fact.id)):
        return False
    yield from write_line(log, line)
    return True


def write_grants(run_id: str, at: float, facts: Sequence[GrantMade | GrantRevoked]) -> Steps[None]:
    """What an append to a run's log says about standing grants. What the store knew before is no news: a fork repeats
    the grants of its origin."""
    log = yield from locked_log()
    news: list[AnyFact] = []
    for fact in facts:
        if isinstance(fact, GrantMade):
            if (yield keep_grant(fact)):
                news.append(StandingGrantMade(run_id, fact))
        elif (yield from end_grant(fact.id)):
            news.append(fact)
    if news:
        yield from write_line(log, log.next_line(at, news))


# -- records ----------------------------------------------------------------------------------------------------------


def change_records(
    again: bool,
    steps: Sequence[RecordStep],
    facts: Sequence[AnyFact],
    at: float,
    without: Sequence[tuple[str, str]],
) -> Steps[bool]:
    """The operators' log is locked first, so that no other such change comes between looking and writing."""
    log = yield from locked_log()
    line = log.next_line(at, facts)
    if again and (yield from last_line()) == line.text:  # the answer to the first try was lost
        return True
    for step in steps:
        found = read_records((yield Statement("record", {"kind": step.kind, "id": step.id})))
        if (found[0].data if found else None) != step.was:
            return False
    for kind, owner in without:
        yield Statement("remove_records", {"kind": kind, "owner": owner})
    for step in steps:
        if step.now is None:
            yield Statement("take_record", {"kind": step.kind, "id": step.id})
        else:
            name = "add_record" if step.was is None else "replace_record"
            yield Statement(name, msgspec.structs.asdict(step.now) | {"was": None})
    yield from write_line(log, line)
    return True


def read_records(rows: Sequence[Row]) -> list[StoredRecord]:
    return [
        StoredRecord(kind=kind, id=record_id, owner=owner, data=data, expires_at=expires_at)
        for kind, record_id, owner, data, expires_at in rows
    ]
