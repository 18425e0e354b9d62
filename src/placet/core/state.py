"""What a run's log amounts to: the value that `fold` builds fact by fact and that everything else reads.

Only the open turn is kept in detail. What is over is kept as the list of items that a model reads, and in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from placet.core.approvals import Ledger
from placet.core.transitions import WAITING, Status
from placet.facts.codec import Json, JsonObject, canonical, parse_arguments
from placet.facts.events import CancelAsked, DecisionMade, Delivery, GuardrailRecord, Outcome, Usage
from placet.facts.ids import ROOT, session_key
from placet.facts.native_items import asked_in, native_of

Request: TypeAlias = Literal["none", "sent", "lost"]
"""The last request to the model: answered (or never made), on its way, or sent and it is unknown whether it was
taken."""


class Call:
    """One occurrence of a tool call in a response."""

    __slots__ = (
        "answers",
        "arguments",
        "asked_state",
        "at_expiry",
        "attempts",
        "decision",
        "digest",
        "edited",
        "expires_at",
        "id",
        "item",
        "label",
        "name",
        "outcome",
        "output",
        "questions",
        "request",
        "sent_label",
        "server",
        "started_in",
        "status",
        "values",
        "was_revoked",
        "why",
    )  # fmt: skip

    def __init__(self, call_id: str, item: JsonObject, sent_label: str) -> None:
        self.id = call_id
        self.item = item
        self.name, self.arguments = asked_in(item)
        """The tool, and the arguments as the model wrote them. What counts is `effective`."""
        self.label = str(item.get("call_id") or "")
        """What the provider called it: may be missing, may be repeated."""
        self.sent_label = sent_label
        """What it is called in history that we send: unique."""
        self.server: str | None = None
        """The MCP server on which the provider calls the tool itself, once it may; None for a function of ours."""
        self.values: JsonObject | None = None
        """What validation made of them, where it changed something."""
        self.status = Status.PROPOSED
        self.request = 0
        """How many questions have been asked about it."""
        self.digest = ""
        self.why: str | None = None
        self.expires_at: float | None = None
        self.at_expiry: Literal["reject", "escalate"] | None = None
        self.decision: DecisionMade | None = None
        self.edited: JsonObject | None = None
        """The arguments that a reviewer put in the place of the model's. They stay when the call falls into doubt."""
        self.questions: dict[str, JsonObject] | None = None
        """The input that its tool function asked for last."""
        self.asked_state: str | None = None
        """What its tool function wants back with the answers."""
        self.answers: dict[str, JsonObject] | None = None
        """What the tool function reads of them. They stay when the call falls into doubt: to run it again is to say the
        same again."""
        self.was_revoked = False
        """A person took an approval of it back: from then on only a person decides about it, and no grant does."""
        self.attempts = 0
        self.started_in: str | None = None
        """The run in which it was first started, where that is one that this run was forked from."""
        self.outcome: Outcome | None = None
        self.output: Json = None

    @property
    def native_kind(self) -> str | None:
        """The kind of tool that alone may run it, where the provider wrote the call as an item of its own kind."""
        native = native_of(self.item)
        return None if native is None else native.tool

    @property
    def effective(self) -> JsonObject | None:
        """The arguments that count: a reviewer's, or the model's as validated. None: they are not one JSON object."""
        found = self.edited if self.edited is not None else self.values
        return found if found is not None else parse_arguments(self.arguments)

    @property
    def effective_text(self) -> str:
        """The same as JSON text; to the letter as the model wrote it, where nothing was changed."""
        found = self.edited if self.edited is not None else self.values
        return self.arguments if found is None else canonical(found).decode()

    @property
    def values_text(self) -> str | None:
        """What validation made of the model's arguments, where it changed something."""
        return None if self.values is None else canonical(self.values).decode()

    def copy(self) -> Call:
        """Written out: generic copying costs more than all else that a snapshot does."""
        twin = Call.__new__(Call)
        twin.id, twin.item, twin.name, twin.label = self.id, self.item, self.name, self.label
        twin.sent_label, twin.arguments, twin.status = self.sent_label, self.arguments, self.status
        twin.values = self.values
        twin.server = self.server
        twin.request, twin.digest, twin.why = self.request, self.digest, self.why
        twin.expires_at, twin.at_expiry, twin.decision = self.expires_at, self.at_expiry, self.decision
        twin.edited, twin.questions, twin.was_revoked = self.edited, self.questions, self.was_revoked
        twin.asked_state, twin.answers = self.asked_state, self.answers
        twin.attempts, twin.started_in = self.attempts, self.started_in
        twin.outcome, twin.output = self.outcome, self.output
        return twin


