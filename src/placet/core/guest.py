"""Guests: calls that another program executes. What they propose, what they are told, and which call is which.

A guest's session is a run whose calls a guest claims and reports. Everything here is pure: the same facts, table and
gate serve calls of models and calls of guests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Literal, TypeAlias

import msgspec

from placet.core.gate import digest_of
from placet.core.json_schema import problem_with_schema, problems, with_defaults, without_prose
from placet.core.policy import CHANGE_SOURCE
from placet.core.state import Call, RunFold
from placet.core.transitions import RUNNABLE, Status
from placet.facts.codec import Json, JsonObject, NotPlain, canonical, encode, plain, same_value, size_of
from placet.facts.errors import InvalidProposal, LimitExceeded
from placet.facts.events import GuestAdmitted, ProposedCall
from placet.facts.ids import call_id, request_id

GateStatus: TypeAlias = Literal[
    "waiting",  # for a person
    "claimable",  # it may run: claim it
    "held",  # it may run, and an operator holds it back
    "claimed",  # somebody executes it
    "left",  # whoever executed it is gone, and its guest may find out what happened to it
    "in_doubt",  # it is unknown whether it happened: a person is asked
    "given_up",  # nobody knew, and a person decided to let it be
    "finished",
    "failed",
    "released",
    "rejected",
    "answered",
    "denied",
    "expired",
    "superseded",
    "cancelled",
]
OVER: frozenset[GateStatus] = frozenset(
    {
        "given_up",
        "finished",
        "failed",
        "released",
        "rejected",
        "answered",
        "denied",
        "expired",
        "superseded",
        "cancelled",
    }
)
"""Nothing more happens to such a call."""

MAX_ARGUMENTS = 256 * 1024
MAX_TEXT = 16 * 1024
MAX_ID = 200
ANY_OBJECT: JsonObject = {"type": "object"}
"""The schema of a tool whose guest declares none."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_TOOL = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]{0,126}[^\x00-\x20\x7f])?")


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """Who proposes and executes calls, through what, and what it can carry out."""

    name: str
    source: str = "python"
    reports: bool = True
    edits: bool = True
    answers: bool = True

    @property
    def agent(self) -> str:
        """The agent path of its calls."""
        return f"{self.source}/{self.name}"


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a guest wants to execute."""

    tool: str
    arguments: JsonObject
    session: str
    call_id: str
    occurrence: int = 0
    schema: JsonObject | None = None
    description: str | None = None
    context: str | None = None
    needs_approval: bool = True
    """False: the guest says, explicitly, that no person needs to be asked."""
    version: str | None = None
    decide_within: float | None = None
    at_deadline: Literal["reject", "escalate"] = "reject"
    approval_valid_for: float | None = None
    recovery: Literal["ask", "retry", "function"] = "ask"


class GateCall(msgspec.Struct, frozen=True, kw_only=True):
    """A guest's call as it stands."""

    id: str
    status: GateStatus
    tool: str
    arguments: JsonObject
    """As they would run, or ran: validated, and perhaps edited by a reviewer."""
    session: str
    call_id: str
    occurrence: int
    digest: str
    is_edited: bool = False
    request_id: str | None = None
    """The last question that people were asked about it."""
    expires_at: float | None = None
    message: str | None = None
    """Why it does not run, for whoever wanted it to."""
    output: Json = None
    """What happened to it: reported, or a reviewer's answer."""
    decided_by: str | None = None
    attempts: int = 0
    """How often it was claimed."""

    @property
    def is_over(self) -> bool:
        return self.status in OVER


class Permit(msgspec.Struct, kw_only=True):
    """The right to execute one call, once, now."""

    call: GateCall
    token: str
    """Shows that the report comes from whoever claimed it. Keep it to yourself."""
    arguments: JsonObject
    """As decided: run with these, and no others."""
    lease_until: float
    """Without a report by then, it is unknown whether the call happened, and a person is asked."""
    idempotency_key: str
    """The same for every attempt of this call: give it to the service that is called."""
    receipt: str | None = None
    """A signed token that the call was approved: give it to the service that performs the effect. None: no receipts are
    issued, or nobody approved it."""
    is_again: bool = False
    """The call was claimed before under another permit, which is void now: it may have happened."""
    output: Json = msgspec.field(default=None)
    """What a `with` block wants to have reported."""
    lease: float | None = None
    """The seconds that were asked for with the claim: what it is renewed by. None: what the desk or store gives."""


# -- what is proposed --------------------------------------------------------------------------------------------------


def check_guest(guest: Guest, reserved: Collection[str] = (CHANGE_SOURCE,)) -> None:
    if guest.source in reserved:
        raise InvalidProposal(f"The source '{guest.source}' is Placet's own: a guest comes through another one.")
    for name, value in (("guest", guest.name), ("source", guest.source)):
        if not _NAME.fullmatch(value):
            raise InvalidProposal(
                f"The {name} {value[:80]!r} is no name: up to 64 letters, digits and . _ @ + -, beginning with a "
                "letter or a digit."
            )


