"""What a run's log tells: turns, calls, requests, decisions, notes and nested runs, with their times and who.

The one reading of the log for people and for tracing: pictures, pages, records and spans are views of it. It is built
fact by fact. What happened is a frozen step of a call or note of a run; the tree of runs, turns and calls grows with
them. Unlike the fold it refuses nothing: a picture with a gap is better than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, assert_never

from placet.core.calls import plan_calls
from placet.core.story_tree import (
    AnyStep,
    Asked,
    CallStory,
    Decided,
    Ended,
    Escalated,
    Moved,
    Note,
    NoteKind,
    ReportedLate,
    RequestStory,
    Required,
    Revoked,
    RulesHeard,
    RunStory,
    TurnStory,
    Validated,
    Voted,
    VoteWithdrawn,
)
from placet.facts import events as e
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.ids import ROOT, path_of
from placet.facts.items import text_of
from placet.facts.verdict_words import counted

_OfRun: TypeAlias = (
    e.RunStarted
    | e.GuestAdmitted
    | e.CallsProposed
    | e.RequestSent
    | e.ResponseReceived
    | e.RunEnded
    | e.RunCancelled
    | e.Erased
)
_OfCalls: TypeAlias = e.CallsAllowed | e.CallsDeferred | e.CallsStarted
_OfCall: TypeAlias = (
    e.ArgumentsValidated
    | e.PolicyJudged
    | e.CallHeld
    | e.CallInDoubt
    | e.InputAsked
    | e.QuestionEscalated
    | e.ApproversRequired
    | e.VoteCast
    | e.VoteTakenBack
    | e.DecisionMade
    | e.DecisionRevoked
    | e.CallEnded
    | e.LateReport
)
_Noted: TypeAlias = (
    e.RunForked
    | e.InputAdded
    | e.RequestRefused
    | e.RequestLost
    | e.ResponseUnusable
    | e.RequestSettled
    | e.GrantMade
    | e.BoundedGrantMade
    | e.BudgetTaken
    | e.GrantRevoked
    | e.AgentChanged
    | e.HistoryRewritten
    | e.CancelAsked
    | e.ResumeAsked
    | e.OwnHistoryChosen
    | e.RunStopped
    | e.GuardrailsJudged
    | e.SessionClosed
)
_Untold: TypeAlias = (
    e.TurnLimitSet
    | e.ClaimDelayed
    | e.DelayOver
    | e.LadderSet
    | e.RungClimbed
    | e.SessionWriting
    | e.SessionWritten
    | e.ContextSaved
    | e.TurnJudged
    | e.HoldPlaced
    | e.HoldLifted
    | e.StandingGrantMade
    | e.RunErased
    | e.RunsDeleted
    | e.UserChanged
    | e.PasswordChanged
    | e.InvitationChanged
    | e.TokenChanged
    | e.PasskeyChanged
    | e.IdentityTied
    | e.FourEyesSet
    | e.PolicyChanged
    | e.ReportedAfterEnd
    | e.SubscriptionChanged
    | e.ChatLinkChanged
    | e.BudgetGivenBack
    | e.ApproversSet
    | e.DelegationMade
    | e.DelegationEnded
    | e.RotationSet
    | e.GlassReviewed
)
"""Bookkeeping, or of no run."""


def bare(fact: e.AnyFact) -> tuple[str, e.PlainFact]:
    """The path of the run that a fact is about, and the fact itself."""
    return (fact.path, fact.fact) if isinstance(fact, e.InChild) else (ROOT, fact)


def _decided(call: CallStory, line: int, fact: e.DecisionMade) -> Decided:
    changes = _changes(call.arguments, fact.arguments or {}) if fact.verdict == "edit" else {}
    return Decided(call.id, fact.at, line, fact, changes)


def _vote_step(
    at: float, line: int, call: CallStory, fact: e.ApproversRequired | e.VoteCast | e.VoteTakenBack
) -> Required | Voted | VoteWithdrawn:
    match fact:
        case e.ApproversRequired():
            changes = _changes(call.arguments, fact.arguments) if fact.arguments is not None else {}
            return Required(call.id, at, line, fact.requirement, fact.votes, fact.arguments, fact.editor, changes)
        case e.VoteCast():
            return Voted(call.id, fact.at, line, fact)
        case e.VoteTakenBack():
            return VoteWithdrawn(call.id, fact.at, line, fact.by, fact.reason)
        case never:
            assert_never(never)


def story_of(records: Iterable[e.Record]) -> RunStory:
    """What the log of a run tells."""
    story = Story()
    for _ in story.read(records):
        pass
    return story.root


class Story:
    """A log as it is read: its runs and calls, by path and by id."""

    def __init__(self, *, only_open: bool = False) -> None:
        """`only_open`: forget a turn when the next one comes, for readers that look at what goes on now."""
        self.root = RunStory()
        self.runs: dict[str, RunStory] = {ROOT: self.root}
        self.calls: dict[str, CallStory] = {}
        self.over: list[tuple[CallStory, RequestStory]] = []
        """The requests that are over with the last fact: acted upon, ended, or asked again."""
        self._asked: dict[str, CallStory] = {}
        """The calls that have an open request."""
        self._only_open = only_open

    def read(self, records: Iterable[e.Record]) -> Iterator[AnyStep | Note]:
        """Read a log line by line, telling what happened in its order."""
        for line, record in enumerate(records):
            for fact in record.facts:
                yield from self.take(record.at, fact, line)

    def run(self, path: str) -> RunStory:
        """The run with this path. One whose call was not seen is taken as it comes."""
        found = self.runs.get(path)
        if found is None:
            found = self.runs[path] = RunStory(path)
            owner = self.calls.get(path)
            if owner is not None:
                owner.child = found
        return found

    def call(self, local: str) -> CallStory:
        """The call with this id. One of a response that was not seen stands in no turn, and is taken as it comes."""
        found = self.calls.get(local)
        if found is None:
            run, turn = self.run(path_of(local)), local.rpartition("/")[2].partition(".")[0]
            run.turn = max(run.turn, int(turn) if turn.isdecimal() else 0)
            found = self.calls[local] = CallStory(local)
        return found

    def open_requests(self) -> Iterator[tuple[CallStory, RequestStory]]:
        return ((call, call.request) for call in self._asked.values() if call.request is not None)

    def take(self, at: float, fact: e.AnyFact, line: int = 0) -> list[AnyStep] | list[Note]:
        """Read the next fact. Returns what happened by it to calls, or to the run as a whole."""
        path, plain = bare(fact)
        run = self.run(path)
        self.over = []
        run.latest = max(run.latest, at)
        self.root.latest = max(self.root.latest, at)
        if isinstance(plain, _OfCalls):
            return [self._take(step) for step in _steps(at, line, plain)]
        if isinstance(plain, _OfCall):
            return [self._take(self._step(at, line, plain))]
        if isinstance(plain, _OfRun):
            self._take_of_run(run, at, line, plain)
            return []
        if isinstance(plain, _Untold):
            return []
        notes = list(_notes(path, at, line, plain))
        run.notes += notes
        self._follow(run, plain)
        return notes

    def _take(self, step: AnyStep) -> AnyStep:
        call = self.call(step.call)
        if isinstance(step, Ended):
            self._close_inside(call)
        request = call.take(step)
        if request is not None:
            self.over.append((call, request))
        if call.request is not None:
            self._asked[call.id] = call
        else:
            self._asked.pop(call.id, None)
        return step

    def _close_inside(self, call: CallStory) -> None:
        """With a call all runs nested in it are over, and what was asked in them."""
        for each, request in list(self.open_requests()):
            if each.id.startswith(f"{call.id}/"):
                self.over.append((each, request))
                del self._asked[each.id]
                each.request = None

    def _step(self, at: float, line: int, fact: _OfCall) -> AnyStep:
        call = self.call(fact.call)
        match fact:
            case e.ArgumentsValidated():
                return Validated(call.id, at, line, fact.values, _changes(call.arguments, fact.values))
            case e.PolicyJudged():
                return RulesHeard(call.id, at, line, fact)
            case e.CallHeld():
                asked = (call.questions + 1, fact.digest, fact.tool, fact.why, fact.expires_at)
                return Asked(call.id, at, line, "approval", *asked)
            case e.CallInDoubt():
                return Asked(call.id, at, line, "in_doubt", call.questions + 1, fact.digest, fact.tool, fact.why)
            case e.InputAsked():
                asked = (call.questions + 1, fact.digest, fact.tool, None, fact.expires_at)
                return Asked(call.id, at, line, "elicitation", *asked, fact.questions)
            case e.QuestionEscalated():
                return Escalated(call.id, at, line)
            case e.DecisionMade():
                return _decided(call, line, fact)
            case e.ApproversRequired() | e.VoteCast() | e.VoteTakenBack():
                return _vote_step(at, line, call, fact)
            case e.DecisionRevoked():
                return Revoked(call.id, fact.at, line, fact.by, fact.reason)
            case e.CallEnded():
                return Ended(call.id, at, line, fact.outcome, fact.output)
            case e.LateReport():
                return ReportedLate(call.id, at, line, fact.outcome, fact.output)
            case never:
                assert_never(never)

    def _take_of_run(self, run: RunStory, at: float, line: int, fact: _OfRun) -> None:
        match fact:
            case e.RunStarted():
                _begin(run, at, fact)
            case e.RequestSent():
                run.requests += 1
                run.asked_at, run.requested_in = at, None
            case e.GuestAdmitted():
                run.guest = fact
            case e.CallsProposed():
                self._answer(run, at, line, [each.item for each in fact.calls], _context_of(fact))
            case e.ResponseReceived():
                self._answer(run, at, line, fact.output)
            case e.RunEnded():
                run.ended_at, run.output = at, fact.output
            case e.RunCancelled():
                run.ended_at, run.was_cancelled = at, True
            case e.Erased():
                run.is_erased = self.root.is_erased = True
                run.began = run.began or at
            case never:
                assert_never(never)

    def _answer(self, run: RunStory, at: float, line: int, output: list[JsonObject], said: str = "") -> None:
        if self._only_open and run.guest is None:  # a guest's calls stand side by side
            self._forget(run)
        run.turn += 1
        planned = [call for _, call in plan_calls(run.path, run.turn, output, set()) if call is not None]
        calls = {each.id: CallStory(each.id, each.name, each.label, each.arguments, at, line) for each in planned}
        text = said or input_text([item for item in output if item.get("type") == "message"])
        run.turns.append(TurnStory(run.turn, at if run.asked_at is None else run.asked_at, at, line, text, calls))
        run.asked_at = None
        self.calls |= calls

    def _forget(self, run: RunStory) -> None:
        """Leave out the turns before, and the runs nested in them."""
        run.turns.clear()
        run.notes.clear()
        inside = f"{run.path}/" if run.path else ""
        self.calls = {local: call for local, call in self.calls.items() if not local.startswith(inside)}
        self._asked = {local: call for local, call in self._asked.items() if local in self.calls}
        self.runs = {path: each for path, each in self.runs.items() if not path.startswith(inside) or each is run}

    def _follow(self, run: RunStory, fact: _Noted) -> None:
        if isinstance(fact, e.AgentChanged):
            run.came_from, run.at_work = run.at_work, fact.agent
        elif isinstance(fact, e.RunForked):
            self._fork(fact.origin)

    def _fork(self, origin: str) -> None:
        """What was written so far was written in another run, under its ids."""
        for run in self.runs.values():
            run.requested_in = run.requested_in or origin
        for call in self.calls.values():
            call.started_in = call.started_in or origin
        for _, request in self.open_requests():
            request.asked_in = request.asked_in or origin


def _begin(run: RunStory, at: float, fact: e.RunStarted) -> None:
    run.agent = run.at_work = fact.agent
    run.input, run.began, run.by = input_text(fact.input), at, fact.by
    run.conversation = fact.session or (fact.server_id if fact.delivery == "conversation" else None)


def _context_of(fact: e.CallsProposed) -> str:
    """What led to the calls, as their guest tells it."""
    return "\n".join(dict.fromkeys(each.context for each in fact.calls if each.context))


def _steps(at: float, line: int, fact: _OfCalls) -> Iterator[Moved]:
    match fact:
        case e.CallsAllowed():
            return (Moved(each, at, line, "allowed") for each in fact.calls)
        case e.CallsDeferred():
            return (Moved(each, at, line, "deferred") for each in fact.calls)
        case e.CallsStarted():
            return (Moved(each, at, line, "started") for each in fact.calls)
        case never:
            assert_never(never)


def _notes(path: str, at: float, line: int, fact: _Noted) -> Iterator[Note]:
    match fact:
        case e.GuardrailsJudged():
            for each in fact.results:
                if each.tripped:
                    yield Note("tripped", path, at, line, f"{fact.kind}: {each.name}")
        case e.GrantMade():
            text = f"always {fact.verdict} {fact.tool}"
            yield Note("grant", path, fact.at, line, text, fact.by, fact.reason, fact)
        case e.BudgetTaken():
            pass  # the claim that stands behind it is told
        case e.GrantRevoked():
            yield Note("grant_over", path, fact.at, line, fact.id, fact.by, fact.reason)
        case e.CancelAsked():
            yield Note("cancel", path, fact.at, line, "", fact.by, fact.reason)
        case e.ResumeAsked():
            yield Note("resume", path, fact.at, line, "", fact.by)
        case e.OwnHistoryChosen():
            yield Note("own_history", path, fact.at, line, "", fact.by)
        case _:
            kind, text = _plain_note(fact)
            yield Note(kind, path, at, line, text)


_SETTLED = {True: "the request was taken", False: "the request was not taken"}


def _plain_note(
    fact: e.RunForked
    | e.InputAdded
    | e.RequestRefused
    | e.RequestLost
    | e.ResponseUnusable
    | e.RequestSettled
    | e.AgentChanged
    | e.HistoryRewritten
    | e.RunStopped
    | e.SessionClosed,
) -> tuple[NoteKind, str]:
    match fact:
        case e.RunForked():
            return "forked", f"from {fact.origin}"
        case e.InputAdded():
            return "input", input_text(fact.items)
        case e.RequestRefused():
            return "refused", fact.why
        case e.RequestLost():
            return "lost", fact.why
        case e.ResponseUnusable():
            return "unusable", fact.why
        case e.RequestSettled():
            return "settled", _SETTLED[fact.taken]
        case e.AgentChanged():
            return "handoff", f"to {fact.agent}"
        case e.HistoryRewritten():
            return "rewritten", f"the next agent reads {counted(len(fact.items), 'item')}"
        case e.RunStopped():
            return "stopped", f"{fact.code}: {fact.message}"
        case e.SessionClosed():
            return "closed", ", it goes on in ".join(filter(None, (fact.why, fact.next)))
        case never:
            assert_never(never)


def _changes(before: str, after: JsonObject) -> JsonObject:
    """What is other than it was; a name that was taken away is null."""
    original = parse_arguments(before) or {}
    return {name: after.get(name) for name in {**original, **after} if after.get(name) != original.get(name)}


def input_text(given: str | list[JsonObject]) -> str:
    """What was said, each message on a line of its own."""
    return given if isinstance(given, str) else "\n".join(filter(None, map(text_of, given)))
