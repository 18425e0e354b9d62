"""What the gate's part of the API takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from placet.core.guest import GateStatus
from placet.desk.api.shapes import Given, Note, Shown
from placet.facts.codec import Json, JsonObject

Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=1_000_000_000)]
Label: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
GuestName: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$")]
Token: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]


class NewCall(Given, frozen=True, kw_only=True):
    """A call that a guest wants to execute."""

    tool: Annotated[str, Meta(min_length=1, max_length=128)]
    arguments: JsonObject
    session: Label
    """The conversation that the call belongs to, as you call it."""
    call_id: Label
    """Unique in the session."""
    occurrence: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    """Counted on where your host repeats its call ids."""
    source: GuestName = "http"
    """Through what you come: a framework, an assistant."""
    guest: GuestName | None = None
    """Who you are, at a desk that asks nobody. Elsewhere your token says so."""
    schema: JsonObject | None = None
    """The JSON schema of the tool's arguments: they are checked against it, and reviewers get a form."""
    description: Note | None = None
    context: Note | None = None
    """What led to the call, for the reviewer."""
    needs_approval: bool = True
    version: Label | None = None
    decide_within: Seconds | None = None
    at_deadline: Literal["reject", "escalate"] = "reject"
    approval_valid_for: Seconds | None = None
    recovery: Literal["ask", "retry", "function"] = "ask"
    reports: bool = True
    """Whether you can tell what happened to it. If not, a claimed call ends at once as released."""
    edits: bool = True
    answers: bool = True


class WaitFor(Given, frozen=True, kw_only=True):
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds."""


class WaitForMany(Given, frozen=True, kw_only=True):
    calls: Annotated[list[Label], Meta(min_length=1, max_length=1000)]
    """The ids of calls of yours."""
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds."""


class GateCallShape(Shown, frozen=True, kw_only=True):
    """A guest's call as it stands."""

    id: str
    status: GateStatus
    tool: str
    arguments: JsonObject
    """As they would run, or ran."""
    session: str
    call_id: str
    occurrence: int
    digest: str
    is_edited: bool
    request_id: str | None
    expires_at: datetime | None
    message: str | None
    """Why it does not run."""
    output: Json
    """What happened to it, or a reviewer's answer."""
    decided_by: str | None
    attempts: int


class GateCallsShape(Shown, frozen=True, kw_only=True):
    calls: list[GateCallShape]


class ClaimShape(Given, frozen=True, kw_only=True):
    lease: Seconds | None = None
    """Seconds until a report is due."""
    again: bool = False
    """Of a call that you have claimed: the permit once more. The one before does not count any more."""
    key: Annotated[str, Meta(min_length=32, max_length=200, pattern=r"^[A-Za-z0-9_-]+$")] | None = None


class PermitShape(Shown, frozen=True, kw_only=True):
    """The right to execute one call, once, now."""

    call: GateCallShape
    token: str
    arguments: JsonObject
    lease_until: datetime
    idempotency_key: str
    receipt: str | None
    is_again: bool


class RenewShape(Given, frozen=True, kw_only=True):
    token: Token
    lease: Seconds | None = None


class RenewedShape(Shown, frozen=True, kw_only=True):
    lease_until: datetime


class OutcomeShape(Given, frozen=True, kw_only=True):
    token: Token
    outcome: Literal["finished", "failed", "unknown"]
    """`unknown`: nobody can tell, and a person is asked."""
    output: Json = None


class ClosedSession(Given, frozen=True, kw_only=True):
    session: Label
    source: GuestName = "http"
    guest: GuestName | None = None
