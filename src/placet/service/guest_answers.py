"""What guests are told: why a call does not run, the permit of one that does, and what is kept of their reports."""

from __future__ import annotations

from placet.core.guest import GateCall, Permit
from placet.facts.codec import Json
from placet.facts.errors import CallAnswered, CallClaimed, CallNotClaimable, CallRejected, GateError, ToolOutputError
from placet.facts.ids import call_key, split_call_id
from placet.runtime.output import as_tool_output

UNSETTLED = frozenset({"waiting", "held", "claimed", "in_doubt"})
"""Statuses in which a guest can only wait."""


def why_not_run(call: GateCall) -> GateError:
    """Why a call as it stands cannot be claimed, as the error that its guest reads."""
    match call.status:
        case "waiting" | "held":
            return CallNotClaimable(f"Call {call.id} waits for a decision.", call)
        case "in_doubt":
            return CallNotClaimable(
                f"It is unknown whether call {call.id} happened: it waits until a person decides what to do.",
                call,
            )
        case "claimed" | "left":
            return CallClaimed(f"Call {call.id} was claimed before: it can be looked at, not begun again.", call)
        case "finished" | "failed" | "released":
            return CallClaimed(f"Call {call.id} has ended ({call.status}): it can be looked at, not begun again.", call)
        case "answered":
            return CallAnswered(f"A person answered in the place of call {call.id}.", call, call.output)
        case _:
            return CallRejected(call.message or f"Call {call.id} was {call.status}.", call)


def permit_of(shown: GateCall, token: str, until: float, *, is_again: bool = False) -> Permit:
    return Permit(
        call=shown,
        token=token,
        arguments=shown.arguments,
        lease_until=until,
        idempotency_key=call_key(*split_call_id(shown.id)),
        is_again=is_again,
    )


def kept_output(tool: str, output: Json, limit: int) -> Json:
    """What the log holds of a report. The effect has happened: what cannot be kept is no reason to refuse it."""
    try:
        return as_tool_output(tool, "" if output is None else output, limit)
    except ToolOutputError as error:
        return str(error)
