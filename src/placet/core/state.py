"""What a run's log amounts to: the value that `fold` builds fact by fact and that everything else reads.

Only the open turn is kept in detail. What is over is kept as the list of items that a model reads, and in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from placet.core.approvals import Ledger
from placet.core.transitions import WAITING, Status
from placet.facts.codec import Json, JsonObject, canonical, parse_arguments
from placet.facts.events import (
    CancelAsked,
    DecisionMade,
    Delivery,
    DueRung,
    GuardrailRecord,
    GuestAdmitted,
    LateReport,
    Outcome,
    PolicyJudged,
    ProposedCall,
    SessionClosed,
    Usage,
)
from placet.facts.ids import ROOT, session_key

Request: TypeAlias = Literal["none", "sent", "lost"]
"""The last request to the model: answered (or never made), on its way, or sent and it is unknown whether it was
taken."""


class Call(msgspec.Struct, omit_defaults=True):
    """One occurrence of a tool call in a response. Its fields stand here and nowhere else: copies, comparisons and
    cached folds are msgspec's."""

    id: str
    item: JsonObject
    name: str
    arguments: str
    """The tool, and the arguments as the model wrote them. What counts is `effective`."""
    label: str
    """What the provider called it: may be missing, may be repeated."""
    sent_label: str
    """What it is called in history that we send: unique."""
    native_kind: str | None = None
    """The kind of tool that alone may run it, where the provider wrote the call as an item of its own kind."""
    server: str | None = None
    """The MCP server on which the provider calls the tool itself, once it may; None for a function of ours."""
    values: JsonObject | None = None
    """What validation made of them, where it changed something."""
    status: Status = Status.PROPOSED
    request: int = 0
    """How many questions have been asked about it."""
    digest: str = ""
    why: str | None = None
    expires_at: float | None = None
    at_expiry: Literal["reject", "escalate"] | None = None
    decision: DecisionMade | None = None
    edited: JsonObject | None = None
    """The arguments that a reviewer put in the place of the model's. They stay when the call falls into doubt."""
    questions: dict[str, JsonObject] | None = None
    """The input that its tool function asked for last."""
    asked_state: str | None = None
    """What its tool function wants back with the answers."""
    answers: dict[str, JsonObject] | None = None
    """What the tool function reads of them. They stay when the call falls into doubt: to run it again is to say the
    same again."""
    not_before: float | None = None
    """It was approved, and begins at this time at the earliest: until then the approval can be taken back."""
    was_revoked: bool = False
    """A person took an approval of it back: from then on only a person decides about it, and no grant does."""
    attempts: int = 0
    started_in: str | None = None
    """The run in which it was first started, where that is one that this run was forked from."""
    outcome: Outcome | None = None
    output: Json = None
    proposed: ProposedCall | None = None
    """As a guest proposed it; None for a call of a model."""
    permit: str | None = None
    """The permit under which a guest last claimed it."""
    policy: PolicyJudged | None = None
    """What rules last said about it."""
    late_reports: tuple[LateReport, ...] = ()
    """What guests told about it after their lease had ended."""
    ladder: tuple[DueRung, ...] = ()
    """Who is told when its question waits too long."""
    climbed: int = 0
    """How many of its rungs."""

    @property
    def effective(self) -> JsonObject | None:
        """The arguments that count: a reviewer's, or the model's as validated. None: they are not one JSON object."""
        found = self.edited if self.edited is not None else self.values
        return found if found is not None else parse_arguments(self.arguments)

    @property
    def due_at(self) -> float | None:
        """When something becomes of its question by itself: people are told, or it ends."""
        if self.status not in (Status.HELD, Status.ELICITED) or self.climbed >= len(self.ladder):
            return self.expires_at
        rung = self.ladder[self.climbed].at
        return rung if self.expires_at is None else min(rung, self.expires_at)

    @property
    def effective_text(self) -> str:
        """The same as JSON text; to the letter as the model wrote it, where nothing was changed."""
        found = self.edited if self.edited is not None else self.values
        return self.arguments if found is None else canonical(found).decode()

    @property
    def values_text(self) -> str | None:
        """What validation made of the model's arguments, where it changed something."""
        return None if self.values is None else canonical(self.values).decode()