@dataclass(slots=True, eq=False)
class RunFold:
    """The fold of one run's log, or of one nested run's."""

    path: str = ROOT
    ledger: Ledger = field(default_factory=Ledger)
    """One for a run and all runs nested in it."""
    started: bool = False
    starting_agent: str = ""
    agent: str = ""
    response_agent: str = ""
    """Who made the last request: the calls of the open turn are that agent's."""
    max_turns: int | None = None
    turn: int = 0
    usage: Usage = field(default_factory=Usage)
    has_ended: bool = False
    cancel_asked: CancelAsked | None = None
    context: JsonObject | None = None
    """The user's context as it was last saved."""
    started_by: str | None = None
    final_output: Json = None
    stopped: tuple[str, str] | None = None
    origins: tuple[str, ...] = ()
    """The runs that this one was forked from."""

    calls: dict[str, Call] = field(default_factory=dict)
    """The calls of the open turn, in the model's order."""
    open_calls: int = 0
    """How many of them have no output yet."""
    children: dict[str, RunFold] = field(default_factory=dict)

    history: list[JsonObject] = field(default_factory=list)
    """All items so far as a model reads them, call labels made unique."""
    input_length: int = 0
    seen_labels: set[str] = field(default_factory=set)
    waiting_input: list[JsonObject] = field(default_factory=list)
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
    session_backlog: list[JsonObject] = field(default_factory=list)
    """Items that a filter took out of the history before they were written into the session."""
    session_total: int = 0
    """How many items the session holds, if nobody but this run wrote into it."""
    session_writing: int | None = None
    """How many it holds if the write that was last begun came to its end."""
    responses: int = 0
    last_output: list[JsonObject] = field(default_factory=list)
    """What the model answered last, as it stands in the log."""

    delivery: Delivery = "own"
    server_id: str | None = None
    last_response_id: str | None = None
    request: Request = "none"
    outbox: list[JsonObject] = field(default_factory=list)
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
        """An independent twin: costs as much as the open turn, and a shallow copy of the lists of what is over."""
        twin = self._alike()
        twin.ledger = ledger if ledger is not None else self.ledger.copy()
        twin.usage = self.usage.copy()
        twin.calls = {key: call.copy() for key, call in self.calls.items()}
        twin.children = {path: child.copy(twin.ledger) for path, child in self.children.items()}
        twin.history = self.history.copy()
        twin.waiting_input = self.waiting_input.copy()
        twin.outbox = self.outbox.copy()
        twin.seen_labels = self.seen_labels.copy()
        return twin

    def outline(self) -> RunFold:
        """A twin of a run that has ended, without its conversation: what happened to it, and what was decided."""
        twin = self._alike()
        twin.ledger = self.ledger.copy()
        twin.history, twin.outbox, twin.seen_labels = [], [], set()
        twin.calls, twin.children, twin.last_output, twin.waiting_input = {}, {}, [], []
        return twin

    def become(self, other: RunFold) -> None:
        """Take over what the other is. This fold, those of the runs nested in it, and their usage stay the objects
        that others hold; the ledger, which all of them share, is left to whoever calls this."""
        children: dict[str, RunFold] = {}
        for path, child in other.children.items():
            children[path] = self.children.get(path) or RunFold(path, self.ledger)
            children[path].become(child)
        self.usage.become(other.usage)
        for name in RunFold.__slots__:
            if name not in ("ledger", "usage", "children"):
                setattr(self, name, getattr(other, name))
        self.children = children

    def _alike(self) -> RunFold:
        """Written out: generic copying costs more than all else that a snapshot does."""
        twin = RunFold.__new__(RunFold)
        twin.path, twin.ledger, twin.started = self.path, self.ledger, self.started
        twin.starting_agent, twin.agent, twin.response_agent = self.starting_agent, self.agent, self.response_agent
        twin.max_turns, twin.turn, twin.usage, twin.has_ended = self.max_turns, self.turn, self.usage, self.has_ended
        twin.cancel_asked, twin.context, twin.started_by = self.cancel_asked, self.context, self.started_by
        twin.final_output, twin.stopped, twin.origins = self.final_output, self.stopped, self.origins
        twin.calls, twin.open_calls, twin.children = self.calls, self.open_calls, self.children
        twin.history, twin.input_length, twin.seen_labels = self.history, self.input_length, self.seen_labels
        twin.waiting_input, twin.has_new_input = self.waiting_input, self.has_new_input
        twin.input_ids, twin.judged_turn, twin.input_judged = self.input_ids, self.judged_turn, self.input_judged
        twin.tripped, twin.session, twin.session_written = self.tripped, self.session, self.session_written
        twin.session_place = self.session_place
        twin.session_backlog, twin.session_total = self.session_backlog, self.session_total
        twin.session_writing, twin.responses = self.session_writing, self.responses
        twin.last_output, twin.delivery, twin.server_id = self.last_output, self.delivery, self.server_id
        twin.last_response_id, twin.request, twin.outbox = self.last_response_id, self.request, self.outbox
        twin.in_flight, twin.newest_item, twin.sent_after = self.in_flight, self.newest_item, self.sent_after
        twin.may_be_at_work, twin.own_from = self.may_be_at_work, self.own_from
        return twin

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
        for run in self.family():
            if not run.has_ended and run.open_calls:
                yield from ((run, call) for call in run.calls.values() if call.status in WAITING)

    def find(self, path: str) -> RunFold | None:
        """The nested run with this path, or this run itself."""
        if path == self.path:
            return self
        for child in self.children.values():
            if path == child.path or path.startswith(child.path + "/"):
                return child.find(path)
        return None