def checked(guest: Guest, proposal: Proposal) -> tuple[ProposedCall, JsonObject | None]:
    """The call as it is written down, and what validation made of its arguments, where that is something else.
    InvalidProposal or LimitExceeded where it cannot be written down."""
    _check_enumerations(proposal)
    schema = _checked_schema(proposal)
    arguments, values = _checked_arguments(proposal, schema)
    fingerprint = _fingerprint(schema, proposal.version)
    tool = identity_of(proposal.tool)
    item: JsonObject = {
        "type": "function_call",
        "name": proposal.tool,
        "arguments": encode(arguments).decode(),
        "call_id": proposal.call_id,
    }
    proposed = ProposedCall(
        item=item,
        occurrence=proposal.occurrence,
        digest=digest_of("", guest.agent, tool, fingerprint, values),
        tool=tool,
        fingerprint=fingerprint,
        schema=schema,
        description=proposal.description or "",
        version=proposal.version,
        approval_valid_for=proposal.approval_valid_for,
        recovery=proposal.recovery,
        context=proposal.context,
    )
    return proposed, None if values is arguments or same_value(arguments, values) else values


def identity_of(tool: str) -> str:
    """By what approvals and grants know a guest's tool."""
    return f"gate:{tool.replace('%', '%25').replace(':', '%3A')}"


def _check_enumerations(proposal: Proposal) -> None:
    """The parts of a proposal that are no JSON: names, texts and times."""
    if not _TOOL.fullmatch(proposal.tool):
        raise InvalidProposal(f"The tool {proposal.tool[:80]!r} is no name: 1 to 128 printable characters.")
    _check_id("session", proposal.session)
    _check_id("call_id", proposal.call_id)
    if not 0 <= proposal.occurrence < 2**31:
        raise InvalidProposal("The occurrence counts calls of one call_id: a whole number from 0 on.")
    _check_text("description", proposal.description)
    _check_text("context", proposal.context)
    if proposal.version is not None and len(proposal.version) > MAX_ID:
        raise LimitExceeded(f"The version of a tool has at most {MAX_ID} characters.")
    _check_seconds("decide_within", proposal.decide_within)
    _check_seconds("approval_valid_for", proposal.approval_valid_for)


def _check_id(name: str, text: str) -> None:
    if not text or len(text) > MAX_ID or not text.isprintable():
        raise InvalidProposal(f"The {name} is a text of 1 to {MAX_ID} printable characters, not {text[:80]!r}.")


def _check_text(name: str, said: str | None) -> None:
    if said is not None and size_of(said) > MAX_TEXT:
        raise LimitExceeded(f"The {name} of a call has at most {MAX_TEXT} bytes.")


