"""The fold of a run as bytes, and back: a cache, so that whoever needs only the end of a long log reads only that.

It can always be made again from the log. It is only made between turns: the open turn, its questions, decisions and
claims always come out of the log itself.
"""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

from placet.core.approvals import Asking, Entry, Ledger
from placet.core.state import Call, Request, RunFold
from placet.core.transitions import Status
from placet.facts.codec import Json, JsonObject, encode
from placet.facts.events import CancelAsked, DecisionMade, Delivery, GrantMade, GuardrailRecord, Outcome, Usage


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
    label: str
    server: str | None
    questions: dict[str, JsonObject] | None
    asked_state: str | None
    answers: dict[str, JsonObject] | None
    values: JsonObject | None = None


class _Ledger(msgspec.Struct, array_like=True):
    entries: list[Entry]
    asked: list[Asking]
    """Those of calls whose tool functions asked for input."""
    grants: list[GrantMade]
    uses: dict[str, int]
    past: list[DecisionMade]
    revoked: list[str] = []


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
    session_place: str | None = None
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
    newest_item: str | None = None
    sent_after: str | None = None
    may_be_at_work: bool = False
    own_from: int = 0


@functools.cache  # not at import: it takes a millisecond, and only durable stores cache folds
def _decoder() -> msgspec.json.Decoder[_Fold]:
    return msgspec.json.Decoder(_Fold)


def is_between_turns(run: RunFold) -> bool:
    """Whether the fold can be cached: it has begun, has not ended, and no call of it is open."""
    return run.started and not run.has_ended and not run.open_calls and not run.path


def dump(run: RunFold) -> bytes:
    assert is_between_turns(run), "what is open comes out of the log"
    entries, grants, uses, past, revoked = run.ledger.contents()
    return encode(
        _Fold(
            ledger=_Ledger(
                [each for each in entries if not isinstance(each, Asking)],
                [each for each in entries if isinstance(each, Asking)],
                list(grants),
                uses,
                past,
                revoked,
            ),
            calls=[_dumped(call) for call in run.calls.values()],
            seen_labels=sorted(run.seen_labels),
            input_ids=sorted(run.input_ids),
            starting_agent=run.starting_agent,
            agent=run.agent,
            response_agent=run.response_agent,
            max_turns=run.max_turns,
            turn=run.turn,
            usage=run.usage,
            cancel_asked=run.cancel_asked,
            context=run.context,
            started_by=run.started_by,
            stopped=run.stopped,
            origins=run.origins,
            history=run.history,
            input_length=run.input_length,
            has_new_input=run.has_new_input,
            judged_turn=run.judged_turn,
            input_judged=run.input_judged,
            tripped=run.tripped,
            session=run.session,
            session_place=run.session_place,
            session_written=run.session_written,
            session_backlog=run.session_backlog,
            session_total=run.session_total,
            session_writing=run.session_writing,
            responses=run.responses,
            last_output=run.last_output,
            delivery=run.delivery,
            server_id=run.server_id,
            last_response_id=run.last_response_id,
            request=run.request,
            outbox=run.outbox,
            in_flight=run.in_flight,
            newest_item=run.newest_item,
            sent_after=run.sent_after,
            may_be_at_work=run.may_be_at_work,
            own_from=run.own_from,
        )
    )


def restore(data: bytes) -> RunFold:
    """The fold whose bytes these are; UnusableFold when they are none."""
    try:
        shot = _decoder().decode(data)
        calls = {each.id: _restored(each) for each in shot.calls}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnusableFold(str(error)) from error
    return RunFold(
        ledger=_ledger(shot.ledger),
        started=True,
        calls=calls,
        seen_labels=set(shot.seen_labels),
        input_ids=frozenset(shot.input_ids),
        starting_agent=shot.starting_agent,
        agent=shot.agent,
        response_agent=shot.response_agent,
        max_turns=shot.max_turns,
        turn=shot.turn,
        usage=shot.usage,
        cancel_asked=shot.cancel_asked,
        context=shot.context,
        started_by=shot.started_by,
        stopped=shot.stopped,
        origins=shot.origins,
        history=shot.history,
        input_length=shot.input_length,
        has_new_input=shot.has_new_input,
        judged_turn=shot.judged_turn,
        input_judged=shot.input_judged,
        tripped=shot.tripped,
        session=shot.session,
        session_place=shot.session_place,
        session_written=shot.session_written,
        session_backlog=shot.session_backlog,
        session_total=shot.session_total,
        session_writing=shot.session_writing,
        responses=shot.responses,
        last_output=shot.last_output,
        delivery=shot.delivery,
        server_id=shot.server_id,
        last_response_id=shot.last_response_id,
        request=shot.request,
        outbox=shot.outbox,
        in_flight=shot.in_flight,
        newest_item=shot.newest_item,
        sent_after=shot.sent_after,
        may_be_at_work=shot.may_be_at_work,
        own_from=shot.own_from,
    )


def _ledger(shot: _Ledger) -> Ledger:
    return Ledger.of([*shot.entries, *shot.asked], shot.grants, shot.uses, shot.past, shot.revoked)


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
        call.label,
        call.server,
        call.questions,
        call.asked_state,
        call.answers,
        call.values,
    )


def _restored(shot: _Call) -> Call:
    call = Call(shot.id, shot.item, shot.sent_label)
    call.status = Status(shot.status)
    call.request, call.digest, call.why = shot.request, shot.digest, shot.why
    call.decision, call.edited, call.was_revoked = shot.decision, shot.edited, shot.was_revoked
    call.attempts, call.started_in = shot.attempts, shot.started_in
    call.outcome, call.output = shot.outcome, shot.output
    call.expires_at, call.at_expiry = shot.expires_at, shot.at_expiry
    call.label, call.server = shot.label, shot.server
    call.questions, call.asked_state, call.answers = shot.questions, shot.asked_state, shot.answers
    call.values = shot.values
    return call
