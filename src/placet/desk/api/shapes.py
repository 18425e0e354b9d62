"""What the API takes and gives, as types: the description of the API is made from them."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta

from placet.core.index import RequestKind, RequestRecord, RequestStatus, RunStatus
from placet.desk.web.deciding import Decision, as_datetime
from placet.desk.web.problems import FieldProblem, Winner
from placet.facts.codec import Json, JsonObject
from placet.facts.events import Verdict
from placet.facts.requirements import Assurance
from placet.facts.voting_settings import RungKind
from placet.service.budget_figures import Left

MAX_AT_ONCE = 200
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=200, description="How many to give at most.")]
Cursor: TypeAlias = Annotated[str, Meta(max_length=64, description="The `next` of the page before.")]
KeyCursor: TypeAlias = Annotated[str, Meta(max_length=3000, description="The `next` of the page before.")]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\u0000]+$")]
Note: TypeAlias = Annotated[str, Meta(max_length=10_000, pattern=r"^[^\u0000]*$")]
Timestamp: TypeAlias = Annotated[datetime, Meta(tz=True)]


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what is sent: a name that is not known is refused, not ignored."""


class ListFilter(Given, frozen=True, kw_only=True):
    cursor: KeyCursor | None = None
    limit: Limit = 200


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The base of what is given."""

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """A record as the API gives it: the shape's fields, as the record has them under the same names, times as
        times of the wire. `more` are those that it has not, or has otherwise."""
        found = {name: _on_wire(record, name, is_time) for name, is_time in _fields(cls) if name not in more}
        return cls(**found, **more)


@functools.cache
def _fields(shape: type[Shown]) -> tuple[tuple[str, bool], ...]:
    """The fields of a shape, and which are times."""
    return tuple((field.name, field.type in (datetime, datetime | None)) for field in msgspec.structs.fields(shape))


def _on_wire(record: object, name: str, is_time: bool) -> Any:  # Any: what the record holds
    value = getattr(record, name)
    return as_datetime(value) if is_time and value is not None else value


class Nothing(Given, frozen=True, kw_only=True):
    """An operation without parameters."""


class ProblemShape(Shown, frozen=True, kw_only=True, rename={"kind": "type"}, omit_defaults=True):
    """An error (RFC 9457). `code` is stable; `detail` is for people."""

    kind: str
    title: str
    status: int
    code: str
    detail: str
    instance: str
    errors: list[FieldProblem] | None = None
    """What is wrong with which field of what was sent."""
    winner: Winner | None = None
    """With a conflict: the decision that stands."""
    output: Json = None
    """Of a guest's call that somebody answered: the answer."""


# -- runs -------------------------------------------------------------------------------------------------------------


class CancelShape(Shown, frozen=True, kw_only=True):
    """A person's wish that a run end."""

    by: str | None
    at: datetime
    reason: str | None


class RunShape(Shown, frozen=True, kw_only=True):
    """A run: one conversation of an agent, from its input to its final output."""

    id: str
    agent: str
    status: RunStatus
    final_output: Json
    created_at: datetime
    updated_at: datetime
    turn: int
    started_by: str | None
    stopped: str | None
    """What stopped the last drive, if an error did: the run can be resumed."""
    is_parked: bool
    held: str | None
    """What an operator holds back of it, in words: it goes on when the hold is lifted."""
    cancelled: CancelShape | None
    """Who cancelled it, if a person did. Until it has `ended`, a process drives it: it ends when the calls
    that run have ended."""
    erased_at: datetime | None
    """When what it said was erased."""


class Resuming(Given, frozen=True, kw_only=True):
    own_history: bool = False
    """What the model's server kept of the run is not used any more: the run sends its own history. For a run that
    stopped with `server_history_not_found`."""


class RunPage(Shown, frozen=True, kw_only=True):
    data: list[RunShape]
    next: str | None


class RunFilter(Given, frozen=True, kw_only=True):
    status: RunStatus | None = None
    agent: str | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class NewRun(Given, frozen=True, kw_only=True):
    """A run to be started; the user is recorded as the one who started it."""

    agent: Name
    input: str | list[JsonObject]
    """A text, or items in the shape of the Responses API."""
    context: JsonObject | None = None
    max_turns: Annotated[int, Meta(ge=1, le=10_000)] | None = 10


class Why(Given, frozen=True, kw_only=True):
    reason: Note | None = None


class LogFilter(Given, frozen=True, kw_only=True):
    after: Annotated[int, Meta(ge=-1, le=2**31, description="The position of the last line that you have.")] = -1
    limit: Limit = 100


class LogLine(Shown, frozen=True, kw_only=True):
    """One append to a run's log."""

    position: int
    at: datetime
    facts: list[LogFact]


class LogFact(Shown, frozen=True, kw_only=True):
    kind: str
    path: str
    """The nested run that it belongs to; empty for the outermost."""
    data: JsonObject


class LogPage(Shown, frozen=True, kw_only=True):
    data: list[LogLine]
    next: int | None
    """What to give as `after` for more; null at the end of the log."""


# -- approvals --------------------------------------------------------------------------------------------------------


