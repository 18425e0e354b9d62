"""What a deck offers after many decisions of one kind: a standing decision with bounds, and what it would have done.

Rule of this file: an offer is bounded by what people approved, in values, number and time; it never lets through what
somebody rejected; and only what was shown is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placet.core.baseline import MIN_RUNS, MIN_USUAL, Baseline, Sample, Value, names_things
from placet.declare.decisions import Grant
from placet.desk.web.context import Web
from placet.desk.web.waiting import Waits
from placet.facts.codec import Json, canonical
from placet.facts.errors import UserError
from placet.service.baselines import samples_of

LAST = 50
"""So many of the newest decisions are gone through again."""
USES = 50
DAYS = 30
MAX_NAMED = 5
"""A field that had more different values is no set."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A standing decision that is offered."""

    agent: str
    tool: str
    matching: dict[str, dict[str, Json]]
    free: list[str]
    """Arguments that may be anything."""
    would_have: int
    """How many of the last decisions it would have made."""
    of: int
    uses: int = USES
    days: int = DAYS

    @property
    def bounds(self) -> list[tuple[str, str]]:
        """Each argument and what it has to be, in words."""
        return [(name, _words(match)) for name, match in self.matching.items()] + [
            (each, "anything") for each in self.free
        ]

    @property
    def digest(self) -> str:
        """What was shown is what is made."""
        shown: Json = [self.agent, self.tool, dict(self.matching), list(self.free), self.uses, self.days]
        return hashlib.blake2b(canonical(shown), digest_size=12).hexdigest()

    def grant(self, now: float) -> Grant:
        return Grant(scope="agent", matching=self.matching or None, until=now + self.days * 86400, uses=self.uses)


async def offer_for(web: Web, member: Waits) -> Offer | None:
    """What is offered for a deck that this request is in; None where people have not said the same often enough."""
    request = member.request
    if request.kind != "approval" or request.irreversible or request.ballot is not None or request.why is not None:
        return None
    samples = await samples_of(web.desk.store, request.agent, request.tool)
    return offer_of(request.agent, request.tool, member.fields, samples, web.clock.now())


def offer_of(agent: str, tool: str, fields: Mapping[str, Value], samples: Sequence[Sample], now: float) -> Offer | None:
    if any("\x1f" in name for name in fields):
        return None  # the bounds of a standing decision are about whole arguments
    shape = tuple(sorted(fields))
    like = [sample for sample in samples if sample.shape == shape]
    approved = [sample for sample in like if sample.is_whole and sample.approved]
    if len(approved) < MIN_USUAL or len({sample.run for sample in approved}) < MIN_RUNS:
        return None
    matching, free = _bounds_around(fields, approved)
    if not matching or _is_against(matching, fields, like):
        return None
    if Baseline(shape, samples, now).compare(fields, now, is_whole=True).rejected:
        return None
    last = samples[:LAST]
    would_have = sum(_fits(matching, each) for each in last if each.shape == shape)
    made = Offer(agent, tool, matching, free, would_have, len(last))
    try:
        made.grant(now)
    except UserError:  # bounds that a standing decision does not take, such as numbers that are counted inexactly
        return None
    return made


def _bounds_around(
    fields: Mapping[str, Value], approved: Sequence[Sample]
) -> tuple[dict[str, dict[str, Json]], list[str]]:
    """What each field was in all approved calls, and the fields that were another thing each time."""
    matching: dict[str, dict[str, Json]] = {}
    free: list[str] = []
    for name in fields:
        bound = _bound(name, [sample.fields[name] for sample in approved if name in sample.fields])
        if bound is None:
            free.append(name)
        else:
            matching[name] = bound
    return matching, free


def _is_against(
    matching: Mapping[str, Mapping[str, Json]], fields: Mapping[str, Value], like: Sequence[Sample]
) -> bool:
    """Whether something within the bounds was not approved, or the call at hand is not within them."""
    inside = [sample for sample in like if _fits(matching, sample)]
    return any(not sample.approved for sample in inside) or not _is_within(matching, fields)


def _bound(name: str, values: Sequence[Value]) -> dict[str, Json] | None:
    """What a field was in all approved calls; None: another thing each time, or a text that somebody has to read."""
    kinds = {value.kind for value in values}
    if kinds == {"number"} and not names_things(name):
        numbers = [value.plain for value in values if isinstance(value.plain, int | float)]
        return {"min": min(numbers), "max": max(numbers)}
    if not kinds <= {"text", "flag", "number", "nothing"}:
        return None
    different: list[Json] = []
    for value in values:
        if not any(each == value.plain and type(each) is type(value.plain) for each in different):
            different.append(value.plain)
    return {"one_of": different} if len(different) <= MAX_NAMED else None


def _fits(matching: Mapping[str, Mapping[str, Json]], sample: Sample) -> bool:
    return sample.is_whole and _is_within(matching, sample.fields)


def _is_within(matching: Mapping[str, Mapping[str, Json]], fields: Mapping[str, Value]) -> bool:
    return all(name in fields and _is_one(match, fields[name]) for name, match in matching.items())


def _is_one(match: Mapping[str, Json], value: Value) -> bool:
    plain, low, high, named = value.plain, match.get("min"), match.get("max"), match.get("one_of")
    if isinstance(named, list):
        return value.kind in ("text", "flag", "number", "nothing") and any(
            each == plain and type(each) is type(plain) for each in named
        )
    if isinstance(plain, bool) or not isinstance(plain, int | float) or value.kind != "number":
        return False
    return isinstance(low, int | float) and isinstance(high, int | float) and low <= plain <= high


def _words(match: Mapping[str, Json]) -> str:
    named = match.get("one_of")
    if isinstance(named, list):
        texts = [each if isinstance(each, str) else canonical(each).decode() for each in named]
        return texts[0] if len(texts) == 1 else f"one of {', '.join(texts)}"
    return f"{match['min']} to {match['max']}"
