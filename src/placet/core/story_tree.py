"""What a run's story is made of: the steps of calls, the notes on runs, and the tree of runs, turns, calls, requests.

What happened is frozen. The tree grows with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

import msgspec

from placet.core.approvals import name_of
from placet.core.index import RequestKind
from placet.facts import events as e
from placet.facts.codec import Json, JsonObject, encode
from placet.facts.ids import ROOT
from placet.facts.requirements import Requirement

# -- what happened ----------------------------------------------------------------------------------------------------


class CallStep(msgspec.Struct, frozen=True):
    """Something that happened to a call."""

    call: str
    at: float
    line: int
    """The line of the log that says so."""


class Moved(CallStep, frozen=True):
    to: Literal["allowed", "deferred", "started"]


class Validated(CallStep, frozen=True):
    values: JsonObject
    changes: JsonObject
    """What is other than the model wrote it."""


class Asked(CallStep, frozen=True):
    """A person is asked: whether it may run, whether it is to run again, or for input."""

    kind: RequestKind
    number: int
    digest: str
    tool: str
    why: str | None = None
    expires_at: float | None = None
    questions: dict[str, JsonObject] | None = None


class Escalated(CallStep, frozen=True):
    pass


class RulesHeard(CallStep, frozen=True):
    """Rules of a policy spoke about it."""

    fact: e.PolicyJudged


class Required(CallStep, frozen=True):
    """What the question needs before it is decided, and what a reviewer made of the arguments, if it is about that."""

    requirement: Requirement
    votes: list[e.VoteCast]
    arguments: JsonObject | None
    editor: str | None
    changes: JsonObject


class Voted(CallStep, frozen=True):
    vote: e.VoteCast


class VoteWithdrawn(CallStep, frozen=True):
    by: str | None
    reason: str | None


class Decided(CallStep, frozen=True):
    decision: e.DecisionMade
    changes: JsonObject
    """What an edit made other than it was."""


class Revoked(CallStep, frozen=True):
    by: str | None
    reason: str | None


class Ended(CallStep, frozen=True):
    outcome: e.Outcome
    output: Json


class ReportedLate(CallStep, frozen=True):
    """A guest told what happened to it, after its lease had ended."""

    outcome: Literal["finished", "failed"]
    output: Json


AnyStep: TypeAlias = (
    Moved
    | Validated
    | RulesHeard
    | Asked
    | Escalated
    | Required
    | Voted
    | VoteWithdrawn
    | Decided
    | Revoked
    | Ended
    | ReportedLate
)

NoteKind: TypeAlias = Literal[
    "forked",
    "input",
    "refused",
    "lost",
    "unusable",
    "settled",
    "grant",
    "grant_over",
    "handoff",
    "rewritten",
    "cancel",
    "resume",
    "own_history",
    "stopped",
    "tripped",
    "closed",
]


class Note(msgspec.Struct, frozen=True):
    """Something that happened to a run as a whole."""

    kind: NoteKind
    path: str
    at: float
    line: int
    text: str = ""
    """What it is about: an origin, a message, an agent, a grant's id, what went wrong."""
    by: str | None = None
    reason: str | None = None
    grant: e.GrantMade | None = None


# -- the tree ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class RequestStory:
    """One question to a person, and what happened to it."""

    asked: Asked
    decision: e.DecisionMade | None = None
    moments: list[Escalated | Revoked] = field(default_factory=list)
    requirement: Requirement | None = None
    votes: list[e.VoteCast] = field(default_factory=list)
    """Those that were not taken back, in the order in which they were cast."""
    asked_in: str | None = None
    """The run in which it was asked, where that is one that this run was forked from."""