class VoteShape(Shown, frozen=True, kw_only=True):
    """What one person wants, where several have to approve."""

    by: str | None
    decision: Verdict
    at: datetime
    reason: str | None
    via: str | None
    assurance: Assurance
    """How sure it is that it was this person."""
    on_behalf_of: str | None
    """Whose vote it is, where a delegate cast it."""
    breaks_glass: bool
    """They went ahead alone."""


class ApprovalShape(Shown, frozen=True, kw_only=True):
    """A question to a person about one call."""

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        if isinstance(record, RequestRecord) and "votes" not in more:
            more["votes"] = [VoteShape.of(vote, decision=vote.verdict) for vote in record.votes]
        return super().of(record, **more)

    id: str
    run_id: str
    agent: str
    tool: str
    kind: RequestKind
    """`in_doubt`: it was begun and it is unknown whether it happened. Then approve means: run it again; respond: it
    happened, here is the result; reject: give up. `elicitation`: it runs and asks for input, which respond gives and
    reject declines."""
    arguments: JsonObject | str
    """The exact arguments, as they would run; the text itself where they are not one JSON object."""
    proposed_arguments: JsonObject | str | None
    """What the model wrote, where validation filled in or changed something; else null."""
    digest: str
    """Of what is asked about: give it back with a decision."""
    status: RequestStatus
    created_at: datetime
    expires_at: datetime | None
    why: str | None
    decided_by: str | None
    decided_at: datetime | None
    reason: str | None
    escalated_at: datetime | None
    """When there was no answer in time, and the question went to others."""
    questions: dict[str, JsonObject] | None
    """Of an elicitation: what the call asks, by key."""
    grant: str | None
    """The standing decision that decided, where no person looked at this call: `decided_by` made that one."""
    decided_via: str | None
    """Through which door the decision came: `session`, `token`, `open`; null: from a program."""
    assurance: Assurance
    """How sure it is that it was the person in `decided_by`; where several decided, of the least sure one."""
    needs: str | None
    """Who has to approve, in one line; null: one word of anybody who may decide."""
    votes: list[VoteShape]
    """What people want so far, the newest of each."""


class DecisionShape(Shown, frozen=True, kw_only=True):
    """What a person decided, whole."""

    decision: Verdict
    by: str | None
    at: datetime
    reason: str | None
    message: str | None
    """With reject: what the model reads."""
    arguments: JsonObject | None
    """With edit: what runs in place of the `arguments` that were asked about."""
    output: Json
    """With respond: what the model reads in the tool's place."""
    grant: str | None
    """The standing decision that decided, if one did."""
    via: str | None
    assurance: Assurance


class LadderStepShape(Shown, frozen=True, kw_only=True):
    """A step of the ladder of a question that waits."""

    kind: RungKind
    at: datetime
    to: str | None
    """Of `on_call` the rotation, of `escalate` the group."""
    was_told: bool


class ApprovalDetail(ApprovalShape, frozen=True, kw_only=True):
    """The same, with what a person needs to decide."""

    parameters: JsonObject | None
    """The JSON schema of the tool's parameters; null where this desk does not have the agent's code."""
    description: str | None
    you_may_not: str | None
    """Why the user may not say yes to it; null when they may."""
    decision: DecisionShape | None
    """What was decided, where something was."""
    standing: str | None
    """Where several have to approve: what is there and what is missing, in one line."""
    missing: int | None
    """How many approvals are missing at least; null where no votes are needed, or it is decided."""
    your_vote: str | None
    """What the user's yes would do: «completes it», or how many it leaves missing; «is counted» where they have said
    yes; null where it cannot count."""
    votes_for: dict[str, str]
    """For whom else the user could vote (`on_behalf_of`), and what that would do."""
    may_break_glass: bool
    """Whether the user could go ahead alone (`break_glass`), with a reason."""
    is_stuck: bool
    """Too few people are left who could approve it: put people into the groups, or reject it."""
    ladder: list[LadderStepShape]
    """Who is told when it waits too long, and who was."""
    asked_under: str | None
    """Where several have to approve, and the policy in force asks otherwise by now than the version under which it was
    asked: which, and how it is asked anew."""


class DecidedApproval(ApprovalShape, frozen=True, kw_only=True):
    missing: int | None
    """The vote was counted, and so many approvals are missing; null: it is decided."""
    warnings: list[str]
    """What should be known about the decision, in words: standing decisions that its «always» contradicts, edited
    arguments that nobody could check."""
    voted_by: str | None
    """Who cast the vote that was counted; null: it is decided."""
    stood_already: bool
    """It was a vote, and the same one stood already: nothing has changed."""


class ApprovalPage(Shown, frozen=True, kw_only=True):
    data: list[ApprovalShape]
    next: str | None


