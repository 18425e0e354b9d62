"""What the operators' log amounts to: who may what, what is held back or granted, which runs were erased or deleted.

The operators' log has facts of its own, and this is their one reading: what stands now, and what was done by whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

import msgspec

from placet.core.deciding import time_text
from placet.facts import events as e
from placet.facts.ids import call_id
from placet.facts.requirements import Assurance
from placet.facts.verdict_words import counted
from placet.facts.voting_settings import ApproverRule, Delegation, Rotation, rotation_text, rule_text

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
    | e.PasskeyChanged
    | e.IdentityTied
    | e.FourEyesSet
    | e.PolicyChanged
    | e.ReportedAfterEnd
    | e.SubscriptionChanged
    | e.ChatLinkChanged
    | e.BudgetGivenBack
    | e.ApproversSet
    | e.DelegationMade
    | e.DelegationEnded
    | e.RotationSet
    | e.GlassReviewed
)

ApproversFact: TypeAlias = e.ApproversSet | e.DelegationMade | e.DelegationEnded | e.RotationSet | e.GlassReviewed
"""Those about who has to approve."""


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
    passkeys: dict[str, e.PasskeyChanged] = field(default_factory=dict)
    """The keys that people have."""
    four_eyes: list[e.Pattern] = field(default_factory=list)
    erasures: dict[str, e.RunErased] = field(default_factory=dict)
    deletions: dict[str, Deletion] = field(default_factory=dict)
    """The last one of each run."""
    policy: e.PolicyChanged | None = None
    """The policy in force."""
    rules: list[ApproverRule] = field(default_factory=list)
    delegations: dict[str, Delegation] = field(default_factory=dict)
    rotations: dict[str, Rotation] = field(default_factory=dict)

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
            case e.RunsDeleted():
                self.deletions |= _deletions(fact)
            case e.UserChanged() | e.PasskeyChanged():
                self._take_person(fact)
            case e.TokenChanged():
                self.tokens[fact.id] = fact
            case e.FourEyesSet():
                self.four_eyes = fact.patterns
            case e.PolicyChanged():
                self.policy = fact
            case e.PasswordChanged() | e.InvitationChanged() | e.SubscriptionChanged() | e.BudgetGivenBack():
                pass  # nothing of a password, a link or a webhook's secret stands in the log
            case e.ChatLinkChanged() | e.IdentityTied():
                pass  # whose clicks count is looked up where they are counted
            case e.ReportedAfterEnd():
                pass  # evidence changes nothing
            case _:
                self._take_approvers(fact)

    def _take_approvers(self, fact: ApproversFact) -> None:
        match fact:
            case e.ApproversSet():
                self.rules = fact.rules
            case e.DelegationMade():
                self.delegations[fact.delegation.id] = fact.delegation
            case e.DelegationEnded():
                self.delegations.pop(fact.id, None)
            case e.RotationSet():
                self.rotations.pop(fact.name, None)
                if fact.rotation is not None:
                    self.rotations[fact.name] = fact.rotation
            case e.GlassReviewed():
                pass  # that a review is owed stands in the log of the run
            case never:
                assert_never(never)

    def _take_person(self, fact: e.UserChanged | e.PasskeyChanged) -> None:
        if isinstance(fact, e.UserChanged):
            self.users[fact.name] = fact
            if fact.change == "removed":
                self.passkeys = {key: each for key, each in self.passkeys.items() if each.person != fact.name}
        elif fact.change == "registered":
            self.passkeys[fact.id] = fact
        elif fact.change == "removed":
            self.passkeys.pop(fact.id, None)


def _deletions(fact: e.RunsDeleted) -> dict[str, Deletion]:
    return {
        each.run: Deletion(by=fact.by, at=fact.at, reason=fact.reason, length=each.length, head=each.head)
        for each in fact.runs
    }


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
    "identity tied",
    "passkey registered",
    "passkey removed",
    "passkey cloned",
    "four eyes set",
    "policy changed",
    "reported after the end",
    "subscription made",
    "subscription changed",
    "subscription secret changed",
    "subscription suspended",
    "subscription resumed",
    "subscription removed",
    "budget given back",
    "approvers set",
    "vote delegated",
    "delegation ended",
    "rotation set",
    "rotation removed",
    "break-glass reviewed",
    "chat account linked",
    "chat account unlinked",
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
    via: str | None = None
    assurance: Assurance | None = None
    """Of a standing decision."""


_USER: dict[str, ActKind] = {"added": "user added", "changed": "user changed", "removed": "user removed"}
_LINK: dict[str, ActKind] = {"made": "link made", "used": "link used", "revoked": "link revoked"}
_SUBSCRIPTION: dict[e.SubscriptionChange, ActKind] = {
    "made": "subscription made",
    "changed": "subscription changed",
    "secret changed": "subscription secret changed",
    "suspended": "subscription suspended",
    "resumed": "subscription resumed",
    "removed": "subscription removed",
}
_PASSKEY: dict[str, ActKind] = {
    "registered": "passkey registered",
    "removed": "passkey removed",
    "cloned": "passkey cloned",
}
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
        case e.RunErased() | e.RunsDeleted():
            yield from _acts_of_forgetting(fact)
        case e.FourEyesSet():
            yield Act(fact.at, "four eyes set", _patterns_text(fact.patterns, "nowhere"), fact.by, fact.reason)
        case e.PolicyChanged():
            yield _act_of_policy(fact)
        case e.ReportedAfterEnd():
            yield Act(fact.at, "reported after the end", fact.call, fact.guest, detail=f"as {fact.outcome}")
        case e.BudgetGivenBack():
            of = "all budgets" if fact.budget is None else fact.budget
            yield Act(fact.at, "budget given back", call_id(fact.run, fact.call), fact.by, fact.reason, detail=of)
        case e.SubscriptionChanged():
            yield _act_of_subscription(fact)
        case e.ApproversSet() | e.DelegationMade() | e.DelegationEnded() | e.RotationSet() | e.GlassReviewed():
            yield _act_about_approvers(fact)
        case _:
            yield _act_about_people(fact)


def _acts_of_forgetting(fact: e.RunErased | e.RunsDeleted) -> Iterator[Act]:
    if isinstance(fact, e.RunErased):
        yield Act(fact.at, "run erased", fact.run, fact.by, fact.reason, fact.head)
        return
    for each in fact.runs:
        lines = counted(each.length, "line")
        detail = lines if fact.ended_before is None else f"{lines}, in a purge"
        yield Act(fact.at, "run deleted", each.run, fact.by, fact.reason, each.head, detail)


def _act_of_passkey(fact: e.PasskeyChanged) -> Act:
    signers = ", ".join(each.by for each in fact.signatures)
    signed = f"signed by {signers}" if signers else "signed by nobody"
    how = "its counter went back: there is a copy of it" if fact.change == "cloned" else signed
    return Act(fact.at, _PASSKEY[fact.change], fact.id, fact.by, detail=f"of {fact.person}, «{fact.name}», {how}")


def _act_of_policy(fact: e.PolicyChanged) -> Act:
    how = f"{fact.origin}, {'after a vote' if fact.way == 'managed' else 'by its file'}"
    was = f"{how}, before {fact.before}" if fact.before is not None else how
    return Act(fact.at, "policy changed", fact.version, fact.by, fact.reason, detail=was)


def _act_of_subscription(fact: e.SubscriptionChanged) -> Act:
    where = f"{fact.channel} «{fact.name}» to {fact.target}"
    detail = where if fact.detail is None else f"{where}: {fact.detail}"
    return Act(fact.at, _SUBSCRIPTION[fact.change], fact.id, fact.by, detail=detail)


def _act_about_approvers(fact: ApproversFact) -> Act:
    """Who has to approve, who votes for whom, who is on call."""
    match fact:
        case e.ApproversSet():
            rules = " · ".join(map(rule_text, fact.rules)) or "nowhere"
            return Act(fact.at, "approvers set", rules, fact.by, fact.reason)
        case e.DelegationMade(delegation=made):
            whose = f"{made.principal}'s vote to {made.delegate}, {time_text(made.begins)} to {time_text(made.until)}"
            return Act(fact.at, "vote delegated", made.id, made.by, made.reason, detail=whose)
        case e.DelegationEnded():
            return Act(fact.at, "delegation ended", fact.id, fact.by, fact.reason)
        case e.RotationSet():
            what: ActKind = "rotation removed" if fact.rotation is None else "rotation set"
            who = None if fact.rotation is None else rotation_text(fact.rotation)
            return Act(fact.at, what, fact.name, fact.by, fact.reason, detail=who)
        case e.GlassReviewed():
            found = f"{'right' if fact.was_right else 'wrong'}: {fact.who or 'an unnamed person'} went ahead alone"
            return Act(fact.at, "break-glass reviewed", fact.request, fact.by, fact.reason, detail=found)
        case never:
            assert_never(never)


def act_of_grant(grant: e.GrantMade, where: str | None = None) -> Act:
    detail = f"always {grant.verdict} {grant.tool} for {grant.agent}{f', {where}' if where else ''}"
    how = (grant.via, grant.assurance)
    return Act(grant.at, "grant made", grant.id, grant.by, grant.reason, grant.fingerprint, detail, *how)


def _act_about_people(
    fact: e.UserChanged
    | e.PasswordChanged
    | e.InvitationChanged
    | e.TokenChanged
    | e.PasskeyChanged
    | e.IdentityTied
    | e.ChatLinkChanged,
) -> Act:
    """Who may what, and who said so."""
    match fact:
        case e.ChatLinkChanged():
            what: ActKind = "chat account linked" if fact.change == "made" else "chat account unlinked"
            return Act(fact.at, what, fact.name, fact.by, detail=f"{fact.channel} {fact.account}")
        case e.UserChanged():
            rights = None if fact.change == "removed" else _rights_text(fact)
            return Act(fact.at, _USER[fact.change], fact.name, fact.by, detail=rights)
        case e.PasswordChanged():
            how = f"by link {fact.invitation}" if fact.invitation is not None else None
            return Act(fact.at, "password changed", fact.name, fact.by, detail=how)
        case e.InvitationChanged():
            whose = f"for {fact.name or 'the first admin'}, {fact.role}"
            return Act(fact.at, _LINK[fact.change], fact.id, fact.by, detail=whose)
        case e.PasskeyChanged():
            return _act_of_passkey(fact)
        case e.IdentityTied():
            return Act(fact.at, "identity tied", fact.name, fact.by, detail=f"{fact.subject} at {fact.issuer}")
        case e.TokenChanged():
            whose = f"of {fact.owner}, «{fact.name}», {fact.role}, decides {_patterns_text(fact.decides)}"
            return Act(fact.at, _TOKEN[fact.change], fact.id, fact.by, detail=whose)
        case never:
            assert_never(never)


def _rights_text(user: e.UserChanged) -> str:
    parts = [user.role, f"decides {_patterns_text(user.decides)}"]
    if user.groups:
        parts.append(f"in {', '.join(user.groups)}")
    if not user.is_active:
        parts.append("switched off")
    if user.owner:
        parts.append(f"owned by {user.owner}")
    elif user.same_as:
        parts.append(f"the same person as {user.same_as}")
    return ", ".join(parts)


def _patterns_text(patterns: list[e.Pattern], none: str = "nothing") -> str:
    return ", ".join(f"{agent}:{tool}" for agent, tool in patterns) or none
