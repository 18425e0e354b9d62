"""What the Agent Approval Protocol takes and gives. Its objects have no null: what is not there is left out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from placet.desk.api.shapes import Given
from placet.facts.codec import JsonObject

Duration: TypeAlias = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}[smh]$")]
AapStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "cancelled"]
Told: TypeAlias = Annotated[str, Meta(min_length=1, max_length=10_000, pattern=r"^[^\u0000]*$")]
SECONDS_OF = {"s": 1, "m": 60, "h": 3600}


class AapSubmission(Given, frozen=True, kw_only=True):
    """One proposed call."""

    tool: Annotated[str, Meta(min_length=1, max_length=128)]
    arguments: JsonObject
    timeout: Duration
    """How long there is for a decision."""
    server: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """The MCP server that the tool is of."""
    agent_reasoning: Annotated[str, Meta(pattern=r"^[^\u0000]*$")] | None = None
    context: JsonObject | None = None


class AapWait(Given, frozen=True, kw_only=True):
    wait: Duration | None = None
    """Up to 30 seconds of it are waited."""


class AapReport(Given, frozen=True, kw_only=True):
    status: Literal["succeeded", "failed"]
    note: Told | None = None


class _Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of what is given."""


class AapDecision(_Said, frozen=True, kw_only=True, omit_defaults=True):
    status: Literal["approved", "denied", "expired", "cancelled"]
    decided_at: str
    note: str | None = None
    expires_at: str | None = None
    """Of an approval: from then on the call must not begin."""


class AapOutcome(_Said, frozen=True, kw_only=True, omit_defaults=True):
    status: Literal["succeeded", "failed"]
    reported_at: str
    note: str | None = None


class AapConsumption(_Said, frozen=True, kw_only=True, omit_defaults=True):
    consumed_at: str
    outcome: AapOutcome | None = None


class AapRequest(_Said, frozen=True, kw_only=True, omit_defaults=True):
    """A request as it was submitted, and what became of it."""

    id: str
    tool: str
    arguments: JsonObject
    timeout: str
    status: AapStatus
    created_at: str
    deadline_at: str
    server: str | None = None
    agent_reasoning: str | None = None
    context: JsonObject | None = None
    decision: AapDecision | None = None
    consumption: AapConsumption | None = None


class AapErrorBody(_Said, frozen=True, kw_only=True, omit_defaults=True):
    type: str
    code: str
    message: str
    request_id: str
    """Of this exchange, as in the header X-Request-ID."""


class AapError(_Said, frozen=True, kw_only=True, omit_defaults=True):
    """What the protocol says in the place of a problem."""

    error: AapErrorBody


def seconds_of(duration: str) -> float:
    return float(duration[:-1]) * SECONDS_OF[duration[-1]]


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
