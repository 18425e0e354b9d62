"""The fold of a run as bytes, and back: a cache, so that code that needs only the end of a long log reads only that.

It can always be made again from the log. It is only made between turns: the open turn, its questions, decisions and
claims always come out of the log itself. The bytes have no format that must be kept: the code that stores them notes
which code wrote them, and other code folds the log instead.
"""

from __future__ import annotations

import functools

import msgspec
from msgspec.structs import asdict, fields, replace

from placet.core.approvals import Ledger, LedgerContents
from placet.core.state import RunFold
from placet.facts.codec import encode


class UnusableFold(ValueError):
    """The bytes are not a fold that this code can go on from: fold the log instead."""


def is_between_turns(run: RunFold) -> bool:
    """Whether the fold can be cached: it has begun, has not ended, and no call of it is open. A guest's session has no
    turns, and is short."""
    return run.started and not run.has_ended and not run.open_calls and not run.path and run.guest is None


def dump(run: RunFold) -> bytes:
    assert is_between_turns(run), "what is open comes out of the log"
    shot = asdict(replace(run, children={}))  # with their calls, nested runs are over
    shot["ledger"] = run.ledger.contents()
    return encode(shot)


def restore(data: bytes) -> RunFold:
    """The fold whose bytes these are; UnusableFold when they are none."""
    try:
        shot = asdict(_decoder().decode(data))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnusableFold(str(error)) from error
    shot["ledger"] = Ledger.of(shot["ledger"])
    run = RunFold(**shot)
    if not is_between_turns(run):
        raise UnusableFold("it is not the fold of a run between two turns")
    return run


@functools.cache  # not at import: it takes a millisecond, and only durable stores cache folds
def _decoder() -> msgspec.json.Decoder[msgspec.Struct]:
    """Of the fold's own fields, with the ledger as plain values: msgspec alone reads them, and calls nothing of ours
    for each value of the history."""
    named = {each.name: each.type for each in fields(RunFold)} | {"ledger": LedgerContents}
    return msgspec.json.Decoder(msgspec.defstruct("_Cached", list(named.items())))
