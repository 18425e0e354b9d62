"""What a run's log tells a reader: turns, calls, waits, decisions, nested runs, with their times.

It is tolerant on purpose: a page about a log that holds something unknown shows the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from placet.core.plan import plan_calls
from placet.facts import events as e
from placet.facts.codec import Json, JsonObject, encode
from placet.facts.ids import ROOT, path_of
from placet.facts.items import text_of

Sort: TypeAlias = Literal["wait", "doubt", "run"]


@dataclass(slots=True)
class Stretch:
    """A time during which something went on with a call."""

    sort: Sort
    begins: float
    ends: float | None = None
    note: str = ""


@dataclass(slots=True)
class CallTale:
    id: str
    name: str
    arguments: str
    at: float
    line: int
    """The line of the log in which it first stood."""
    stretches: list[Stretch] = field(default_factory=list)
    decisions: list[e.DecisionMade] = field(default_factory=list)
    outcome: e.Outcome | None = None
    output: Json = None
    ended_at: float | None = None
    child: RunTale | None = None
    edited: JsonObject | None = None
    """What a reviewer made of the arguments, if somebody did."""

    @property
    def runs_with(self) -> str:
        """The arguments that run, or ran: what the agent asked for, or what an edit made of it."""
        return self.arguments if self.edited is None else encode(self.edited).decode()

    @property
    def began_at(self) -> float | None:
        """When it last began; None while it has not."""
        return next((each.begins for each in reversed(self.stretches) if each.sort == "run"), None)

    @property
    def waits(self) -> bool:
        return bool(self.stretches) and self.stretches[-1].ends is None and self.stretches[-1].sort != "run"

    def close(self, at: float) -> None:
        if self.stretches and self.stretches[-1].ends is None:
            self.stretches[-1].ends = at

    def begin(self, sort: Sort, at: float, note: str = "") -> None:
        self.close(at)
        self.stretches.append(Stretch(sort, at, None, note))


@dataclass(slots=True)
class TurnTale:
    number: int
    asked_at: float
    at: float
    line: int
    text: str
    calls: dict[str, CallTale]


@dataclass(slots=True)
class NoteTale:
    at: float
    word: str
    text: str
    line: int
    is_bad: bool = False


@dataclass(slots=True)
class RunTale:
    path: str = ROOT
    agent: str = ""
    input: str = ""
    by: str | None = None
    began: float = 0.0
    latest: float = 0.0
    ended_at: float | None = None
    was_cancelled: bool = False
    output: Json = None
    asked_at: float | None = None
    """A request to the model that has no answer yet."""
    turns: list[TurnTale] = field(default_factory=list)
    notes: list[NoteTale] = field(default_factory=list)

    def calls(self) -> Iterator[CallTale]:
        return (call for turn in self.turns for call in turn.calls.values())

    def find(self, call: str) -> CallTale | None:
        return next((each for turn in reversed(self.turns) if (each := turn.calls.get(call)) is not None), None)


class Teller:
    """Reads a log line by line."""

    def __init__(self) -> None:
        self.runs: dict[str, RunTale] = {ROOT: RunTale()}
        self._line = 0

    def read(self, records: Iterable[e.Record]) -> RunTale:
        for number, record in enumerate(records):
            self._line = number
            for fact in record.facts:
                path, bare = (fact.path, fact.fact) if isinstance(fact, e.InChild) else (ROOT, fact)
                run = self._run(path)
                run.latest = self.runs[ROOT].latest = max(run.latest, record.at)
                self._tell(run, record.at, bare)
        return self.runs[ROOT]

    def _run(self, path: str) -> RunTale:
        if path not in self.runs:
            self.runs[path] = made = RunTale(path)
            owner = self._run(path_of(path)).find(path)
            if owner is not None:
                owner.child = made
        return self.runs[path]

    def _tell(self, run: RunTale, at: float, fact: e.PlainFact) -> None:
        match fact:
            case e.RunStarted():
                run.agent, run.input, run.began, run.by = fact.agent, input_text(fact.input), at, fact.by
            case e.RequestSent():
                run.asked_at = at
            case e.ResponseReceived():
                self._answer(run, at, fact)
            case e.CallsStarted():
                for call in self._calls(run, fact.calls):
                    call.begin("run", at)
            case e.ArgumentsValidated():
                for call in self._calls(run, [fact.call]):
                    call.arguments = encode(fact.values).decode()
            case e.CallHeld() | e.CallInDoubt():
                for call in self._calls(run, [fact.call]):
                    call.begin("wait" if isinstance(fact, e.CallHeld) else "doubt", at, fact.why or "")
            case e.DecisionMade() | e.DecisionRevoked() | e.CallEnded():
                for call in self._calls(run, [fact.call]):
                    self._change(run, call, at, fact)
            case e.RunEnded():
                run.ended_at, run.output = at, fact.output
            case e.RunCancelled():
                run.ended_at, run.was_cancelled = at, True
            case _:
                self._note(run, at, fact)

    def _answer(self, run: RunTale, at: float, fact: e.ResponseReceived) -> None:
        number = len(run.turns) + 1
        planned = [call for _, call in plan_calls(run.path, number, fact.output, set()) if call is not None]
        text = "\n".join(filter(None, (text_of(item) for item in fact.output if item.get("type") == "message")))
        calls = {each.id: CallTale(each.id, each.name, each.arguments, at, self._line) for each in planned}
        asked = run.asked_at if run.asked_at is not None else at
        run.turns.append(TurnTale(number, asked, at, self._line, text, calls))
        run.asked_at = None

    def _calls(self, run: RunTale, ids: Iterable[str]) -> Iterator[CallTale]:
        return (found for each in ids if (found := run.find(each)) is not None)

    def _change(
        self, run: RunTale, call: CallTale, at: float, fact: e.DecisionMade | e.DecisionRevoked | e.CallEnded
    ) -> None:
        match fact:
            case e.DecisionMade():
                call.close(fact.at)
                call.decisions.append(fact)
                call.edited = fact.arguments if fact.verdict == "edit" else call.edited
            case e.DecisionRevoked():
                call.edited = None
                call.begin("wait", fact.at, f"revoked by {fact.by or 'somebody'}")
                run.notes.append(NoteTale(fact.at, "revoked", f"{who(fact.by)}: {call.name}", self._line))
            case e.CallEnded():
                call.close(at)
                call.outcome, call.output, call.ended_at = fact.outcome, fact.output, at

    def _note(self, run: RunTale, at: float, fact: e.PlainFact) -> None:
        told = note_of(fact)
        if told is not None:
            word, text, is_bad = told
            run.notes.append(NoteTale(at, word, text, self._line, is_bad))


def note_of(fact: e.PlainFact) -> tuple[str, str, bool] | None:
    """What happened to the run as a whole, in words; None for bookkeeping."""
    match fact:
        case e.RunForked():
            return "forked", f"from {fact.origin}", False
        case e.InputAdded():
            return "message", input_text(fact.items), False
        case e.RequestRefused() | e.RequestLost() | e.ResponseUnusable():
            return "model failed", fact.why, True
        case e.GrantMade():
            return "standing decision", f"{who(fact.by)}: always {fact.verdict} {fact.tool}", False
        case e.GrantRevoked():
            return "standing decision over", f"{who(fact.by)} took {fact.id} back", False
        case e.AgentChanged():
            return "handoff", f"to {fact.agent}", False
        case e.QuestionEscalated():
            return "escalated", f"nobody answered about {fact.call} in time", True
        case e.CancelAsked():
            return "cancel asked", f"{who(fact.by)}{': ' + fact.reason if fact.reason else ''}", False
        case e.ResumeAsked():
            return "resume asked", who(fact.by), False
        case e.OwnHistoryChosen():
            return "own history", f"{who(fact.by)}: the model's server is not asked for the history any more", False
        case e.RunStopped():
            return "stopped", f"{fact.code}: {fact.message}", True
        case e.GuardrailsJudged():
            tripped = [each.name for each in fact.results if each.tripped]
            return ("guardrail", f"{fact.kind}: {', '.join(tripped)}", True) if tripped else None
        case _:
            return None


def input_text(given: str | list[JsonObject]) -> str:
    if isinstance(given, str):
        return given
    return "\n".join(filter(None, (text_of(item) for item in given)))


def output_text(output: Json) -> str:
    """What the model read, as text: a string itself, parts by their text."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        texts = [str(each.get("text", "")) for each in output if isinstance(each, dict) and each.get("text")]
        return "\n".join(texts) or f"{len(output)} content parts"
    return "" if output is None else str(output)