def _check_seconds(name: str, seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < 10**9:
        raise InvalidProposal(f"{name} is a number of seconds above 0, not {seconds!r}.")


def _checked_schema(proposal: Proposal) -> JsonObject:
    if proposal.schema is None:
        return ANY_OBJECT
    try:
        schema = plain(proposal.schema, "schema")
    except NotPlain as error:
        raise InvalidProposal(f"The schema of tool '{proposal.tool}' is not plain JSON: {error}.") from error
    assert isinstance(schema, dict)
    problem = problem_with_schema(schema)
    if problem is not None:
        raise InvalidProposal(f"Arguments cannot be checked against the schema of tool '{proposal.tool}': {problem}.")
    return schema


def _checked_arguments(proposal: Proposal, schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    """As proposed, and validated once, here: the values are what is shown, judged, digested and run."""
    try:
        arguments = plain(proposal.arguments, "arguments")
    except NotPlain as error:
        raise InvalidProposal(f"The arguments of tool '{proposal.tool}' are not plain JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise InvalidProposal(f"The arguments of tool '{proposal.tool}' are not a JSON object.")
    values = with_defaults(schema, arguments)
    if len(canonical(values)) > MAX_ARGUMENTS:
        raise LimitExceeded(f"The arguments of a guest's call have at most {MAX_ARGUMENTS} bytes.")
    wrong = problems(schema, values)
    if wrong:
        raise InvalidProposal(f"The arguments do not fit tool '{proposal.tool}':\n" + "\n".join(wrong))
    return arguments, values


def check_edit(call: Call, arguments: JsonObject) -> JsonObject:
    """A reviewer's arguments for a guest's call, completed by its schema; InvalidProposal where they do not fit."""
    assert call.proposed is not None, "a call of a guest"
    values = with_defaults(call.proposed.schema, arguments)
    wrong = problems(call.proposed.schema, values)
    if wrong:
        raise InvalidProposal("\n".join(wrong))
    return values


def _fingerprint(schema: JsonObject, version: str | None) -> str:
    return hashlib.blake2b(canonical([without_prose(schema), version]), digest_size=12).hexdigest()


# -- which call is which -----------------------------------------------------------------------------------------------


def session_id(guest: Guest, session: str) -> str:
    """By what a store finds the session of a guest: nobody else's, whatever they call theirs."""
    return _hashed("session", guest.name, guest.source, session)


def identity(guest: str, source: str, session: str, label: str, occurrence: int) -> str:
    """By what a store finds a call of a session that went on elsewhere. What was called is not in it."""
    return _hashed("call", guest, source, session, label, str(occurrence))


def _hashed(*parts: str) -> str:
    return hashlib.sha256(canonical(list(parts))).hexdigest()


def find_call(run: RunFold, label: str, occurrence: int, digest: str) -> Call | None:
    """The call of this identity, if the session has it: the same call id, occurrence, tool and arguments."""
    for call in run.calls.values():
        proposed = call.proposed
        if proposed is not None and (call.label, proposed.occurrence, proposed.digest) == (label, occurrence, digest):
            return call
    return None


# -- what a guest is told ----------------------------------------------------------------------------------------------

_STATUS: dict[Status, GateStatus] = {
    Status.PROPOSED: "waiting",
    Status.HELD: "waiting",
    Status.ALLOWED: "claimable",
    Status.APPROVED: "claimable",
    Status.CLEARED: "claimable",
    Status.STARTED: "claimed",
    Status.IN_DOUBT: "in_doubt",
    Status.REJECTED: "rejected",
    Status.ANSWERED: "answered",
    Status.GIVEN_UP: "given_up",
}
_REFUSALS: frozenset[GateStatus] = frozenset({"rejected", "denied", "expired", "superseded", "cancelled", "given_up"})
"""How a call ends that was not executed: what stands in the output's place is said to the guest as a message."""


def view(run_id: str, run: RunFold, call: Call, *, is_held: bool = False, is_left: bool = False) -> GateCall:
    """The call as its guest sees it. `is_held`: an operator holds it back. `is_left`: nobody executes it any more."""
    assert run.guest is not None, "a guest's session"
    assert call.proposed is not None, "a call of a guest"
    decision = call.decision
    status = _status_now(call, is_held=is_held, is_left=is_left)
    was_refused = status in _REFUSALS
    return GateCall(
        id=call_id(run_id, call.id),
        status=status,
        tool=call.name,
        arguments=call.effective or {},
        session=run.guest.session,
        call_id=call.label,
        occurrence=call.proposed.occurrence,
        digest=decision.digest if decision is not None else call.digest or call.proposed.digest,
        is_edited=call.edited is not None,
        request_id=request_id(run_id, call.id, call.request) if call.request else None,
        expires_at=call.expires_at if status == "waiting" else None,
        message=call.output if was_refused and isinstance(call.output, str) else call.why,
        output=None if was_refused else call.output,
        decided_by=decision.by if decision is not None else None,
        attempts=call.attempts,
    )


def _status_now(call: Call, *, is_held: bool, is_left: bool) -> GateStatus:
    """What operators and leases make of the call's own status."""
    assert call.proposed is not None, "a call of a guest"
    status = status_of(call)
    if is_held and status == "claimable":
        return "held"
    if is_left and status == "claimed":
        return "claimable" if call.proposed.recovery == "retry" else "left"
    return status


def status_of(call: Call) -> GateStatus:
    if call.status is Status.ENDED:
        was_given_up = call.outcome == "failed" and call.decision is not None and call.decision.verdict == "reject"
        return "given_up" if was_given_up else call.outcome or "cancelled"
    return _STATUS[call.status]


def is_idle(run: RunFold) -> bool:
    """Whether nothing in the session waits for anybody but its guest."""
    return all(call.status is Status.ENDED or call.status in RUNNABLE for call in run.calls.values())


def wakes_at(run: RunFold, last: float) -> float | None:
    """When something is due in a guest's session whose last line was written then: a deadline, or its end."""
    times = [due for call in run.calls.values() if _waits(call) and (due := call.due_at) is not None]
    if run.guest is not None and run.guest.idle_seconds is not None and is_idle(run):
        times.append(last + run.guest.idle_seconds)
    return min(times, default=None)


def _waits(call: Call) -> bool:
    return call.status in (Status.HELD, Status.ELICITED)


def admitted(guest: Guest, session: str, idle_seconds: float | None, before: str | None) -> GuestAdmitted:
    return GuestAdmitted(
        guest.name, guest.source, session, guest.reports, guest.edits, guest.answers, idle_seconds, before
    )
