"""The last look before a claim, whatever led there: at once, out of a queue, by a retry, after doubt, by a grant.

Rule of this file: what can keep a call from beginning is a check in `CHECKS`, and nowhere else. A check is a pure
function of what is known at that moment. The first one that objects says what becomes of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from placet.core.holds import Hold, hold_on
from placet.core.policy import Question
from placet.core.state import Call
from placet.core.transitions import Status
from placet.facts.events import GrantMade
from placet.facts.requirements import Requirement

CHANGED = "what was approved is not what would run now: the tool or its arguments changed in between"
CHANGED_WHILE_ASKING = "its tool changed before its question was answered: it cannot continue with the answer"
TOO_LATE = "the approval was not used in time"
GRANT_GONE = "the standing decision by which it was approved was taken back before it began"
GRANT_OVER = "the standing decision by which it was approved ended before it began"
EDIT_CHANGED = (
    "a reviewer's arguments were given where the tool's code is not, and validation would fill in or change something: "
    "edit them again where it can be seen"
)
NOT_JUDGED = "the policy asks for a person's approval"
SWITCHED_OFF = "its tool is switched off now"


class PolicyObjection(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy, as it is at this moment, has against a call that was let through before."""

    denies: str | None = None
    """What the model reads."""
    asks: str | None = None
    """Why a person has to be asked, or others than were."""
    question: Question = Question()
    requirement: Requirement | None = None
    """All that the call needs by now."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a call at the moment at which it would begin."""

    call: Call
    run_id: str
    agent: str
    now: float
    has_lease: bool
    """Whether the driver of the run still has the right to."""
    is_cancelled: bool
    """Whether a person asked for the end of the run."""
    holds: Sequence[Hold] = ()
    goes_on: bool = False
    """It is the call of a nested run that was begun before: what it does next is looked at call by call, in there."""
    is_enabled: bool = True
    digests: tuple[str, ...] = ()
    """The digest of what would run now (after a doubt, or an answer, there are two ways to have approved the same)."""
    means_the_same: bool = True
    """Whether validation, by the code as it is now, leaves alone what was decided about."""
    not_carried: str | None = None
    """Why the votes, as they count now, do not carry the decision: where a requirement asks for them."""
    needs_more: bool = False
    """What a reviewer made of the arguments needs other approvals than the arguments that they saw."""
    not_theirs: str | None = None
    """Why the person who decided could not decide about this call: where four eyes are demanded."""
    valid_for: float | None = None
    """For how long an approval can be used, in seconds."""
    grant: GrantMade | None = None
    """The standing decision that decided, if one did and it still stands."""
    policy: PolicyObjection | None = None
    not_covered: str | None = None
    """Why the budget of what let it through does not cover the call."""


class Passed(msgspec.Struct, frozen=True):
    """Nothing keeps the call from beginning."""


class LeaseLost(msgspec.Struct, frozen=True):
    """Another process may drive the run by now: nothing may be begun here."""


class SetAside(msgspec.Struct, frozen=True):
    """Not now: the call keeps its approval, and this drive leaves it alone."""

    until: float | None = None
    """When it is looked at again by itself; None: somebody has to let it go."""


class ClaimRefused(msgspec.Struct, frozen=True):
    """The call does not take place, and the model reads why. One that may have happened is put before a person."""

    why: str


class AskedAnew(msgspec.Struct, frozen=True):
    """The approval is void, and a person is asked again."""

    why: str


class TakenBack(msgspec.Struct, frozen=True):
    """The approval never counted: it is taken back, no grant takes its place, and a person is asked."""

    why: str


class AskedOthers(msgspec.Struct, frozen=True):
    """What a reviewer made of the call needs the approval of others: those are asked, about the edited call."""


Verdict: TypeAlias = Passed | LeaseLost | SetAside | ClaimRefused | AskedAnew | TakenBack | AskedOthers


def judge_claim(claim: Claim) -> Verdict:
    """What the first check that objects says."""
    is_plain = claim.call.decision is None and claim.policy is None and claim.not_covered is None
    for check in CHECKS_WITHOUT_DECISION if is_plain else CHECKS:
        verdict = check(claim)
        if verdict is not None:
            return verdict
    return Passed()


