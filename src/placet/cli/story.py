"""What a run's log tells, as a small tree: turns, their calls, what happened to each, and who decided what.

A nested run hangs under the call that it was made for. Pictures and reports are made from this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from placet.cli.terminal import Style, shown
from placet.core.plan import plan_calls
from placet.facts import events as e
from placet.facts.codec import Json, JsonObject, encode, parse_arguments
from placet.facts.ids import ROOT, path_of
from placet.facts.items import text_of


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened to a call."""

    at: float
    word: str
    style: Style
    detail: str | None = None


@dataclass(slots=True)
class CallStory:
    id: str
    name: str
    arguments: str
    marks: list[Mark] = field(default_factory=list)
    decisions: list[e.DecisionMade] = field(default_factory=list)
    outcome: e.Outcome | None = None
    output: Json = None
    child: RunStory | None = None


@dataclass(slots=True)
class TurnStory:
    number: int
    at: float
    text: str
    calls: dict[str, CallStory]


@dataclass(slots=True)
class RunStory:
    path: str = ROOT
    agent: str = ""
    input: str = ""
    began: float = 0.0
    latest: float = 0.0
    turns: list[TurnStory] = field(default_factory=list)
    notes: list[Mark] = field(default_factory=list)
    """What happened to the run as a whole: requests that failed, grants, handoffs, stops."""
    has_ended: bool = False
    was_cancelled: bool = False
    output: Json = None

    def calls(self) -> Iterable[CallStory]:
        return (call for turn in self.turns for call in turn.calls.values())


def story_of(records: Iterable[e.Record], erased_at: float | None = None) -> RunStory:
    """What the log of a run tells. When it was erased is no part of that: whoever knows says so."""
    records = list(records)
    if any(isinstance(fact, e.Erased) for record in records[:1] for fact in record.facts):
        return _erased_story(records, erased_at)
    stories: dict[str, RunStory] = {ROOT: RunStory()}
    for record in records:
        for fact in record.facts:
            path, bare = (fact.path, fact.fact) if isinstance(fact, e.InChild) else (ROOT, fact)
            if path not in stories:
                stories[path] = RunStory(path)
                _owner(stories, path).child = stories[path]
            stories[path].latest = stories[ROOT].latest = record.at
            _tell(stories[path], record.at, bare)
    return stories[ROOT]


def _erased_story(records: list[e.Record], erased_at: float | None) -> RunStory:
    """Of a run whose data was erased: when it began, when it was last heard of, and that it is over."""
    at = records[-1].at if erased_at is None else erased_at
    note = Mark(at, "erased", "dim", "what happened in this run was erased")
    return RunStory(began=records[0].at, latest=records[-1].at, notes=[note], has_ended=True)


def _owner(stories: dict[str, RunStory], path: str) -> CallStory:
    """The call that the run with this path is nested in."""
    return stories[path_of(path)].turns[-1].calls[path]


def _tell(story: RunStory, at: float, fact: e.PlainFact) -> None:
    match fact:
        case e.RunStarted():
            story.agent, story.input, story.began = fact.agent, _input_text(fact.input), at
        case e.ResponseReceived():
            story.turns.append(_turn(story, at, fact.output))
        case e.RunEnded():
            story.has_ended, story.output = True, fact.output
        case e.RunCancelled():
            story.has_ended = story.was_cancelled = True
        case e.CallEnded():
            call = story.turns[-1].calls[fact.call]
            call.outcome, call.output = fact.outcome, fact.output
            if not (call.decisions and fact.outcome in ("rejected", "answered")):  # the decision's mark says it already
                call.marks.append(Mark(at, fact.outcome, OUTCOME_STYLE[fact.outcome]))
        case e.ArgumentsValidated():
            call = story.turns[-1].calls[fact.call]
            added = _changes(parse_arguments(call.arguments) or {}, fact.values)
            call.marks.append(Mark(at, "validated", "dim", pairs_text(added)))
            call.arguments = encode(fact.values).decode()
        case e.CallsAllowed() | e.CallsDeferred() | e.CallsStarted():
            for each in fact.calls:
                story.turns[-1].calls[each].marks.append(_mark_of_many(at, fact))
        case (
            e.CallHeld()
            | e.CallInDoubt()
            | e.InputAsked()
            | e.QuestionEscalated()
            | e.DecisionMade()
            | e.DecisionRevoked()
        ):
            call = story.turns[-1].calls[fact.call]
            call.marks.append(_mark_of_one(at, fact, call.arguments))
            if isinstance(fact, e.DecisionMade):
                call.decisions.append(fact)
        case e.GuardrailsJudged():
            story.notes += [
                Mark(at, "tripwire", "red", f"{fact.kind}: {each.name}") for each in fact.results if each.tripped
            ]
        case (
            e.RequestSent()
            | e.TurnLimitSet()
            | e.SessionWriting()
            | e.SessionWritten()
            | e.ContextSaved()
            | e.TurnJudged()
            | e.HoldPlaced()
            | e.HoldLifted()
            | e.StandingGrantMade()
            | e.RunErased()
            | e.RunsDeleted()
            | e.UserChanged()
            | e.PasswordChanged()
            | e.InvitationChanged()
            | e.TokenChanged()
            | e.FourEyesSet()
        ):
            pass  # a request shows in its answer, or in what became of it; the others are bookkeeping, or of no run
        case _:
            story.notes.append(_note(at, fact))


def _mark_of_many(at: float, fact: e.CallsAllowed | e.CallsDeferred | e.CallsStarted) -> Mark:
    match fact:
        case e.CallsAllowed():
            return Mark(at, "allowed", "dim")
        case e.CallsDeferred():
            return Mark(at, "deferred", "dim")
        case e.CallsStarted():
            return Mark(at, "started", "dim")
        case never:
            assert_never(never)


