"""What the operators' log amounts to: who may what, what is held back or granted, which runs were erased or deleted.

The operators' log has facts of its own, and this is their one reading: what stands now, and what was done by whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

import msgspec

from placet.facts import events as e

OperatorsFact: TypeAlias = (
    e.StandingGrantMade
    | e.GrantRevoked
    | e.HoldPlaced
    | e.HoldLifted
    | e.RunErased
    | e.RunsDeleted
    | e.UserChanged
    | e.PasswordChanged
    | e.InvitationChanged
    | e.TokenChanged
    | e.FourEyesSet
)


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """What the operators' log says about a run that is gone."""

    by: str | None
    at: float
    reason: str | None
    length: int
    head: str
    """Where the run's log stood."""


@dataclass(slots=True)
class Operators:
    """What stands, by what was said last."""

    grants: dict[str, e.GrantMade] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    holds: dict[tuple[e.HoldKind, str], e.HoldPlaced] = field(default_factory=dict)
    users: dict[str, e.UserChanged] = field(default_factory=dict)
    tokens: dict[str, e.TokenChanged] = field(default_factory=dict)
    four_eyes: list[e.Pattern] = field(default_factory=list)
    erasures: dict[str, e.RunErased] = field(default_factory=dict)
    deletions: dict[str, Deletion] = field(default_factory=dict)
    """The last one of each run."""

    def take(self, fact: OperatorsFact) -> None:
        match fact:
            case e.StandingGrantMade():
                self.grants[fact.grant.id] = fact.grant
            case e.GrantRevoked():
                self.revoked.add(fact.id)
            case e.HoldPlaced():
                self.holds[fact.kind, fact.name] = fact
            case e.HoldLifted():
                self.holds.pop((fact.kind, fact.name), None)
            case e.RunErased():
                self.erasures[fact.run] = fact
            case e.RunsDeleted(by=by, at=at, reason=reason):
                for each in fact.runs:
                    self.deletions[each.run] = Deletion(by=by, at=at, reason=reason, length=each.length, head=each.head)
            case e.UserChanged():
                self.users[fact.name] = fact
            case e.TokenChanged():
                self.tokens[fact.id] = fact
            case e.FourEyesSet():
                self.four_eyes = fact.patterns
            case e.PasswordChanged() | e.InvitationChanged():
                pass  # nothing of a password or a link stands in the log
            case never:
                assert_never(never)


def operators_of(facts: Iterable[e.AnyFact]) -> Operators:
    found = Operators()
    for fact in facts:
        if isinstance(fact, OperatorsFact):
            found.take(fact)
    return found


# -- who did what -----------------------------------------------------------------------------------------------------

ActKind: TypeAlias = Literal[
    "grant made",
    "grant revoked",
    "hold placed",
    "hold lifted",
    "run erased",
    "run deleted",
    "user added",
    "user changed",
    "user removed",
    "password changed",
    "link made",
    "link used",
    "link revoked",
    "token made",
    "token revoked",
    "four eyes set",
]


class Act(msgspec.Struct, frozen=True):
    """One thing that an operator did."""

    at: float
    what: ActKind
    subject: str
    by: str | None
    why: str | None = None
    digest: str | None = None
    detail: str | None = None


_USER: dict[str, ActKind] = {"added": "user added", "changed": "user changed", "removed": "user removed"}
_LINK: dict[str, ActKind] = {"made": "link made", "used": "link used", "revoked": "link revoked"}
_TOKEN: dict[str, ActKind] = {"made": "token made", "revoked": "token revoked"}


def acts_of(fact: OperatorsFact) -> Iterator[Act]:
    match fact:
        case e.StandingGrantMade():
            yield act_of_grant(fact.grant, f"in {fact.run}" if fact.run else "at a desk")
        case e.GrantRevoked():
            yield Act(fact.at, "grant revoked", fact.id, fact.by, fact.reason)
        case e.HoldPlaced():
            yield Act(fact.at, "hold placed", f"{fact.kind} {fact.name}", fact.by, fact.reason)
        case e.HoldLifted():
            yield Act(fact.at, "hold lifted", f"{fact.kind} {fact.name}", fact.by, fact.reason)
        case e.RunErased():
            yield Act(fact.at, "run erased", fact.run, fact.by, fact.reason, fact.head)
        case e.RunsDeleted():
            for each in fact.runs:
                lines = "1 line" if each.length == 1 else f"{each.length} lines"
                detail = lines if fact.ended_before is None else f"{lines}, in a purge"
                yield Act(fact.at, "run deleted", each.run, fact.by, fact.reason, each.head, detail)
        case e.FourEyesSet():
            where = _patterns_text(fact.patterns) if fact.patterns else "nowhere"
            yield Act(fact.at, "four eyes set", where, fact.by, fact.reason)
        case _:
            yield _act_about_people(fact)


def act_of_grant(grant: e.GrantMade, where: str | None = None) -> Act:
    detail = f"always {grant.verdict} {grant.tool} for {grant.agent}{f', {where}' if where else ''}"
    return Act(grant.at, "grant made", grant.id, grant.by, grant.reason, grant.fingerprint, detail)


def _act_about_people(fact: e.UserChanged | e.PasswordChanged | e.InvitationChanged | e.TokenChanged) -> Act:
    """Who may what, and who said so."""
    match fact:
        case e.UserChanged():
            switched = "" if fact.is_active else ", switched off"
            member = f", in {', '.join(fact.groups)}" if fact.groups else ""
            rights = f"{fact.role}, decides {_patterns_text(fact.decides)}{member}{switched}"
            what = _USER[fact.change]
            return Act(fact.at, what, fact.name, fact.by, detail=None if fact.change == "removed" else rights)
        case e.PasswordChanged():
            how = f"by link {fact.invitation}" if fact.invitation is not None else None
            return Act(fact.at, "password changed", fact.name, fact.by, detail=how)
        case e.InvitationChanged():
            whose = f"for {fact.name or 'the first admin'}, {fact.role}"
            return Act(fact.at, _LINK[fact.change], fact.id, fact.by, detail=whose)
        case e.TokenChanged():
            whose = f"of {fact.owner}, «{fact.name}», {fact.role}, decides {_patterns_text(fact.decides)}"
            return Act(fact.at, _TOKEN[fact.change], fact.id, fact.by, detail=whose)
        case never:
            assert_never(never)


def _patterns_text(patterns: list[e.Pattern]) -> str:
    return ", ".join(f"{agent}:{tool}" for agent, tool in patterns) or "nothing"
