"""The fold of a run as bytes, and back: a cache, so that code that needs only the end of a long log reads only that.

It can always be made again from the log. It is only made between turns: the open turn, its questions, decisions and
claims always come out of the log itself. The bytes have no format that must be kept: the code that stores them notes
which code wrote them, and other code folds the log instead.
"""

from __future__ import annotations

import functools

import msgspec
from msgspec.structs import replace

from placet.core.approvals import Ledger, LedgerContents
from placet.core.state import RunFold
from placet.facts.codec import encodable


class UnusableFold(ValueError):
    """The bytes are not a fold that this code can go on from: fold the log instead."""


def is_between_turns(run: RunFold) -> bool:
    """Whether the fold can be cached: it has begun, has not ended, and no call of it is open. A guest's session has no
    turns, and is short."""
    return run.started and not run.has_ended and not run.open_calls and not run.path and run.guest is None


def dump(run: RunFold) -> bytes:
    assert is_between_turns(run), "what is open comes out of the log"
    return _encoder().encode(replace(run, children={}))  # with their calls, nested runs are over


def restore(data: bytes) -> RunFold:
    """The fold whose bytes these are; UnusableFold when they are none."""
    try:
        run = _decoder().decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnusableFold(str(error)) from error
    if not is_between_turns(run):
        raise UnusableFold("it is not the fold of a run between two turns")
    return run


def _written(value: object) -> object:
    return value.contents() if isinstance(value, Ledger) else encodable(value)


def _read(kind: type, value: object) -> object:
    return Ledger.of(msgspec.convert(value, LedgerContents)) if kind is Ledger else value


# Both are not made at import: it takes a millisecond, and only durable stores cache folds.
@functools.cache
def _encoder() -> msgspec.json.Encoder:
    return msgspec.json.Encoder(enc_hook=_written)


@functools.cache
def _decoder() -> msgspec.json.Decoder[RunFold]:
    return msgspec.json.Decoder(RunFold, dec_hook=_read)