def _mark_of_one(
    at: float,
    fact: e.CallHeld | e.CallInDoubt | e.InputAsked | e.QuestionEscalated | e.DecisionMade | e.DecisionRevoked,
    arguments: str,
) -> Mark:
    match fact:
        case e.CallHeld():
            return Mark(at, "waited", "yellow", fact.why)
        case e.CallInDoubt():
            return Mark(at, "in doubt", "red", fact.why)
        case e.InputAsked():
            return Mark(
                at, "asked for input", "yellow", " ".join(str(q.get("message", "")) for q in fact.questions.values())
            )
        case e.QuestionEscalated():
            return Mark(at, "escalated", "yellow")
        case e.DecisionRevoked():
            return Mark(fact.at, f"revoked by {_who(fact.by)}", "yellow", fact.reason)
        case e.DecisionMade():
            by = "by a standing decision of" if fact.grant is not None else "by"
            return Mark(
                fact.at, f"{_VERDICT_WORD[fact.verdict]} {by} {_who(fact.by)}", *_decision_look(fact, arguments)
            )
        case never:
            assert_never(never)


OUTCOME_STYLE: dict[e.Outcome, Style] = {
    "finished": "green",
    "failed": "red",
    "rejected": "red",
    "answered": "green",
    "denied": "red",
    "expired": "yellow",
    "superseded": "yellow",
    "cancelled": "yellow",
}
_VERDICT_WORD: dict[e.Verdict, str] = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited",
    "respond": "answered",
}


def _decision_look(fact: e.DecisionMade, arguments: str) -> tuple[Style, str | None]:
    match fact.verdict:
        case "approve":
            return "green", fact.reason
        case "reject":
            return "red", fact.message or fact.reason
        case "edit":
            return "cyan", pairs_text(_changes(parse_arguments(arguments) or {}, fact.arguments or {}))
        case "respond":
            return "cyan", fact.reason
        case never:
            assert_never(never)


def _note(
    at: float,
    fact: e.RunForked
    | e.InputAdded
    | e.RequestRefused
    | e.RequestLost
    | e.RequestSettled
    | e.ResponseUnusable
    | e.GrantMade
    | e.GrantRevoked
    | e.AgentChanged
    | e.HistoryRewritten
    | e.CancelAsked
    | e.ResumeAsked
    | e.OwnHistoryChosen
    | e.RunStopped
    | e.Erased,
) -> Mark:
    match fact:
        case e.RunForked():
            return Mark(at, "forked", "dim", f"from {fact.origin}")
        case e.InputAdded():
            return Mark(at, "input", "dim", _input_text(fact.items))
        case e.RequestRefused() | e.RequestLost() | e.ResponseUnusable():
            return Mark(at, _REQUEST_WORD[type(fact)], "red", fact.why)
        case e.RequestSettled():
            return Mark(at, "settled", "yellow", "the request was taken" if fact.taken else "the request was not taken")
        case e.GrantMade():
            return Mark(fact.at, "grant", "cyan", f"{_who(fact.by)}: always {fact.verdict} {fact.tool}")
        case e.GrantRevoked():
            return Mark(fact.at, "grant over", "cyan", f"{_who(fact.by)} took {fact.id} back")
        case e.AgentChanged():
            return Mark(at, "handoff", "dim", f"to {fact.agent}")
        case e.HistoryRewritten():
            return Mark(at, "rewritten", "dim", f"the next agent reads {counted(len(fact.items), 'item')}")
        case e.CancelAsked():
            return Mark(fact.at, "cancel", "yellow", f"{_who(fact.by)} asked for it{_because(fact.reason)}")
        case e.ResumeAsked():
            return Mark(fact.at, "resume", "yellow", f"{_who(fact.by)} asked for it")
        case e.OwnHistoryChosen():
            return Mark(fact.at, "own history", "yellow", f"{_who(fact.by)} chose it, not the server's")
        case e.RunStopped():
            return Mark(at, "stopped", "red", f"{fact.code}: {fact.message}")
        case e.Erased():
            return Mark(at, "erased", "dim")
        case never:
            assert_never(never)


_REQUEST_WORD: dict[type[e.Fact], str] = {
    e.RequestRefused: "refused",
    e.RequestLost: "lost",
    e.ResponseUnusable: "nonsense",
}


def _changes(original: JsonObject, edited: JsonObject) -> JsonObject:
    """What an edit made other than it was; a name that it took away is null."""
    return {name: edited.get(name) for name in {**original, **edited} if edited.get(name) != original.get(name)}


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _who(by: str | None) -> str:
    return by or "somebody"


def _input_text(given: str | list[JsonObject]) -> str:
    return given if isinstance(given, str) else " ".join(filter(None, map(text_of, given)))


def _turn(story: RunStory, at: float, output: list[JsonObject]) -> TurnStory:
    number = len(story.turns) + 1
    planned = [call for _, call in plan_calls(story.path, number, output, set()) if call is not None]
    text = " ".join(text_of(item) for item in output if item.get("type") == "message")
    return TurnStory(number, at, text, {call.id: CallStory(call.id, call.name, call.arguments) for call in planned})


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def argument_text(arguments: str) -> str:
    """Arguments on one line, `name=value name=value`; as they stand when they are no JSON object."""
    found = parse_arguments(arguments)
    if found is None:
        return shown(arguments)
    return pairs_text(found)


def pairs_text(arguments: JsonObject) -> str:
    return " ".join(f"{shown(name)}={shown(encode(value).decode())}" for name, value in arguments.items())
