"""The facts: everything that can be written into a run's log, in the past tense, one small class each.

Those about what people decide stand in `decision_events.py`, those of the operators' log in `operator_events.py`, how a
guest's session begins, goes on and ends in `guest_events.py`; all are imported from here.

A fact is a JSON array whose first element names its kind (the `tag`). Fields are only ever added at the end, with a
default: then old logs load in new code, and a kind or a field keeps its meaning forever. What can be derived is not a
fact.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from placet.facts.budgets import BudgetGivenBack, BudgetTaken
from placet.facts.codec import Json, JsonObject
from placet.facts.decision_events import (
    AnyGrant,
    ApproversRequired,
    Author,
    BoundedGrantMade,
    ClaimDelayed,
    DecisionMade,
    DecisionRevoked,
    DelayOver,
    GrantMade,
    GrantRevoked,
    VoteCast,
    VoteTakenBack,
)
from placet.facts.fact import FORMAT, Fact, InputTokensDetails, OutputTokensDetails, RequestUsage, Usage, Verdict
from placet.facts.guest_events import CallsProposed, GuestAdmitted, ProposedCall, SessionClosed
from placet.facts.operator_events import (
    ApproversSet,
    ChatLinkChanged,
    DelegationEnded,
    DelegationMade,
    DeletedRun,
    FourEyesSet,
    GlassReviewed,
    HoldKind,
    HoldLifted,
    HoldPlaced,
    IdentityTied,
    InvitationChanged,
    PasskeyChanged,
    PasswordChanged,
    Pattern,
    PolicyChanged,
    ReportedAfterEnd,
    RotationSet,
    RunErased,
    RunsDeleted,
    StandingGrantMade,
    SubscriptionChange,
    SubscriptionChanged,
    TokenChanged,
    UserChanged,
)
from placet.facts.voting_settings import RungKind

__all__ = [  # what stands in other files and is imported from here
    "FORMAT",
    "AnyGrant",
    "ApproversRequired",
    "ApproversSet",
    "Author",
    "BoundedGrantMade",
    "BudgetGivenBack",
    "BudgetTaken",
    "CallsProposed",
    "ChatLinkChanged",
    "ClaimDelayed",
    "DecisionMade",
    "DecisionRevoked",
    "DelayOver",
    "DelegationEnded",
    "DelegationMade",
    "DeletedRun",
    "Fact",
    "FourEyesSet",
    "GlassReviewed",
    "GrantMade",
    "GrantRevoked",
    "GuestAdmitted",
    "HoldKind",
    "HoldLifted",
    "HoldPlaced",
    "IdentityTied",
    "InputTokensDetails",
    "InvitationChanged",
    "OutputTokensDetails",
    "PasskeyChanged",
    "PasswordChanged",
    "Pattern",
    "PolicyChanged",
    "ProposedCall",
    "ReportedAfterEnd",
    "RequestUsage",
    "RotationSet",
    "RunErased",
    "RunsDeleted",
    "SessionClosed",
    "StandingGrantMade",
    "SubscriptionChange",
    "SubscriptionChanged",
    "TokenChanged",
    "Usage",
    "UserChanged",
    "Verdict",
    "VoteCast",
    "VoteTakenBack",
]

Delivery: TypeAlias = Literal["own", "chained", "auto", "conversation"]
"""Who keeps the history: we do; the server, from a given response on; the server, from our first; a server
conversation."""

Outcome: TypeAlias = Literal[
    "finished",  # the tool function ran and returned
    "failed",  # the tool function ran and raised, or an in-doubt call was given up
    "rejected",  # a person or a grant said no; the tool function never ran
    "answered",  # a person answered in the tool's place
    "denied",  # it could not run: no such tool, malformed arguments, a rule
    "expired",  # it was not decided in time
    "superseded",  # a newer message took the place of the question
    "cancelled",  # the run was cancelled
    "released",  # a guest that cannot report was let go ahead: what happened to it is unknown here
]


class RunStarted(Fact, frozen=True, tag="start"):
    agent: str
    """The address of the agent: its name (or key), with the tools and handoffs that lead to it."""
    input: str | list[JsonObject]
    max_turns: int | None
    delivery: Delivery = "own"
    server_id: str | None = None
    """The previous response, or the conversation, that the run began from."""
    session: str | None = None
    session_length: int = 0
    """How many items of the input came out of the session."""
    context: JsonObject | None = None
    """The user's context, where it is a mapping and the run is to be driven by any process."""
    by: str | None = None
    """Who started the run."""
    session_total: int = 0
    """How many items the session held when the run began: more than were read, if some were of no use."""
    session_place: str | None = None
    """Where the session is kept, as it says; None in logs of a time when only its id was written down."""