def _lease(claim: Claim) -> Verdict | None:
    return None if claim.has_lease else LeaseLost()


def _hold(claim: Claim) -> Verdict | None:
    is_held = hold_on(claim.holds, claim.run_id, claim.agent, claim.call.name) is not None if claim.holds else False
    return SetAside() if is_held or claim.is_cancelled else None


def _not_before(claim: Claim) -> Verdict | None:
    """Whoever approved it can still take that back."""
    until = claim.call.not_before
    return None if until is None or claim.now >= until or claim.goes_on else SetAside(until)


def _enabled(claim: Claim) -> Verdict | None:
    return None if claim.is_enabled or claim.goes_on else ClaimRefused(SWITCHED_OFF)


def _digest(claim: Claim) -> Verdict | None:
    """What people decided is compared with what would run; what needed nobody was judged by today's rules."""
    decision = claim.call.decision
    if decision is None or claim.goes_on:
        return None
    if decision.digest not in claim.digests:
        return AskedAnew(CHANGED_WHILE_ASKING if claim.call.status is Status.SUPPLIED else CHANGED)
    if claim.means_the_same:
        return None
    return AskedAnew(CHANGED if claim.call.edited is None else EDIT_CHANGED)


def _separation(claim: Claim) -> Verdict | None:
    if claim.not_theirs is None or claim.goes_on:
        return None
    return TakenBack(f"its approval does not count: {claim.not_theirs}")


def _votes(claim: Claim) -> Verdict | None:
    if claim.not_carried is None or claim.goes_on:
        return None
    return TakenBack(f"its approval does not count: {claim.not_carried}")


def _edited(claim: Claim) -> Verdict | None:
    return AskedOthers() if claim.needs_more and claim.call.status is Status.APPROVED else None


def _policy(claim: Claim) -> Verdict | None:
    """Rules may have changed since the call was let through, and an edit may be one that they deny."""
    objection = claim.policy
    if objection is None or claim.goes_on:
        return None
    if objection.denies is not None:
        is_edit = claim.call.edited is not None
        why = f"the policy denies it: {objection.denies}"
        return AskedAnew(f"as it was edited {why}") if is_edit else ClaimRefused(why.rstrip("."))
    if claim.needs_more:
        return None  # an edit: those whom it needs are asked about it
    return AskedAnew(objection.asks or NOT_JUDGED)


def _grant(claim: Claim) -> Verdict | None:
    decision = claim.call.decision
    if decision is None or decision.grant is None or claim.goes_on:
        return None
    if claim.grant is None:
        return AskedAnew(GRANT_GONE)
    return AskedAnew(GRANT_OVER) if claim.grant.until is not None and claim.now >= claim.grant.until else None


def _budget(claim: Claim) -> Verdict | None:
    if claim.not_covered is None or claim.goes_on:
        return None
    return AskedAnew(claim.not_covered)


def _use_by(claim: Claim) -> Verdict | None:
    decision = claim.call.decision
    if decision is None or claim.goes_on or claim.valid_for is None:
        return None
    counted_from = max(decision.at, claim.call.not_before or 0.0)
    return AskedAnew(TOO_LATE) if claim.now > counted_from + claim.valid_for else None


# The order is part of the promise. A lost lease comes first: a driver that lost it may not even write down why. What
# merely waits (a hold, a delay) comes before what voids an approval, so that a hold costs nobody's yes.
CHECKS: tuple[Callable[[Claim], Verdict | None], ...] = (
    _lease,
    _hold,
    _not_before,
    _separation,
    _votes,
    _enabled,
    _policy,
    _use_by,
    _digest,
    _grant,
    _budget,
    _edited,
)
"""In this order: what nobody may do, what waits, what is off, and only then what a person would be asked about."""
CHECKS_WITHOUT_DECISION = (_lease, _hold, _enabled)
"""Of these, the ones that have something to say about a call that no person was asked about, and that no policy
objects to: most calls."""