class RunFold(msgspec.Struct, omit_defaults=True):
    """The fold of one run's log, or of one nested run's. Like those of a call, its fields stand here and nowhere
    else."""

    path: str = ROOT
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    """One for a run and all runs nested in it."""
    started: bool = False
    starting_agent: str = ""
    agent: str = ""
    response_agent: str = ""
    """Who made the last request: the calls of the open turn are that agent's."""
    max_turns: int | None = None
    turn: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)
    has_ended: bool = False
    cancel_asked: CancelAsked | None = None
    context: JsonObject | None = None
    """The user's context as it was last saved."""
    started_by: str | None = None
    final_output: Json = None
    stopped: tuple[str, str] | None = None
    origins: tuple[str, ...] = ()
    """The runs that this one was forked from."""

    guest: GuestAdmitted | None = None
    """Whose session it is, if another program executes its calls; None: a model is asked."""
    closed: SessionClosed | None = None
    """Why a guest's session takes no more proposals here."""
    calls: dict[str, Call] = {}
    """The calls of the open turn, in the model's order; of a guest's session all of them."""
    open_calls: int = 0
    """How many of them have no output yet."""
    children: dict[str, RunFold] = {}

    history: list[JsonObject] = []
    """All items so far as a model reads them, call labels made unique."""
    input_length: int = 0
    seen_labels: set[str] = set()
    waiting_input: list[JsonObject] = []
    """What was added while calls were open: it stands behind their outputs."""
    has_new_input: bool = False
    """Something was added since the model was last asked: it must be asked again."""
    input_ids: frozenset[str] = frozenset()
    judged_turn: int = 0
    """The last turn whose outputs a function has looked at."""
    input_judged: bool = False
    """The input guardrails have spoken."""
    tripped: GuardrailRecord | None = None
    """The input guardrail that stopped the run."""
    session: str | None = None
    session_place: str | None = None
    """Where the session is kept; None: it is not recorded."""
    session_written: int = 0
    """How many items of the history the session holds."""
    session_backlog: list[JsonObject] = []
    """Items that a filter took out of the history before they were written into the session."""
    session_total: int = 0
    """How many items the session holds, if nobody but this run wrote into it."""
    session_writing: int | None = None
    """How many it holds if the write that was last begun came to its end."""
    responses: int = 0
    last_output: list[JsonObject] = []
    """What the model answered last, as it stands in the log."""

    delivery: Delivery = "own"
    server_id: str | None = None
    last_response_id: str | None = None
    request: Request = "none"
    outbox: list[JsonObject] = []
    """What the server has not acknowledged, where the server keeps the history."""
    in_flight: int = 0
    """How much of the outbox the request on its way carries."""
    newest_item: str | None = None
    """In a conversation: the id of its newest item, as far as this run knows; None: it would have to look."""
    sent_after: str | None = None
    """The newest item when the last request was sent: what came since tells what happened to the request."""
    own_from: int = 0
    """How much of the history stood there when own history took the place of the server's: ids of the server in it
    lead nowhere any more. 0: it never did."""
    may_be_at_work: bool = False
    """A request was lost, and the conversation showed nothing of it: the server may still be at work on it."""

    def copy(self, ledger: Ledger | None = None) -> RunFold:
        """An independent twin: costs as much as the open turn, and a shallow copy of the lists of what is over.

        Named here is what the fold changes in place. All other fields are given a new value when they change, so the
        twins can share the old one."""
        shared = ledger if ledger is not None else self.ledger.copy()
        return replace(
            self,
            ledger=shared,
            usage=self.usage.copy(),
            calls={key: replace(call) for key, call in self.calls.items()},
            children={path: child.copy(shared) for path, child in self.children.items()},
            history=self.history.copy(),
            waiting_input=self.waiting_input.copy(),
            outbox=self.outbox.copy(),
            seen_labels=self.seen_labels.copy(),
        )

    def outline(self) -> RunFold:
        """A twin of a run that has ended, without its conversation: what happened to it, and what was decided."""
        return replace(
            self,
            ledger=self.ledger.copy(),
            calls={},
            children={},
            history=[],
            last_output=[],
            waiting_input=[],
            outbox=[],
            seen_labels=set(),
        )

    def become(self, other: RunFold) -> None:
        """Take over what the other is. This fold, those of the runs nested in it, and their usage stay the objects
        that others hold; the ledger, which all of them share, is left to the caller."""
        children: dict[str, RunFold] = {}
        for path, child in other.children.items():
            children[path] = self.children.get(path) or RunFold(path, self.ledger)
            children[path].become(child)
        self.usage.become(other.usage)
        for name in RunFold.__struct_fields__:
            if name not in ("ledger", "usage", "children"):
                setattr(self, name, getattr(other, name))
        self.children = children

    @property
    def session_key(self) -> str | None:
        """By what stores find the run by its session."""
        return None if self.session is None else session_key(self.session, self.session_place)

    @property
    def closed_length(self) -> int:
        """How much of the history is over: all of it, or, while calls are open, what stands before their response."""
        return len(self.history) - len(self.last_output) if self.open_calls else len(self.history)

    def family(self) -> Iterator[RunFold]:
        """This run and all runs nested in it, outermost first."""
        yield self
        for path, child in self.children.items():
            call = self.calls.get(path)
            if call is not None and call.status is not Status.ENDED:  # with its call a nested run is over
                yield from child.family()

    def waiting(self) -> Iterator[tuple[RunFold, Call]]:
        """Every call, at any depth, that a person is asked about."""
        for run in self.family() if self.children else (self,):
            if not run.has_ended and run.open_calls:
                yield from ((run, call) for call in run.calls.values() if call.status in WAITING)

    def delayed(self) -> Iterator[tuple[RunFold, Call, float]]:
        """Every approved call, at any depth, that begins at a certain time at the earliest."""
        for run in self.family() if self.children else (self,):
            if not run.has_ended and run.open_calls:
                for call in run.calls.values():
                    if call.not_before is not None and call.status is Status.APPROVED:
                        yield run, call, call.not_before

    def find(self, path: str) -> RunFold | None:
        """The nested run with this path, or this run itself."""
        if path == self.path:
            return self
        for child in self.children.values():
            if path == child.path or path.startswith(child.path + "/"):
                return child.find(path)
        return None
