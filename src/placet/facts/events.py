"""The facts: everything that can be written into a run's log, in the past tense, one small class each.

A fact is a JSON array whose first element names its kind (the `tag`). Fields are only ever added at the end, with a
default: then old logs load in new code, and a kind or a field keeps its meaning forever. What can be derived is not a
fact.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from placet.facts.codec import Json, JsonObject
from placet.facts.requirements import Assurance, Requirement

FORMAT = 1
"""The version of the log's format. It changes when old code could no longer read new logs."""

Delivery: TypeAlias = Literal["own", "chained", "auto", "conversation"]
"""Who keeps the history: we do; the server, from a given response on; the server, from our first; a server
conversation."""

Verdict: TypeAlias = Literal["approve", "reject", "edit", "respond"]

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


class RequestUsage(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one request."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens_details: OutputTokensDetails


class InputTokensDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: int = 0


class Usage(msgspec.Struct, array_like=True, dict=True):
    """Tokens and requests, summed over a run."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def input_tokens_details(self) -> InputTokensDetails:
        return InputTokensDetails(self.cached_tokens, self.cache_write_tokens)

    @property
    def output_tokens_details(self) -> OutputTokensDetails:
        return OutputTokensDetails(self.reasoning_tokens)

    @property
    def request_usage_entries(self) -> list[RequestUsage]:
        """The requests that these figures are the sum of, as far as this process saw them: they stand beside the
        figures, and are not written into a log, which has each response's own."""
        found: list[Usage] = self.__dict__.get("parts") or ([self] if self.requests == 1 else [])
        return [
            RequestUsage(
                each.input_tokens,
                each.output_tokens,
                each.total_tokens,
                each.input_tokens_details,
                each.output_tokens_details,
            )
            for each in found
        ]

    def add(self, other: Usage) -> None:
        own, theirs = self.__dict__, other.__dict__  # no call here: a log of a thousand answers adds a thousand times
        more: list[Usage] = [other] if other.requests == 1 else []
        if "parts" in theirs:  # and never an empty list
            more = theirs["parts"]
        if more:
            if "parts" not in own:
                own["parts"] = []
            own["parts"] += more
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.total_tokens += other.total_tokens
        if other.cached_tokens or other.reasoning_tokens or other.cache_write_tokens:  # most answers have none
            self.cached_tokens += other.cached_tokens
            self.reasoning_tokens += other.reasoning_tokens
            self.cache_write_tokens += other.cache_write_tokens

    def copy(self) -> Usage:
        found = msgspec.structs.replace(self)
        if "parts" in self.__dict__:
            found.__dict__["parts"] = list(self.__dict__["parts"])
        return found

    def become(self, other: Usage) -> None:
        """Take over the other's figures."""
        self.__dict__.pop("parts", None)
        self.requests = self.input_tokens = self.output_tokens = 0
        self.total_tokens = self.cached_tokens = self.reasoning_tokens = self.cache_write_tokens = 0
        self.add(other)


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The base of all facts. They hold no cycles, so the garbage collector need not look at them."""


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


class GuestAdmitted(Fact, frozen=True, tag="guest"):
    """The run is a session of a guest, who proposes calls and executes them itself. No model is ever asked.

    A fact of its own, because it restricts: code that does not know it cannot continue with the run.
    """

    guest: str
    source: str
    """Through what the guest comes: a framework, an assistant's hook, a function."""
    session: str
    """What the guest calls the session."""
    reports: bool = True
    """Whether it can tell what happened to a call. Otherwise a claimed call ends at once, as released."""
    edits: bool = True
    """Whether it can run a call with other arguments than it proposed."""
    answers: bool = True
    """Whether it can take an answer in the place of a call's result."""
    idle_seconds: float | None = None
    """After how long without anything new the session ends by itself."""
    before: str | None = None
    """The run that this one goes on from."""


class ProposedCall(msgspec.Struct, frozen=True, array_like=True):
    """A call that a guest wants to execute, with its tool as the guest declares it."""

    item: JsonObject
    occurrence: int
    """Which call of this call id it is: hosts may repeat their ids."""
    digest: str
    """What the guest asks about: the tool as declared, and the validated arguments."""
    tool: str
    fingerprint: str
    schema: JsonObject
    description: str = ""
    version: str | None = None
    approval_valid_for: float | None = None
    recovery: Literal["ask", "retry", "function"] = "ask"
    """What becomes of it if its guest is gone: a person is asked, or first the guest itself, when it is back."""
    context: str | None = None
    """What led to the call, for the reviewer."""


class CallsProposed(Fact, frozen=True, tag="propose"):
    """A guest wants to execute these calls. They join those of the session that are still open."""

    calls: list[ProposedCall]


class SessionClosed(Fact, frozen=True, tag="close"):
    """The session takes no more proposals here. The run ends when its last call has ended."""

    why: Literal["closed", "idle", "size"]
    next: str | None = None
    """The run in which the session goes on."""


class LateReport(Fact, frozen=True, tag="late"):
    """A guest told what happened to a call after its lease had ended. Evidence: what follows from it is a fact of its
    own."""

    call: str
    permit: str
    outcome: Literal["finished", "failed"]
    output: Json


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


class ApproversRequired(Fact, frozen=True, tag="needs"):
    """What the question that was just asked about a call needs before it is decided. It holds for later questions about
    the call, too, until another one of these stands behind them.

    A fact of its own, because it restricts: code that does not know it cannot continue with the run.
    """

    call: str
    requirement: Requirement
    votes: list[VoteCast] = []
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
    grant: GrantMade | None = None
    """The standing decision that is part of what is voted on. It is made if all votes that count carry the same."""
    breaks_glass: bool = False
    """One person goes ahead alone, where the requirement allows it."""


class VoteTakenBack(Fact, frozen=True, tag="unvote"):
    call: str
    request: int
    by: str | None
    at: float
    reason: str | None = None


class DecisionRevoked(Fact, frozen=True, tag="revoke"):
    call: str
    by: str | None
    at: float
    reason: str | None = None


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


class RunEnded(Fact, frozen=True, tag="final"):
    output: Json


HoldKind: TypeAlias = Literal["run", "agent", "tool"]


class HoldPlaced(Fact, frozen=True, tag="held"):
    """Of the operators' log: nothing that this covers starts from now on, approved or not."""

    kind: HoldKind
    name: str
    by: str | None
    at: float
    reason: str | None = None


class HoldLifted(Fact, frozen=True, tag="lifted"):
    """Of the operators' log: what this covered may start again."""

    kind: HoldKind
    name: str
    by: str | None
    at: float
    reason: str | None = None


class StandingGrantMade(Fact, frozen=True, tag="standing"):
    """Of the operators' log: a decision in some run reaches beyond it."""

    run: str
    """Empty: it was made at a desk, and not in a run."""
    grant: GrantMade


class RunErased(Fact, frozen=True, tag="forgotten"):
    """Of the operators' log: what the facts of a run that had ended said was taken out of the store for good."""

    run: str
    by: str | None
    at: float
    reason: str | None
    length: int
    head: str
    """Where the run's log stood, and stands: its chain is the same without what was erased."""


class DeletedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that is gone, and where its log stood."""

    run: str
    length: int
    head: str


class RunsDeleted(Fact, frozen=True, tag="deleted"):
    """Of the operators' log: these runs were taken out of the store, logs and all. What stays of each is its place."""

    runs: list[DeletedRun]
    by: str | None
    at: float
    reason: str | None = None
    ended_before: float | None = None
    """Of a purge: it took all that had ended before this time."""


Pattern: TypeAlias = tuple[str, str]
"""Which calls are meant: patterns with `*` and `?` for the agent's path and the tool's name."""


class UserChanged(Fact, frozen=True, tag="user"):
    """Of the operators' log: who may use the desk, and what they may decide, as it is from now on."""

    name: str
    change: Literal["added", "changed", "removed"]
    by: str | None
    at: float
    role: str
    decides: list[Pattern]
    is_active: bool = True
    groups: list[str] = []


class PasswordChanged(Fact, frozen=True, tag="password"):
    """Of the operators' log: a user has a new password. Nothing of it is recorded."""

    name: str
    by: str | None
    at: float
    invitation: str | None = None
    """The link that was followed, if one was."""


class InvitationChanged(Fact, frozen=True, tag="invitation"):
    """Of the operators' log: a link that sets a password was made, followed or revoked. Its key is not recorded."""

    id: str
    change: Literal["made", "used", "revoked"]
    name: str | None
    """Whom it is for; None: the first admin, who chooses a name."""
    role: str
    by: str | None
    at: float
    expires_at: float | None = None


class TokenChanged(Fact, frozen=True, tag="token"):
    """Of the operators' log: a program's key was made or revoked. Its text is not recorded."""

    id: str
    change: Literal["made", "revoked"]
    owner: str
    name: str
    role: str
    decides: list[Pattern]
    by: str | None
    at: float
    expires_at: float | None = None


class FourEyesSet(Fact, frozen=True, tag="four_eyes"):
    """Of the operators' log: from now on the person who started a run may not say yes to its calls where these fit."""

    patterns: list[Pattern]
    """Empty: nowhere."""
    by: str | None
    at: float
    reason: str | None = None


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
    | DecisionRevoked
    | GrantMade
    | GrantRevoked
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
    | FourEyesSet
    | Erased
)
AnyFact: TypeAlias = PlainFact | InChild


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one append writes, whole or not at all: the time, and the facts."""

    at: float
    facts: list[AnyFact]
