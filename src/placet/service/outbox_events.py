"""What appends mean to those who are told: events about questions and runs, out of the store's feed.

An event names ids and a link. What may be large or secret is asked for at the desk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from placet.core.index import RequestRecord
from placet.core.log import read_line
from placet.facts.codec import Json, JsonObject
from placet.facts.errors import PlacetError
from placet.facts.events import (
    CallEnded,
    CallHeld,
    CallInDoubt,
    DecisionMade,
    DecisionRevoked,
    InChild,
    InputAsked,
    PlainFact,
    QuestionEscalated,
    RunEnded,
    RunStopped,
    VoteCast,
)
from placet.facts.ids import request_id
from placet.ports import DeskStore, FeedEntry
from placet.service.subscriptions import EventType

MOST_QUESTIONS = 200
"""Questions about one call that are looked through."""
UNANSWERED = ("expired", "superseded", "cancelled")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    sequence: int
    index: int
    type: EventType
    key: str
    """The request, or the run: what belongs together stays in order."""
    at: float
    agent: str
    tool: str | None
    groups: list[str]
    data: JsonObject
    arguments: Json = None


async def events_of(store: DeskStore, entry: FeedEntry) -> list[Event]:
    """What an append tells. Of a run that is gone, or in words of newer code, there is nothing to tell."""
    try:
        record = read_line(entry.text)
    except PlacetError:
        return []
    found: list[Event] = []
    for index, fact in enumerate(record.facts):
        bare = fact.fact if isinstance(fact, InChild) else fact
        is_nested = isinstance(fact, InChild)
        event = await _event(store, entry, index, bare, record.at, is_nested=is_nested)
        if event is not None:
            found.append(event)
    return found


async def _event(
    store: DeskStore, entry: FeedEntry, index: int, fact: PlainFact, at: float, *, is_nested: bool
) -> Event | None:
    match fact:
        case CallHeld() | CallInDoubt() | InputAsked():
            request = await _newest(store, entry.run_id, fact.call, digest=fact.digest, created_at=at)
            kind: EventType = "request.waiting"
        case QuestionEscalated():
            request, kind = await _newest(store, entry.run_id, fact.call), "request.escalated"
        case VoteCast():
            request, kind = await _question(store, entry.run_id, fact.call, fact.request), "request.voted"
        case DecisionMade():
            request, kind = await _question(store, entry.run_id, fact.call, fact.request), "request.decided"
        case DecisionRevoked():
            request, kind = await _newest(store, entry.run_id, fact.call), "request.reopened"
        case CallEnded() if fact.outcome in UNANSWERED:
            request, kind = await _newest(store, entry.run_id, fact.call), "request.closed"
        case RunEnded() | RunStopped() if not is_nested:
            return await _of_run(store, entry, index, fact, at)
        case _:
            return None
    return None if request is None else _of_request(request, entry, index, kind, fact, at)


async def _question(store: DeskStore, run_id: str, call: str, number: int) -> RequestRecord | None:
    return await store.request(request_id(run_id, call, number))


async def _newest(
    store: DeskStore, run_id: str, call: str, *, digest: str | None = None, created_at: float | None = None
) -> RequestRecord | None:
    """The last question about a call, or the one that was asked with this digest at this time."""
    found: RequestRecord | None = None
    async for each in _questions(store, run_id, call):
        if digest is None or (each.digest, each.created_at) == (digest, created_at):
            found = each
    return found


async def _questions(store: DeskStore, run_id: str, call: str) -> AsyncIterator[RequestRecord]:
    for number in range(1, MOST_QUESTIONS):
        found = await _question(store, run_id, call, number)
        if found is None:
            return
        yield found


def _of_request(
    request: RequestRecord, entry: FeedEntry, index: int, kind: EventType, fact: PlainFact, at: float
) -> Event:
    data: JsonObject = {
        "request_id": request.id,
        "run_id": request.run_id,
        "kind": request.kind,
        "agent": request.agent,
        "tool": request.tool,
        "digest": request.digest,
        "expires_at": None if request.expires_at is None else iso(request.expires_at),
    }
    match fact:
        case DecisionMade() | VoteCast():
            data |= {"verdict": fact.verdict, "by": fact.by, "digest": fact.digest}
        case DecisionRevoked():
            data |= {"by": fact.by}
        case CallEnded():
            data |= {"outcome": fact.outcome}
        case _:
            pass
    return Event(
        sequence=entry.sequence,
        index=index,
        type=kind,
        key=request.id,
        at=at,
        agent=request.agent,
        tool=request.tool,
        groups=_groups(request),
        data=data,
        arguments=request.arguments,
    )


def _groups(request: RequestRecord) -> list[str]:
    if request.ballot is None:
        return []
    return sorted({group for step in request.ballot.requirement.steps() for group in step.groups})


async def _of_run(
    store: DeskStore, entry: FeedEntry, index: int, fact: RunEnded | RunStopped, at: float
) -> Event | None:
    run = await store.run(entry.run_id)
    if run is None:
        return None
    kind: EventType = "run.ended" if isinstance(fact, RunEnded) else "run.stopped"
    return Event(
        sequence=entry.sequence,
        index=index,
        type=kind,
        key=entry.run_id,
        at=at,
        agent=run.agent,
        tool=None,
        groups=[],
        data={"run_id": entry.run_id, "agent": run.agent},
    )


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
