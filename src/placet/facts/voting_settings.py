"""How a store is set where people vote: who has to approve at which tool, who votes for whom, who is on call when."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from placet.facts.requirements import Requirement, needs_text

RungKind: TypeAlias = Literal["remind", "on_call", "escalate"]
"""Tell those who were asked once more; tell who is on call; tell others."""


class Rung(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step of a ladder: who is told when a question has waited so long. It changes nothing about who may decide."""

    kind: RungKind
    after: float
    """Seconds since the question was asked."""
    to: str | None = None
    """Of `on_call` the rotation, of `escalate` the group."""


class ApproverRule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What questions about these tools need, besides what the tool itself and the policy say."""

    agent: str
    """Patterns with `*` and `?`, for the agent's path and the tool's name."""
    tool: str
    requirement: Requirement | None = None
    rungs: tuple[Rung, ...] = ()
    reject_after: float | None = None
    """The ladder's end: rejected when nobody decided in so many seconds."""


class Delegation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Somebody votes for somebody else, for a time."""

    id: str
    principal: str
    """Whose vote it is."""
    delegate: str
    """Who casts it."""
    begins: float
    until: float
    by: str | None = None
    reason: str | None = None


class Rotation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who is on call, one after the other."""

    people: tuple[str, ...]
    since: str
    """The first handover, by the clocks of the zone: `2026-01-05T09:00`."""
    zone: str = "UTC"
    days: int = 7
    """From one handover to the next. It stays at the same hour when the clocks change."""
    hours: tuple[str, str] | None = None
    """On call only from the one to the other time of the day, as in `18:00` to `08:00`; None: all day."""


ON_CALL = "on-call."
"""How the names of groups begin whose one member is who is on call: `on-call.payments`."""


class VotingSettings(msgspec.Struct, frozen=True, kw_only=True):
    rules: tuple[ApproverRule, ...] = ()
    delegations: tuple[Delegation, ...] = ()
    rotations: dict[str, Rotation] = {}


NO_SETTINGS = VotingSettings()


def rule_text(rule: ApproverRule) -> str:
    """In one line: «Support:refund: 2 of finance; remind after 10 min»."""
    parts = [needs_text(rule.requirement)] if rule.requirement is not None else []
    parts += [rung_text(rung) for rung in rule.rungs]
    parts += [f"rejected after {duration_text(rule.reject_after)}"] if rule.reject_after is not None else []
    return f"{rule.agent}:{rule.tool}: {'; '.join(parts) or 'nothing more'}"


def rung_text(rung: Rung) -> str:
    after = duration_text(rung.after)
    match rung.kind:
        case "remind":
            return f"reminded after {after}"
        case "on_call":
            return f"who is on call ({rung.to}) told after {after}"
        case _:
            return f"{rung.to} told after {after}"


def rotation_text(rotation: Rotation) -> str:
    every = "every day" if rotation.days == 1 else f"every {rotation.days} days"
    hours = "" if rotation.hours is None else f", {rotation.hours[0]} to {rotation.hours[1]}"
    return f"{', '.join(rotation.people)}, {every} since {rotation.since} {rotation.zone}{hours}"


def duration_text(seconds: float) -> str:
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {word}"
    return f"{seconds:g} s"
