"""What a drive remembers of a run so that facts can become spans: who is at work, which calls are open, what was asked.

Unlike the fold it never refuses a fact: a trace with a gap is better than none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from placet.core.approvals import name_of
from placet.core.index import RequestKind
from placet.core.plan import plan_calls
from placet.facts.codec import encode
from placet.facts.events import (
    AgentChanged,
    AnyFact,
    ArgumentsValidated,
    CallEnded,
    CallHeld,
    CallInDoubt,
    CallsDeferred,
    CallsStarted,
    DecisionMade,
    DecisionRevoked,
    InChild,
    InputAsked,
    PlainFact,
    QuestionEscalated,
    RequestSent,
    ResponseReceived,
    RunForked,
    RunStarted,
)
from placet.facts.ids import path_of, request_id


@dataclass(slots=True)
class Question:
    """One question to a person."""

    number: int
    kind: RequestKind
    asked_at: float
    expires_at: float | None = None
    why: str | None = None
    decision: DecisionMade | None = None
    asked_in: str | None = None
    """The run in which it was asked, where that is one that this run was forked from."""
    moments: list[tuple[str, float, str | None]] = field(default_factory=list)
    """What else happened to it: a name, a time, and by whom."""


@dataclass(slots=True)
class Call:
    id: str
    name: str
    label: str
    arguments: str
    is_handoff: bool = False
    attempts: int = 0
    started_in: str | None = None
    """As `Question.asked_in`."""
    questions: int = 0
    question: Question | None = None
    """The question whose answer nothing has followed yet: it waits, or its decision does."""
    decision: DecisionMade | None = None
    """The decision under which the call runs."""


@dataclass(slots=True)
class Run:
    """A run or a nested one."""

    path: str
    agent: str = ""
    came_from: str = ""
    """Who handed over to the agent at work."""
    conversation: str | None = None
    requests: int = 0
    requested_in: str | None = None
    """As `Question.asked_in`, for the last request to the model."""
    turn: int = 0
    calls: dict[str, Call] = field(default_factory=dict)

    def call(self, local: str) -> Call:
        """The call with this id. One of a response that was not seen is taken as it comes."""
        found = self.calls.get(local)
        if found is None:
            turn = local.rpartition("/")[2].partition(".")[0]
            self.turn = max(self.turn, int(turn) if turn.isdecimal() else 0)
            found = self.calls[local] = Call(local, "", "", "")
        return found


def bare(fact: AnyFact) -> tuple[str, PlainFact]:
    return (fact.path, fact.fact) if isinstance(fact, InChild) else ("", fact)


class Memory:
    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.runs: dict[str, Run] = {}
        self._over: list[str] = []
        """Nested runs that ended with the last fact: forgotten with the next one."""

    def run(self, path: str) -> Run:
        return self.runs.setdefault(path, Run(path))

    def call(self, local: str) -> Call:
        return self.run(path_of(local)).call(local)

    def open_questions(self) -> Iterator[tuple[Call, Question]]:
        for run in self.runs.values():
            for call in run.calls.values():
                if call.question is not None:
                    yield call, call.question

    def request_id(self, call: Call, question: Question) -> str:
        return request_id(question.asked_in or self.run_id, call.id, question.number)

    def learn(self, at: float, fact: AnyFact) -> list[tuple[Call, Question]]:
        """Take in a fact. Returns the questions that are over with it: acted upon, ended, or asked anew."""
        for path in self._over:
            self.runs.pop(path, None)
        self._over = []
        path, plain = bare(fact)
        run = self.run(path)
        match plain:
            case CallHeld() | CallInDoubt() | InputAsked():
                return _ask(run.call(plain.call), at, plain)
            case CallsStarted(calls):
                return [over for local in calls for over in _start(run.call(local))]
            case CallEnded(local):
                return self._end(run.call(local))
            case DecisionMade() | DecisionRevoked() | QuestionEscalated():
                _hear(run.call(plain.call).question, at, plain)
            case ArgumentsValidated(local, values):
                run.call(local).arguments = encode(values).decode()
            case CallsDeferred(calls):
                for local in calls:
                    run.call(local).is_handoff = True
            case RunForked(origin):
                self._fork(origin)
            case _:
                _learn_of_run(run, plain)
        return []

    def _end(self, call: Call) -> list[tuple[Call, Question]]:
        """With a call all runs nested in it are over, and what was asked in them."""
        self._over = [path for path in self.runs if path == call.id or path.startswith(f"{call.id}/")]
        inside = [each for path in self._over for each in self.runs[path].calls.values()]
        return [over for each in (*inside, call) for over in _close(each)]

    def _fork(self, origin: str) -> None:
        """What was written so far was written in another run, under its ids."""
        for run in self.runs.values():
            run.requested_in = run.requested_in or origin
            for call in run.calls.values():
                call.started_in = call.started_in or origin
                if call.question is not None:
                    call.question.asked_in = call.question.asked_in or origin


def _learn_of_run(run: Run, fact: PlainFact) -> None:
    match fact:
        case RunStarted():
            run.agent = fact.agent
            run.conversation = fact.session or (fact.server_id if fact.delivery == "conversation" else None)
        case AgentChanged(agent):
            run.came_from, run.agent = run.agent, agent
        case RequestSent():
            run.requests += 1
            run.requested_in = None
        case ResponseReceived():
            run.turn += 1
            planned = (call for _, call in plan_calls(run.path, run.turn, fact.output, set()) if call is not None)
            run.calls = {call.id: Call(call.id, call.name, call.label, call.arguments) for call in planned}
        case _:
            pass


def _ask(call: Call, at: float, fact: CallHeld | CallInDoubt | InputAsked) -> list[tuple[Call, Question]]:
    over = _close(call)
    call.name = call.name or name_of(fact.tool)
    call.questions += 1
    match fact:
        case CallHeld():
            call.question = Question(call.questions, "approval", at, fact.expires_at, fact.why)
        case CallInDoubt():
            call.question = Question(call.questions, "in_doubt", at, None, fact.why)
        case InputAsked():
            call.question = Question(call.questions, "elicitation", at, fact.expires_at)
    return over


def _start(call: Call) -> list[tuple[Call, Question]]:
    call.attempts += 1
    call.started_in = None
    if call.question is not None:
        call.decision = call.question.decision
    return _close(call)


def _close(call: Call) -> list[tuple[Call, Question]]:
    over, call.question = call.question, None
    return [] if over is None else [(call, over)]


def _hear(question: Question | None, at: float, fact: DecisionMade | DecisionRevoked | QuestionEscalated) -> None:
    if question is None:
        return
    match fact:
        case DecisionMade():
            question.decision = fact
        case DecisionRevoked():
            question.decision = None
            question.moments.append(("placet.decision.revoked", fact.at, fact.by))
        case QuestionEscalated():
            question.moments.append(("placet.request.escalated", at, None))
