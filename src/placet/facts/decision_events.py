"""The facts about what people decide: decisions, votes, standing decisions, and what takes them back."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from placet.facts.budgets import GrantTerms
from placet.facts.codec import Json, JsonObject
from placet.facts.fact import Fact, Verdict
from placet.facts.requirements import Assurance, Requirement, least_sure
from placet.facts.signatures import SignedDecision


class DecisionMade(Fact, frozen=True, tag="decide"):
    call: str
    request: int
    """Which question about the call was answered: the first, or a later one that a change or a doubt made necessary."""
    digest: str
    """What the person saw; for an edit, what they made of it."""
    verdict: Verdict
    by: str | None
    at: float
    reason: str | None = None
    message: str | None = None
    """For a rejection: what the model reads."""
    arguments: JsonObject | None = None
    """For an edit: what is to run."""
    output: Json = None
    """For an answer: what the model reads."""
    grant: str | None = None
    """The standing decision that decided, if it was not a person who looked at this call."""
    via: str | None = None
    """Through which door it came: `session`, `token`, `open`, …; None: from a program, or older code did not say."""
    assurance: Assurance = "none"
    """How sure it is that it was this person. Where several decided, of the least sure one."""
    signed: SignedDecision | None = None
    """What the person signed, if they did. Where votes decide, each vote has its own."""


class ApproversRequired(Fact, frozen=True, tag="needs"):
    """What the question that was just asked about a call needs before it is decided. It holds for later questions about
    the call, too, until another one of these stands behind them.

    A fact of its own, because it restricts: code that does not know it cannot continue with the run.
    """

    call: str
    requirement: Requirement
    votes: list[VoteCast] = msgspec.field(default_factory=list)
    """Those that stand from the question before: another process took theirs back."""
    arguments: JsonObject | None = None
    """What a reviewer made of the arguments, where that did not decide: the question is about these."""
    editor: str | None = None


class VoteCast(Fact, frozen=True, tag="vote"):
    """Somebody said what they want, under a requirement. The vote that fulfils it stands in one record with the
    decision."""

    call: str
    request: int
    digest: str
    """What the person saw; for an edit, what they made of it."""
    verdict: Verdict
    by: str | None
    """None: somebody without a name. All of those are one person."""
    at: float
    reason: str | None = None
    message: str | None = None
    arguments: JsonObject | None = None
    output: Json = None
    via: str | None = None
    """Through which door: a state, the inbox, the API, …"""
    assurance: Assurance = "none"
    on_behalf_of: str | None = None
    """Whose vote a delegate gave."""
    grant: AnyGrant | None = None
    """The standing decision that is part of what is voted on. It is made if all votes that count carry the same."""
    breaks_glass: bool = False
    """One person goes ahead alone, where the requirement allows it."""
    signed: SignedDecision | None = None
    """What the voter signed, if they did."""


class VoteTakenBack(Fact, frozen=True, tag="unvote"):
    call: str
    request: int
    by: str | None
    at: float
    reason: str | None = None
    on_behalf_of: str | None = None
    """Whose vote it was, where another person had cast it and takes it back."""


class DecisionRevoked(Fact, frozen=True, tag="revoke"):
    call: str
    by: str | None
    at: float
    reason: str | None = None


class ClaimDelayed(Fact, frozen=True, tag="notbefore"):
    """What was just approved begins at this time at the earliest: until then it can still be taken back. It stands in
    one record with the decision; a later decision, or the time, makes an end of it.

    A fact of its own, because it restricts: code that does not know it cannot continue with the run.
    """

    call: str
    request: int
    """The question whose approval it delays."""
    not_before: float


class DelayOver(Fact, frozen=True, tag="delayover"):
    """The time of a delay has passed, and something else keeps the call from beginning: nobody has to wake up for the
    delay any more."""

    call: str


class GrantMade(Fact, frozen=True, tag="grant"):
    """A standing decision, and all that it covers."""

    id: str
    agent: str
    tool: str
    fingerprint: str
    """The tool's schema and version when the grant was made: a tool that changed is not covered any more."""
    verdict: Literal["approve", "reject"]
    by: str | None
    at: float
    reason: str | None = None
    message: str | None = None
    scope: Literal["run", "agent"] = "run"
    arguments: JsonObject | None = None
    until: float | None = None
    uses: int | None = None
    path: str = ""
    """The nested run in which it was made, and with which it ends."""
    call: str | None = None
    """The call with whose decision it was made: who takes that back takes this back too. None: with none."""
    authors: list[Author] | None = None
    """All who made it, where several had to, and how sure that is. None: `by` alone."""
    via: str | None = None
    """Through which door it came, as of a decision."""
    terms: GrantTerms | None = None
    """More bounds. Only a `BoundedGrantMade` has them: code that does not know them must not read the grant without."""

    @property
    def assurance(self) -> Assurance:
        """Of the least sure of its authors."""
        return least_sure([each.assurance for each in self.authors or ()])


class BoundedGrantMade(GrantMade, frozen=True, tag="bounded"):
    """A standing decision with terms. It has the fields of one without.

    A fact of its own, because it restricts: older code would read the grant and pass over its terms.
    """


AnyGrant: TypeAlias = GrantMade | BoundedGrantMade


class Author(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who made a standing decision, as far as that counts."""

    by: str | None
    assurance: Assurance = "none"
    on_behalf_of: str | None = None


class GrantRevoked(Fact, frozen=True, tag="ungrant"):
    id: str
    by: str | None
    at: float
    reason: str | None = None