class ApprovalFilter(Given, frozen=True, kw_only=True):
    status: RequestStatus | Literal["all"] = "pending"
    agent: str | None = None
    tool: str | None = None
    run_id: str | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class OneOfMany(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class PasskeyQuestion(Shown, frozen=True, kw_only=True):
    """What a passkey is asked."""

    nonce: str
    public_key: JsonObject = msgspec.field(name="publicKey")
    """The options of `navigator.credentials.get()`."""


class ManyDecisions(Given, frozen=True, kw_only=True):
    decisions: Annotated[list[OneOfMany], Meta(min_length=1, max_length=MAX_AT_ONCE)]


class OneOutcome(Shown, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to one decision: as if it had been sent alone."""

    id: str
    status: int
    approval: ApprovalShape | None = None
    problem: ProblemShape | None = None


class ManyOutcomes(Shown, frozen=True, kw_only=True):
    data: list[OneOutcome]


# -- grants and holds -------------------------------------------------------------------------------------------------


class GrantShape(Shown, frozen=True, kw_only=True):
    """A standing decision about a tool of an agent."""

    id: str
    agent: str
    tool: str
    decision: Literal["approve", "reject"]
    by: str | None
    at: datetime
    reason: str | None
    message: str | None
    arguments: JsonObject | None
    until: datetime | None
    uses: int | None
    via: str | None
    """Through which door it was made; null: by a program."""
    assurance: Assurance
    """How sure it is that it was made by this person."""
    matching: JsonObject | None = None
    """What arguments have to be, as it was given."""
    budget: list[JsonObject] | None = None
    """How much it may let through, each limit as it was given."""
    left: list[Left] = []
    """How much of its budget is left at this moment."""


class MadeGrant(GrantShape, frozen=True, kw_only=True):
    warnings: list[str]
    """What should be known about it, in words: standing decisions that it contradicts, calls that it will not reach."""


class GrantList(Shown, frozen=True, kw_only=True):
    data: list[GrantShape]
    next: str | None = None


class NewGrant(Given, frozen=True, kw_only=True):
    """A standing decision for later calls of an agent's tool. A tool whose parameters change is not covered any
    more."""

    agent: Name
    tool: Name
    decision: Literal["approve", "reject"]
    arguments: JsonObject | None = None
    """Only calls with exactly these values under these names."""
    until: Timestamp | None = None
    uses: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    matching: JsonObject | None = None
    """What arguments have to be: `{"cents": {"max": 5000}, "path": {"prefix": "/srv/"}}`."""
    budget: JsonObject | list[JsonObject] | None = None
    """How much it may let through: `{"sum": "cents", "most": 50000, "every": "day"}`, or a list of such limits."""
    confirm: Name | None = None
    """The tool's name, where it reaches further than what people approved: a second look."""
    reason: Note | None = None
    message: Note | None = None


class GrantTrial(Shown, frozen=True, kw_only=True):
    """What a standing decision would have made of the last calls like it."""

    tried: int
    """So many of the newest calls of this tool by this agent, on which people decided, were gone through."""
    decided: int
    calls: list[str]
    """The requests that it would have decided, newest first."""
    contradicts: list[str]
    """Those about which a person said otherwise."""
    over_budget: int
    """Calls within its bounds that its budget would not have covered."""
    wider: list[str]
    """What it lets through that nobody approved, in words. Where there is something, `confirm` is needed."""
    line: str
    """In one sentence."""


class SuggestedAlways(Shown, frozen=True, kw_only=True):
    """The form of a standing decision, filled in from the call at hand and from what people approved."""

    matching: JsonObject
    trial: GrantTrial


class HoldShape(Shown, frozen=True, kw_only=True):
    """Nothing that this covers starts while it stands, approved or not."""

    kind: Literal["run", "agent", "tool"]
    name: str
    by: str | None
    at: datetime
    reason: str | None


class HoldList(Shown, frozen=True, kw_only=True):
    data: list[HoldShape]
    next: str | None = None


class HoldsNow(HoldList, frozen=True, kw_only=True):
    warnings: list[str]
    """That nobody here knows what is held, in words."""


class NewHold(Given, frozen=True, kw_only=True):
    kind: Literal["run", "agent", "tool"]
    name: Name
    reason: Note | None = None


class WhichHold(Given, frozen=True, kw_only=True):
    kind: Literal["run", "agent", "tool"]
    name: Name


# -- around it --------------------------------------------------------------------------------------------------------


class ToolShape(Shown, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: JsonObject
    needs_approval: bool | None
    """null: a rule in code says, call by call."""


class AgentShape(Shown, frozen=True, kw_only=True):
    name: str
    """What `POST /v1/runs` takes as `agent`."""
    tools: list[ToolShape]


class AgentList(Shown, frozen=True, kw_only=True):
    data: list[AgentShape]


class EventFilter(Given, frozen=True, kw_only=True):
    run_id: str | None = None
    after: Annotated[int, Meta(ge=0, le=2**62)] | None = None
    """A sequence number to go on from; the header `Last-Event-ID` comes before it."""


class Health(Shown, frozen=True, kw_only=True):
    status: Literal["ok"]


class PublicKeys(Shown, frozen=True, kw_only=True):
    """A JWK set."""

    keys: list[JsonObject]


class Readiness(Shown, frozen=True, kw_only=True):
    status: Literal["ready"]
    drives_runs: bool
    driving: int
