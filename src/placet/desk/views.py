"""Runs, questions and events, as a desk shows them to programs."""

from __future__ import annotations

import msgspec

from placet.core.index import RequestKind, RequestRow, RequestStatus, RunStatus
from placet.facts.codec import Json, JsonObject, parse_arguments
from placet.facts.errors import ServerHistoryNotFound
from placet.facts.events import AnyFact
from placet.ports import RunRow


class DeskRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person, as a desk shows it."""

    id: str
    run_id: str
    agent: str
    tool: str
    arguments: JsonObject | str
    """The exact arguments, as they would run; the text itself where they are not one JSON object."""
    digest: str
    kind: RequestKind
    status: RequestStatus
    created_at: float
    expires_at: float | None = None
    why: str | None = None
    decided_by: str | None = None
    decided_at: float | None = None
    reason: str | None = None
    questions: dict[str, JsonObject] | None = None
    """Of an elicitation: what the running call wants to know, by key. `respond` answers."""
    escalated_at: float | None = None
    """When nobody had answered in time, and the question went to others."""
    grant: str | None = None
    """The standing decision that decided, where nobody looked at this very call: `decided_by` made that one."""
    proposed_arguments: JsonObject | str | None = None
    """What the model wrote, where validation filled in or changed something; else None."""


class DeskRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as a desk shows it."""

    id: str
    agent: str
    status: RunStatus
    final_output: Json = None
    created_at: float = 0.0
    updated_at: float = 0.0
    turn: int = 0
    started_by: str | None = None
    stopped: str | None = None
    is_parked: bool = False
    erased_at: float | None = None
    """When what it said was erased."""
    held: str | None = None
    """Which hold keeps it from going on, and whose: told by `get` and `wait`, not by lists."""

    @property
    def lost_its_server(self) -> bool:
        """What the model's server kept of it is gone: `resume(own_history=True)` has it go on without."""
        return self.stopped is not None and self.stopped.startswith(f"{ServerHistoryNotFound.code}:")


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in some run, in the order of the store."""

    sequence: int
    run_id: str
    at: float
    path: str
    fact: AnyFact


def shown(row: RunRow, held: str | None = None) -> DeskRun:
    return DeskRun(
        id=row.id,
        agent=row.agent,
        status=row.status,
        final_output=row.final_output,
        created_at=row.created_at,
        updated_at=row.updated_at,
        turn=row.turn,
        started_by=row.started_by,
        stopped=row.stopped,
        is_parked=row.is_parked,
        erased_at=row.erased_at,
        held=held,
    )


def asked(row: RequestRow) -> DeskRequest:
    return DeskRequest(
        id=row.id,
        run_id=row.run_id,
        agent=row.agent,
        tool=row.tool,
        arguments=_parsed(row.arguments),
        digest=row.digest,
        kind=row.kind,
        status=row.status,
        created_at=row.created_at,
        expires_at=row.expires_at,
        why=row.why,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        reason=row.reason,
        questions=row.questions,
        escalated_at=row.escalated_at,
        grant=row.grant,
        proposed_arguments=None if row.proposed is None else _parsed(row.proposed),
    )


def _parsed(arguments: str) -> JsonObject | str:
    found = parse_arguments(arguments)
    return arguments if found is None else found