class RunForked(Fact, frozen=True, tag="fork"):
    """What stands before this was copied from another run. Calls that were started there stay started here."""

    origin: str


class TurnLimitSet(Fact, frozen=True, tag="turns"):
    max_turns: int | None


class InputAdded(Fact, frozen=True, tag="input"):
    """Items that came while the run was on its way. They stand behind the outputs of the open turn."""

    items: list[JsonObject]
    id: str = ""
    """The same addition, brought by two copies of a state, counts once."""


class RequestSent(Fact, frozen=True, tag="ask"):
    """The model is about to be asked. The request carries all that was unsent at this place of the log."""

    after: str | None = None
    """In a conversation: the id of its newest item at this moment; empty: it has none; None: it was not read."""


class RequestRefused(Fact, frozen=True, tag="refused"):
    """The provider certainly did not take the request."""

    why: str


class RequestLost(Fact, frozen=True, tag="lost"):
    """It is unknown whether the provider took the request."""

    why: str


class RequestSettled(Fact, frozen=True, tag="settled"):
    """It is known now whether a lost request was taken: from the conversation itself, or because a person said so."""

    taken: bool
    by: str | None = None


class ResponseReceived(Fact, frozen=True, tag="answer"):
    """The model's answer, and thereby the acknowledgement of all that the request carried."""

    response_id: str | None
    output: list[JsonObject]
    usage: Usage
    request_id: str | None = None


class ResponseUnusable(Fact, frozen=True, tag="nonsense"):
    """The model answered, and no run can continue with it."""

    response_id: str | None
    why: str
    usage: Usage | None = None
    """What it cost all the same."""
    request_id: str | None = None


class ArgumentsValidated(Fact, frozen=True, tag="values"):
    """Validation filled in or changed something in the arguments of a call: from here on these count, for rules, cards,
    digests and the tool's function alike. The history keeps what the model wrote.

    A fact of its own, because it restricts: code that does not know it cannot continue with the run.
    """

    call: str
    values: JsonObject


class LateReport(Fact, frozen=True, tag="late"):
    """A guest told what happened to a call after its lease had ended. Evidence: what follows from it is a fact of its
    own."""

    call: str
    permit: str
    outcome: Literal["finished", "failed"]
    output: Json