def who(by: str | None) -> str:
    return by or "somebody"


# -- what led to a question -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened before a question, as its card shows it."""

    sort: Literal["asked", "said", "call"]
    who: str
    text: str
    depth: int
    outcome: str = ""
    arguments: str = ""


MAX_STEPS = 24


def lead_up(root: RunTale, call: str) -> tuple[list[Step], int]:
    """What was asked, said and done before this call, oldest first; and how many earlier steps were left out."""
    steps: list[Step] = []
    run: RunTale | None = root
    parts = call.split("/")
    for depth in range(len(parts)):
        if run is None:
            break
        local = "/".join(parts[: depth + 1])
        steps += _steps_of(run, local, depth)
        owner = run.find(local)
        run = owner.child if owner is not None else None
    left_out = max(0, len(steps) - MAX_STEPS)
    return ([steps[0], *steps[1 + left_out :]] if left_out else steps), left_out


def _steps_of(run: RunTale, until: str, depth: int) -> Iterator[Step]:
    yield Step("asked", run.by or ("" if depth == 0 else "the agent above"), run.input, depth)
    for turn in run.turns:
        if turn.text:
            yield Step("said", run.agent, turn.text, depth)
        for call in turn.calls.values():
            if call.id != until:
                state = call.outcome or ("waits too" if call.waits else "not finished")
                yield Step("call", call.name, output_text(call.output), depth, state, call.runs_with)
        if until in turn.calls:
            return