@dataclass(slots=True, eq=False)
class CallStory:
    id: str
    name: str = ""
    label: str = ""
    """What the provider called it."""
    arguments: str = ""
    """As the model wrote them, or as validation changed them."""
    at: float = 0.0
    line: int = 0
    steps: list[AnyStep] = field(default_factory=list)
    decisions: list[e.DecisionMade] = field(default_factory=list)
    digest: str | None = None
    """What was last asked or decided about."""
    edited: JsonObject | None = None
    """What a reviewer made of the arguments, if a person did."""
    questions: int = 0
    request: RequestStory | None = None
    """The request whose answer nothing has followed yet: it waits, or its decision does."""
    ran_under: e.DecisionMade | None = None
    """The decision under which the call last began."""
    is_handoff: bool = False
    attempts: int = 0
    started_in: str | None = None
    """As `RequestStory.asked_in`."""
    began_at: float | None = None
    """When it last began; None while it has not."""
    outcome: e.Outcome | None = None
    output: Json = None
    ended_at: float | None = None
    child: RunStory | None = None
    rules: e.PolicyJudged | None = None
    """What a policy last said about it."""

    @property
    def runs_with(self) -> str:
        """The arguments that run, or ran: what the agent asked for, or what an edit made of it."""
        return self.arguments if self.edited is None else encode(self.edited).decode()

    @property
    def waits(self) -> bool:
        """Whether a person is asked something about it."""
        return self.request is not None and self.request.decision is None

    def take(self, step: AnyStep) -> RequestStory | None:
        """Returns the request that is over with this step, if one is."""
        self.steps.append(step)
        before = self.request
        match step:
            case Validated():
                self.arguments = encode(step.values).decode()
            case Asked():
                self.name = self.name or name_of(step.tool)
                self.questions, self.digest, self.request = step.number, step.digest, RequestStory(step)
            case Required() | Voted() | VoteWithdrawn():
                self._vote(step)
            case Decided():
                self._decide(step.decision)
            case Revoked() | Escalated():
                self._stir(step)
            case Moved():
                self._move(step)
            case Ended():
                self.outcome, self.output, self.ended_at, self.request = step.outcome, step.output, step.at, None
            case ReportedLate():
                pass
            case RulesHeard():
                self.rules = step.fact
            case never:
                assert_never(never)
        return before if before is not self.request else None

    def _vote(self, step: Required | Voted | VoteWithdrawn) -> None:
        if isinstance(step, Required):
            self.edited = step.arguments
        request = self.request
        if request is None:
            return
        match step:
            case Required():
                request.requirement, request.votes = step.requirement, list(step.votes)
            case Voted():
                request.votes.append(step.vote)
            case VoteWithdrawn():
                request.votes = [vote for vote in request.votes if vote.by != step.by]

    def _decide(self, decision: e.DecisionMade) -> None:
        self.decisions.append(decision)
        self.digest = decision.digest
        if decision.verdict == "edit":
            self.edited = decision.arguments
        if self.request is not None:
            self.request.decision = decision

    def _stir(self, step: Revoked | Escalated) -> None:
        if self.request is not None:
            self.request.moments.append(step)
        if isinstance(step, Revoked):
            self.edited = None
            if self.request is not None:
                self.request.decision = None

    def _move(self, step: Moved) -> None:
        if step.to == "deferred":
            self.is_handoff = True
        elif step.to == "started":
            self.attempts += 1
            self.started_in, self.began_at = None, step.at
            if self.request is not None:
                self.ran_under, self.request = self.request.decision, None


@dataclass(slots=True, eq=False)
class TurnStory:
    number: int
    asked_at: float
    at: float
    line: int
    text: str
    calls: dict[str, CallStory]


@dataclass(slots=True, eq=False)
class RunStory:
    """A run or a nested one."""

    path: str = ROOT
    agent: str = ""
    """The agent that began."""
    at_work: str = ""
    """The agent that a handoff led to, or the first one."""
    came_from: str = ""
    """Who handed over to the agent at work."""
    input: str = ""
    by: str | None = None
    conversation: str | None = None
    guest: e.GuestAdmitted | None = None
    """Whose session it is, if another person executes its calls."""
    began: float = 0.0
    latest: float = 0.0
    ended_at: float | None = None
    was_cancelled: bool = False
    is_erased: bool = False
    output: Json = None
    requests: int = 0
    """How often the model was asked."""
    requested_in: str | None = None
    """As `RequestStory.asked_in`, for the last request to the model."""
    asked_at: float | None = None
    """A request to the model that has no answer yet."""
    turn: int = 0
    turns: list[TurnStory] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        return self.ended_at is not None or self.is_erased  # only runs that have ended are erased

    def calls(self) -> Iterator[CallStory]:
        return (call for turn in self.turns for call in turn.calls.values())

    def find(self, local: str) -> CallStory | None:
        """A call of this run, or of one nested in it."""
        for call in self.calls():
            if call.id == local:
                return call
            if call.child is not None and local.startswith(f"{call.id}/"):
                return call.child.find(local)
        return None