class RuleHeard(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A rule of a policy that matched a call, or that could not be judged."""

    name: str
    line: int
    """Where it stands in its file."""
    verdict: Literal["allow", "ask", "deny"]
    mode: Literal["enforce", "warn", "shadow"] = "enforce"
    """Only what is enforced counts. Of the others it is kept what they would have said."""
    why: str | None = None
    """Why it asks although it says otherwise: it could not be judged, or its budget does not cover the call."""


class PolicyJudged(Fact, frozen=True, tag="policy"):
    """Rules of a policy spoke about a call: when it was proposed, or when it was about to begin. What follows from it
    (the call may run, waits, or is denied) is a fact of its own."""

    call: str
    version: str
    """The digest of the policy."""
    verdict: Literal["allow", "ask", "deny", "none"]
    """What those say together that count. `none`: only others spoke."""
    rules: list[RuleHeard]
    lifted: bool = False
    """A rule lifted what the tool itself asks: without that rule a person has to be asked."""


class CallsAllowed(Fact, frozen=True, tag="allow"):
    calls: list[str]


class CallsDeferred(Fact, frozen=True, tag="defer"):
    """These calls are handoffs: they take place when all other calls of the turn have ended."""

    calls: list[str]


class CallHeld(Fact, frozen=True, tag="hold"):
    """A call waits for a person. The digest says what exactly the person is asked about."""

    call: str
    digest: str
    tool: str
    """The tool's identity: `function:refund`, `mcp:files:delete`, …"""
    fingerprint: str
    """A digest of the tool's parameters' schema and declared version, as they were when the person was asked."""
    why: str | None = None
    """Why a person is asked although no rule said so: a predicate that failed, a tool that changed, …"""
    expires_at: float | None = None
    """When the question ends by itself, if it is not answered."""
    at_expiry: Literal["reject", "escalate"] | None = None
    summary: str | None = None
    """What would happen, in one sentence of the tool's own (`describe`). It decides nothing: the arguments do."""
    irreversible: bool = False
    """The tool says that nobody can undo its effect: pages put more care before a yes."""
    undo_window: float | None = None
    """How many seconds the inbox leaves between a yes and the call, as the tool says; None: what the inbox does."""
    rules: list[RuleHeard] | None = None
    """The rules of the policy that spoke about it then, those in shadow too. Lists show them beside the decision."""


class CallInDoubt(Fact, frozen=True, tag="doubt"):
    """A call was claimed and it is unknown whether it happened. A person is asked."""

    call: str
    digest: str
    tool: str
    fingerprint: str
    why: str | None = None


class InputAsked(Fact, frozen=True, tag="elicit"):
    """The tool function of a call asked for a person's input and ended for now. It is begun again with the answers."""

    call: str
    digest: str
    tool: str
    fingerprint: str
    questions: dict[str, JsonObject]
    """By key: a form (`message`, `requestedSchema`) or a page to go to (`message`, `url`)."""
    state: str | None = None
    """What the tool function wants back with the answers, as it gave it: only the tool function understands it."""
    expires_at: float | None = None
    at_expiry: Literal["reject", "escalate"] | None = None


class CallsStarted(Fact, frozen=True, tag="run"):
    """The claim: written before the effects."""

    calls: list[str]
    permit: str | None = None
    """Of a guest's call: the id of the permit under which the guest executes it. Its token is not recorded."""


class CallEnded(Fact, frozen=True, tag="end"):
    call: str
    outcome: Outcome
    output: Json
    """What the model reads: a text, or a list of content parts."""


class TurnJudged(Fact, frozen=True, tag="judged"):
    """A function looked at the outputs of the turn and said: go on. It is not asked twice."""


class GuardrailRecord(msgspec.Struct, frozen=True, array_like=True):
    name: str
    tripped: bool
    info: Json = None


class GuardrailsJudged(Fact, frozen=True, tag="guard"):
    """Rules in code have looked at something, and this is what they said."""

    kind: Literal["input", "output", "tool_input", "tool_output"]
    results: list[GuardrailRecord]
    call: str | None = None


class SessionWriting(Fact, frozen=True, tag="saving"):
    """The items of the history up to here are about to be written into the session."""

    end: int


class SessionWritten(Fact, frozen=True, tag="saved"):
    """They are in the session."""

    end: int
    left_out: int = 0
    """How many of them it could not keep."""


class AgentChanged(Fact, frozen=True, tag="agent"):
    """A handoff took place: the turn's calls have ended, and another agent goes on."""

    agent: str


class HistoryRewritten(Fact, frozen=True, tag="rewrite"):
    """A handoff's filter changed what the next agent reads."""

    items: list[JsonObject]
    input_length: int = 0
    """How many of them are what the run began with."""


class RunStopped(Fact, frozen=True, tag="stop"):
    """An error ended the drive, not the run: it can be resumed."""

    code: str
    message: str


class CancelAsked(Fact, frozen=True, tag="cancel"):
    """A person wants the run to end. Its driver ends what is open and then the run."""

    by: str | None
    at: float
    reason: str | None = None


class ResumeAsked(Fact, frozen=True, tag="resume"):
    """A person wants a run that an error stopped to be continued."""

    by: str | None
    at: float


class OwnHistoryChosen(Fact, frozen=True, tag="own"):
    """From here on the run sends its own history: what the server kept of it is gone, or is not to be used any more.

    A fact of its own, because it changes what requests carry: code that does not know it cannot continue with the run.
    """

    by: str | None
    at: float


class RunCancelled(Fact, frozen=True, tag="cancelled"):
    """The end of a run that a person cancelled."""


class ContextSaved(Fact, frozen=True, tag="context"):
    """The user's context as it stood, for the next drive."""

    value: JsonObject


class QuestionEscalated(Fact, frozen=True, tag="escalate"):
    """There was no answer in time, and the question goes to others: it waits on, without a deadline."""

    call: str


class LadderSet(Fact, frozen=True, tag="ladder"):
    """Who is told when the question that was just asked about a call waits too long. It changes nothing about who may
    decide."""

    call: str
    rungs: list[DueRung]
    """In the order of their times."""


class DueRung(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: RungKind
    at: float
    to: str | None = None
    """Of `on_call` the rotation, of `escalate` the group."""


class RungClimbed(Fact, frozen=True, tag="rung"):
    """A question has waited so long, and people are told."""

    call: str
    place: int
    """Which rung of the ladder, from 0 on."""
    kind: RungKind
    to: str | None = None


class RunEnded(Fact, frozen=True, tag="final"):
    output: Json


class Erased(Fact, frozen=True, tag="erased"):
    """Stands in a log where a fact was erased."""

    digest: str
    """The salted digest by which the fact is in the chain. The salt is gone: what was there cannot be guessed."""
    kind: str
    """Which kind of fact it was. A hint for readers: the chain does not cover it."""


class InChild(Fact, frozen=True, tag="in"):
    """A fact of a nested run. A child's log is the facts under its path, in order."""

    path: str
    fact: PlainFact


PlainFact: TypeAlias = (
    RunStarted
    | RunForked
    | TurnLimitSet
    | InputAdded
    | RequestSent
    | RequestRefused
    | RequestLost
    | RequestSettled
    | ResponseReceived
    | ResponseUnusable
    | ArgumentsValidated
    | GuestAdmitted
    | CallsProposed
    | SessionClosed
    | LateReport
    | PolicyJudged
    | CallsAllowed
    | CallsDeferred
    | CallHeld
    | CallInDoubt
    | InputAsked
    | CallsStarted
    | CallEnded
    | DecisionMade
    | ApproversRequired
    | VoteCast
    | VoteTakenBack
    | ClaimDelayed
    | DelayOver
    | DecisionRevoked
    | GrantMade
    | BoundedGrantMade
    | GrantRevoked
    | BudgetTaken
    | TurnJudged
    | GuardrailsJudged
    | SessionWriting
    | SessionWritten
    | AgentChanged
    | HistoryRewritten
    | RunStopped
    | CancelAsked
    | ResumeAsked
    | OwnHistoryChosen
    | RunCancelled
    | ContextSaved
    | QuestionEscalated
    | LadderSet
    | RungClimbed
    | RunEnded
    | HoldPlaced
    | HoldLifted
    | StandingGrantMade
    | RunErased
    | RunsDeleted
    | UserChanged
    | PasswordChanged
    | InvitationChanged
    | TokenChanged
    | PasskeyChanged
    | IdentityTied
    | FourEyesSet
    | PolicyChanged
    | ReportedAfterEnd
    | SubscriptionChanged
    | ChatLinkChanged
    | BudgetGivenBack
    | ApproversSet
    | DelegationMade
    | DelegationEnded
    | RotationSet
    | GlassReviewed
    | Erased
)
AnyFact: TypeAlias = PlainFact | InChild


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one append writes, whole or not at all: the time, and the facts."""

    at: float
    facts: list[AnyFact]
