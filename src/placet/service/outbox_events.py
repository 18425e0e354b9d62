"""What appends mean to those who are told: events about questions and runs, out of the store's feed.

An event names ids and a link. What may be large or secret is asked for at the desk. `EVENTS` is the one list: a fact
that people should be told of gets one entry there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import msgspec

from placet.core.index import RequestRecord
from placet.core.log import read_line
from placet.core.rotations import on_call
from placet.facts import events as e
from placet.facts.codec import Json, JsonObject
from placet.facts.errors import PlacetError
from placet.facts.ids import request_id
from placet.facts.voting_settings import ON_CALL
from placet.ports import DeskStore, FeedEntry

MOST_QUESTIONS = 200
"""Questions about one call that are looked through."""
UNANSWERED = ("expired", "superseded", "cancelled")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    sequence: int
    index: int
    type: str
    """One of `EVENT_TYPES`."""
    key: str
    """The request, or the run: what belongs together stays in order."""
    at: float
    agent: str
    tool: str | None
    groups: list[str]
    data: JsonObject
    arguments: Json = None
    summary: str | None = None
    """What would happen, in a sentence of the tool's own. It may say what the arguments say."""


class Place(NamedTuple):
    """Where a fact stands."""

    store: DeskStore
    entry: FeedEntry
    at: float


# -- which question a fact is about -----------------------------------------------------------------------------------

AnyFact: TypeAlias = e.PlainFact
FindRequest: TypeAlias = Callable[[Place, AnyFact], Awaitable[RequestRecord | None]]


async def _just_asked(place: Place, fact: AnyFact) -> RequestRecord | None:
    """The question that was asked with this digest at this time: a later one about the call may be there already."""
    assert isinstance(fact, e.CallHeld | e.CallInDoubt | e.InputAsked)
    found: RequestRecord | None = None
    async for each in _questions(place, fact.call):
        if (each.digest, each.created_at) == (fact.digest, place.at):
            found = each
    return found


async def _named(place: Place, fact: AnyFact) -> RequestRecord | None:
    """The question that the fact names by its number."""
    assert isinstance(fact, e.VoteCast | e.VoteTakenBack | e.DecisionMade)
    return await place.store.request(request_id(place.entry.run_id, fact.call, fact.request))


async def _newest(place: Place, fact: AnyFact) -> RequestRecord | None:
    """The last question about the fact's call."""
    assert isinstance(fact, e.QuestionEscalated | e.DecisionRevoked | e.CallEnded | e.RungClimbed)
    found: RequestRecord | None = None
    async for each in _questions(place, fact.call):
        found = each
    return found


async def _questions(place: Place, call: str) -> AsyncIterator[RequestRecord]:
    for number in range(1, MOST_QUESTIONS):
        found = await place.store.request(request_id(place.entry.run_id, call, number))
        if found is None:
            return
        yield found


# -- the list ---------------------------------------------------------------------------------------------------------


class Told(NamedTuple):
    """How a kind of fact is told: under which name, about which question (None: about its run), with which fields."""

    type: str
    meaning: str
    request: FindRequest | None
    fields: tuple[str, ...] = ()
    """Fields of the fact that the message repeats."""


EVENTS: dict[type[e.Fact], Told] = {
    e.CallHeld: Told("request.waiting", "a question waits for a person", _just_asked),
    e.CallInDoubt: Told("request.waiting", "a question waits for a person", _just_asked),
    e.InputAsked: Told("request.waiting", "a question waits for a person", _just_asked),
    e.QuestionEscalated: Told("request.escalated", "nobody answered in time, and others are asked", _newest),
    e.VoteCast: Told("request.voted", "somebody voted on it", _named, ("verdict", "by", "digest")),
    e.VoteTakenBack: Told("request.vote_taken_back", "somebody took a vote back", _named, ("by",)),
    e.DecisionMade: Told("request.decided", "it is decided", _named, ("verdict", "by", "digest")),
    e.DecisionRevoked: Told("request.reopened", "an approval was taken back, and it waits again", _newest, ("by",)),
    e.CallEnded: Told("request.closed", "it ended without an answer", _newest, ("outcome",)),
    e.RunEnded: Told("run.ended", "a run has ended", None),
    e.RunStopped: Told("run.stopped", "an error stopped a run", None),
}
RUNGS: dict[str, Told] = {
    "remind": Told("request.reminded", "it still waits, and whoever was asked is told again", _newest),
    "on_call": Told("request.on_call", "it still waits, and who is on call is told", _newest, ("to",)),
    "escalate": Told("request.escalated", "nobody answered in time, and others are asked", _newest, ("to",)),
}
"""By the kind of a ladder's rung."""
BROKE_GLASS = Told("request.broke_glass", "somebody went ahead alone", _named, ("by", "reason", "digest"))
"""Told to all who are told anything about such questions."""
EVENT_TYPES: dict[str, str] = {told.type: told.meaning for told in (*EVENTS.values(), *RUNGS.values(), BROKE_GLASS)}
"""What a subscription can choose from, and what each means."""


