"""The fold of a run as bytes, and back: a cache, so that whoever needs only the end of a long log reads only that.

It can always be made anew from the log. It is only made between turns: the open turn, its questions, decisions and
claims always come out of the log itself.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

import msgspec

from placet.codec import Json, JsonObject, encode
from placet.core.approvals import Entry, Ledger
from placet.core.state import Call, Request, RunFold
from placet.core.table import Status
from placet.events import CancelAsked, DecisionMade, Delivery, GrantMade, GuardrailRecord, Outcome, Usage


class UnusableFold(ValueError):
    """The bytes are not a fold that this code can go on from: fold the log instead."""


class _Call(msgspec.Struct, array_like=True):
    id: str
    item: JsonObject
    sent_label: str
    status: str
    request: int
    digest: str
    why: str | None
    decision: DecisionMade | None
    edited: JsonObject | None
    was_revoked: bool
    attempts: int
    started_in: str | None
    outcome: Outcome | None
    output: Json
    expires_at: float | None
    at_expiry: Literal["reject", "escalate"] | None


class _Ledger(msgspec.Struct, array_like=True):
    entries: list[Entry]
    grants: list[GrantMade]
    uses: dict[str, int]
    past: list[DecisionMade]


class _Fold(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The fields of RunFold that are not the same between any two turns."""

    ledger: _Ledger
    calls: list[_Call]
    starting_agent: str
    agent: str
    response_agent: str
    max_turns: int | None
    turn: int
    usage: Usage
    cancel_asked: CancelAsked | None = None
    context: JsonObject | None = None
    started_by: str | None = None
    stopped: tuple[str, str] | None = None
    origins: tuple[str, ...] = ()
    history: list[JsonObject]
    input_length: int
    seen_labels: list[str]
    has_new_input: bool
    input_ids: list[str] = []
    judged_turn: int = 0
    input_judged: bool = False
    tripped: GuardrailRecord | None = None
    session: str | None = None
    session_written: int = 0
    session_backlog: list[JsonObject] = []
    session_total: int = 0
    session_writing: int | None = None
    responses: int
    last_output: list[JsonObject]
    delivery: Delivery
    server_id: str | None = None
    last_response_id: str | None = None
    request: Request
    outbox: list[JsonObject]
    in_flight: int


_decoder = msgspec.json.Decoder(_Fold)
_MADE_OF_OTHERS = frozenset({"ledger", "calls", "seen_labels", "input_ids"})
_AS_IT_IS = tuple(
    field.name
    for field in fields(RunFold)
    if field.name in _Fold.__struct_fields__ and field.name not in _MADE_OF_OTHERS
)


def is_between_turns(run: RunFold) -> bool:
    """Whether the fold can be cached: it has begun, has not ended, and no call of it is open."""
    return run.started and not run.has_ended and not run.open_calls and not run.path


def dump(run: RunFold) -> bytes:
    assert is_between_turns(run), "what is open comes out of the log"
    entries, grants, uses, past = run.ledger.contents()
    shot = _Fold(
        ledger=_Ledger(entries, list(grants), uses, past),
        calls=[_dumped(call) for call in run.calls.values()],
        seen_labels=sorted(run.seen_labels),
        input_ids=sorted(run.input_ids),
        **{name: getattr(run, name) for name in _AS_IT_IS},
    )
    return encode(shot)


def restore(data: bytes) -> RunFold:
    """The fold whose bytes these are; UnusableFold when they are none."""
    try:
        shot = _decoder.decode(data)
        ledger = Ledger.of(shot.ledger.entries, shot.ledger.grants, shot.ledger.uses, shot.ledger.past)
        run = RunFold(ledger=ledger, started=True)
        for name in _AS_IT_IS:
            setattr(run, name, getattr(shot, name))
        run.calls = {each.id: _restored(each) for each in shot.calls}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnusableFold(str(error)) from error
    run.seen_labels, run.input_ids = set(shot.seen_labels), frozenset(shot.input_ids)
    return run


def _dumped(call: Call) -> _Call:
    return _Call(
        call.id,
        call.item,
        call.sent_label,
        call.status.value,
        call.request,
        call.digest,
        call.why,
        call.decision,
        call.edited,
        call.was_revoked,
        call.attempts,
        call.started_in,
        call.outcome,
        call.output,
        call.expires_at,
        call.at_expiry,
    )


def _restored(shot: _Call) -> Call:
    call = Call(shot.id, shot.item, shot.sent_label)
    call.status = Status(shot.status)
    call.request, call.digest, call.why = shot.request, shot.digest, shot.why
    call.decision, call.edited, call.was_revoked = shot.decision, shot.edited, shot.was_revoked
    call.attempts, call.started_in = shot.attempts, shot.started_in
    call.outcome, call.output = shot.outcome, shot.output
    call.expires_at, call.at_expiry = shot.expires_at, shot.at_expiry
    return call