async def events_of(store: DeskStore, entry: FeedEntry) -> list[Event]:
    """What an append tells. Of a run that is gone, or in words of newer code, there is nothing to tell."""
    try:
        record = read_line(entry.text)
    except PlacetError:
        return []
    place = Place(store, entry, record.at)
    found = [await _event(place, index, fact) for index, fact in enumerate(record.facts)]
    return [event for event in found if event is not None]


async def _event(place: Place, index: int, fact: e.AnyFact) -> Event | None:
    bare = fact.fact if isinstance(fact, e.InChild) else fact
    told = _told(bare)
    if told is None or (isinstance(bare, e.CallEnded) and bare.outcome not in UNANSWERED):
        return None
    if told.request is None:
        return None if isinstance(fact, e.InChild) else await _of_run(place, index, told)
    request = await told.request(place, bare)
    if request is None:
        return None
    event = _of_request(request, place, index, told, bare)
    return await _of_rung(event, place, bare) if isinstance(bare, e.RungClimbed) and bare.to is not None else event


async def _of_rung(event: Event, place: Place, fact: e.RungClimbed) -> Event:
    """For those whom the rung names; the person, where it is who is on call."""
    if fact.kind != "on_call":
        return msgspec.structs.replace(event, groups=[fact.to or ""])
    rotation = (await place.store.voting_settings()).rotations.get(fact.to or "")
    person = None if rotation is None else on_call(rotation, place.at)
    return msgspec.structs.replace(event, groups=[f"{ON_CALL}{fact.to}"], data=event.data | {"on_call": person})


def _told(fact: AnyFact) -> Told | None:
    match fact:
        case e.VoteCast(breaks_glass=True):
            return BROKE_GLASS
        case e.RungClimbed():
            return RUNGS.get(fact.kind)
        case _:
            return EVENTS.get(type(fact))


def _of_request(request: RequestRecord, place: Place, index: int, told: Told, fact: AnyFact) -> Event:
    data: JsonObject = {
        "request_id": request.id,
        "run_id": request.run_id,
        "kind": request.kind,
        "agent": request.agent,
        "tool": request.tool,
        "digest": request.digest,
        "expires_at": None if request.expires_at is None else iso(request.expires_at),
    }
    said = msgspec.structs.asdict(fact)
    return Event(
        sequence=place.entry.sequence,
        index=index,
        type=told.type,
        key=request.id,
        at=place.at,
        agent=request.agent,
        tool=request.tool,
        groups=_groups(request),
        data=data | {name: said[name] for name in told.fields},
        arguments=request.arguments,
        summary=request.summary,
    )


def _groups(request: RequestRecord) -> list[str]:
    if request.ballot is None:
        return []
    return sorted({group for step in request.ballot.requirement.steps() for group in step.groups})


async def _of_run(place: Place, index: int, told: Told) -> Event | None:
    run = await place.store.run(place.entry.run_id)
    if run is None:
        return None
    return Event(
        sequence=place.entry.sequence,
        index=index,
        type=told.type,
        key=run.id,
        at=place.at,
        agent=run.agent,
        tool=None,
        groups=[],
        data={"run_id": run.id, "agent": run.agent},
    )


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
