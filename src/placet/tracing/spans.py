"""From facts to spans, for one drive. Every span has the facts' times, and nothing here touches the run.

invoke_agent Support                       the drive; one more each time the run is taken up again
├── chat                                   a request to the model
├── request_approval refund                the question, when it is asked
├── approval refund                        from the question to the decision, told by the drive that acts on it
├── execute_tool refund                    from the claim to the output
├── request_input ship, input ship         the same for a running call that asks a person something
└── execute_tool ask_billing
    └── invoke_agent ask_billing           a nested run, and in it the same again
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import Token
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, TypeAlias

from opentelemetry import context as otel
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from placet.core.story import Story, bare
from placet.core.story_tree import CallStory, RequestStory, Revoked, RunStory
from placet.facts import events as e
from placet.facts.ids import ROOT, path_of
from placet.tracing import content
from placet.tracing.attributes import Attributes, RunAttributes, Settings, agent_name, kind_of, of_handoff, of_usage
from placet.tracing.identity import DerivedIds, context_of

logger = logging.getLogger("placet.tracing")


@dataclass(slots=True)
class OpenRun:
    """A run, or a nested one, whose span this drive has begun."""

    span: Span
    usage: e.Usage = field(default_factory=e.Usage)
    chat: Span | None = None
    status: Literal["ended", "cancelled", "stopped"] | None = None


def report(run_id: str, error: Exception) -> None:
    """An error in tracing is tracing's own: it is logged, by its kind, and the run goes on."""
    logger.warning(
        "tracing failed", extra={"action": "tracing_failed", "run_id": run_id, "error": type(error).__name__}
    )


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1000


class DriveTrace:
    """The `DriveObserver` of one drive."""

    def __init__(
        self,
        tracer: Tracer,
        ids: DerivedIds | None,
        settings: Settings,
        run_id: str,
        before: Sequence[tuple[float, Sequence[e.AnyFact]]],
    ) -> None:
        self._tracer = tracer
        self._ids = ids
        self._settings = settings
        self.run_id = run_id
        self._caller = otel.get_current()
        self._story = Story(only_open=True)
        for at, facts in before:
            for fact in facts:
                self._story.take(at, fact)
        self._attributes = RunAttributes(settings, run_id, self._story)
        self._links_can_be_made = ids is not None and not settings.in_callers_trace
        """Whether this drive knows under which ids an earlier one told its spans."""
        self._position = len(before)
        self._links = self._links_to_earlier()
        self._at: float | None = None
        """The time of the last facts; the drive has none of its own."""
        self._open: dict[str, OpenRun] = {}
        self._function_spans: dict[str, Span] = {}
        self._errors: dict[str, BaseException] = {}
        """What tool functions raised: the facts say only that they failed."""
        self._approvals: dict[str, SpanContext] = {}
        self._has_failed = False

    # -- the port ----------------------------------------------------------------------------------------------------

    def on_facts(self, at: float, facts: Sequence[e.AnyFact]) -> None:
        self._at = at
        for fact in facts:
            try:
                self._trace_fact(at, fact)
            except Exception as error:  # noqa: BLE001  # it must not touch the run
                self.report(error)

    def around_tool_function(self, call_id: str) -> AbstractContextManager[None]:
        return _CurrentSpan(self, call_id)

    def drive_ended(self, error: BaseException | None) -> None:
        try:
            if self._at is None and error is None:
                return  # nothing happened: there is nothing to tell
            self._run(ROOT)
        except Exception as failure:  # noqa: BLE001  # as above
            self.report(failure)
        for path in sorted(self._open, key=len, reverse=True):  # innermost first
            try:
                self._end_run(path, error)
            except Exception as failure:  # noqa: BLE001  # as above
                self.report(failure)

    def report(self, error: Exception) -> None:
        """Once is enough: what fails for one span mostly fails for all."""
        if not self._has_failed:
            self._has_failed = True
            report(self.run_id, error)

    # -- telling -----------------------------------------------------------------------------------------------------

    def _trace_fact(self, at: float, fact: e.AnyFact) -> None:
        path, plain = bare(fact)
        self._story.take(at, fact)
        for call, request in self._story.over:
            self._trace_end_of_question(at, call, request, plain)
        handler = HANDLERS.get(type(plain))
        if handler is not None:
            handler(self, at, self._story.run(path), plain)
        elif ROOT not in self._open:
            self._run(ROOT)

    def _start(
        self,
        name: str,
        parent: Span,
        at: float | None,
        attributes: Attributes,
        place: tuple[str, ...] = (),
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        if self._ids is not None:
            self._ids.choose(*place)
        return self._tracer.start_span(
            name,
            context=set_span_in_context(parent, self._caller),
            kind=kind,
            attributes={**self._settings.attributes, **attributes},
            links=links,
            start_time=None if at is None else _nanoseconds(at),
        )

    def _end(self, span: Span, at: float | None) -> None:
        span.end(None if at is None else _nanoseconds(at))

    def _fail(self, span: Span, kind: str, error: BaseException | None = None) -> None:
        """Mark a span as failed. What exactly was said may hold content."""
        span.set_attribute("error.type", kind)
        message = str(error) if error is not None and self._settings.capture_content else None
        span.set_status(Status(StatusCode.ERROR, message))

    # -- runs --------------------------------------------------------------------------------------------------------

    def _links_to_earlier(self) -> list[Link]:
        """Where the run stood when it was left: at its open questions, or else at its last request to the model."""
        if not self._links_can_be_made:
            return []
        found = []
        for call, request in self._story.open_requests():
            request_id = self._attributes.request_id(call, request)
            asked = context_of(request.asked_in or self.run_id, "ask", self._attributes.request_key(call, request))
            found.append(Link(asked, {"placet.link": "paused_at", "placet.request.id": request_id}))
        root = self._story.root
        if not found and root.requests:
            earlier = context_of(root.requested_in or self.run_id, "chat", ROOT, str(root.requests))
            found.append(Link(earlier, {"placet.link": "continues"}))
        return found

    def _run(self, path: str) -> OpenRun:
        """The span of a run in this drive, begun when the first thing happens in it."""
        found = self._open.get(path)
        if found is None:
            run = self._story.run(path)
            attributes = self._attributes.of_agent(run, "invoke_agent")
            attributes["placet.run.id"] = self.run_id
            name = f"invoke_agent {agent_name(run.at_work)}".rstrip()
            if path:
                attributes["placet.run.path"] = path
                span = self._start(name, self._body(path), self._at, attributes)
            else:
                span = self._start_drive(name, attributes)
            found = self._open[path] = OpenRun(span)
        return found

    def _start_drive(self, name: str, attributes: Attributes) -> Span:
        attributes["placet.drive.position"] = self._position
        caller = get_current_span(self._caller)
        has_caller = caller.get_span_context().is_valid
        if has_caller and self._settings.in_callers_trace:
            return self._start(name, caller, self._at, attributes)
        links = list(self._links)
        if has_caller:
            links.append(Link(caller.get_span_context(), {"placet.link": "caller"}))
        span = self._start(name, INVALID_SPAN, self._at, attributes, links=links)
        if has_caller:
            caller.add_link(span.get_span_context(), {"placet.link": "run"})
        return span

    def _end_run(self, path: str, error: BaseException | None) -> None:
        """End the span of a run, and what is open in it, with the drive or before."""
        opened = self._open.pop(path)
        if opened.chat is not None:
            if error is not None:
                self._fail(opened.chat, kind_of(error), error)
            self._end(opened.chat, self._at)
        self._end_function_spans(path)
        is_waiting = self._waits_in(path) and (bool(path) or error is None)
        error = None if is_waiting else error  # what waits was not what failed
        opened.span.set_attribute("placet.run.status", opened.status or ("waiting" if is_waiting else "stopped"))
        opened.span.set_attributes(of_usage(opened.usage))
        if isinstance(error, asyncio.CancelledError):
            opened.span.set_attribute("error.type", kind_of(error))  # it was asked for: no failure
        elif error is not None and opened.status != "ended":
            self._fail(opened.span, kind_of(error), error)
        self._end(opened.span, self._at)

    def _end_function_spans(self, path: str) -> None:
        for local in [local for local in self._function_spans if path_of(local) == path]:
            body = self._function_spans.pop(local)
            body.set_attribute("placet.call.outcome", "waiting" if self._waits_in(local) else "unknown")
            self._end(body, self._at)

    def _waits_in(self, path: str) -> bool:
        """Whether a person is asked something in this run or in a run nested in it."""
        inside = f"{path}/" if path else ""
        return any(call.id.startswith(inside) and call.waits for call, _ in self._story.open_requests())

    def _event(self, path: str, name: str, at: float, attributes: Attributes) -> None:
        self._run(path).span.add_event(name, attributes, _nanoseconds(at))

    def _run_started(self, _at: float, run: RunStory, fact: e.RunStarted) -> None:
        opened = self._run(run.path)
        if self._settings.capture_content:
            opened.span.set_attribute("gen_ai.input.messages", content.input_messages(fact.input))

    def _run_ended(self, _at: float, run: RunStory, fact: e.RunEnded) -> None:
        opened = self._run(run.path)
        opened.status = "ended"
        if self._settings.capture_content:
            opened.span.set_attribute("gen_ai.output.messages", content.final_message(fact.output))
        if run.path:
            self._end_run(run.path, None)

    def _run_cancelled(self, _at: float, run: RunStory, _fact: e.RunCancelled) -> None:
        self._run(run.path).status = "cancelled"

    def _run_stopped(self, _at: float, run: RunStory, _fact: e.RunStopped) -> None:
        self._run(run.path).status = "stopped"

    def _cancel_asked(self, _at: float, run: RunStory, fact: e.CancelAsked) -> None:
        self._event(run.path, "placet.cancel_asked", fact.at, self._attributes.of_person(fact.by))

    def _agent_changed(self, at: float, run: RunStory, _fact: e.AgentChanged) -> None:
        self._event(run.path, "placet.handoff", at, of_handoff(run))

    def _guardrails_judged(self, at: float, run: RunStory, fact: e.GuardrailsJudged) -> None:
        for each in fact.results:
            self._event(run.path, "placet.guardrail", at, self._attributes.of_guardrail(fact, each))

    def _grant_made(self, at: float, run: RunStory, fact: e.GrantMade) -> None:
        self._event(run.path, "placet.grant", at, self._attributes.of_grant(fact))

    # -- the model ---------------------------------------------------------------------------------------------------

    def _request_sent(self, at: float, run: RunStory, _fact: e.RequestSent) -> None:
        opened = self._run(run.path)
        if opened.chat is not None:  # of an attempt that nothing became of
            self._end(opened.chat, at)
        self._end_function_spans(run.path)  # the model is asked when all calls have ended, whether that was told or not
        attributes = self._attributes.of_agent(run, "chat")
        attributes["placet.turn"] = run.turn + 1
        model = self._settings.attributes.get("gen_ai.request.model")
        place = ("chat", run.path, str(run.requests))
        name = "chat" if model is None else f"chat {model}"
        opened.chat = self._start(name, opened.span, at, attributes, place, kind=SpanKind.CLIENT)

    def _response_received(self, at: float, run: RunStory, fact: e.ResponseReceived) -> None:
        path = run.path
        while True:  # what a nested run used, the runs around it used too
            self._run(path).usage.add(fact.usage)
            if not path:
                break
            path = path_of(path)
        chat = self._end_of_chat(run)
        if chat is None:
            return
        if fact.response_id is not None:
            chat.set_attribute("gen_ai.response.id", fact.response_id)
        chat.set_attributes(of_usage(fact.usage))
        if self._settings.capture_content:
            chat.set_attribute("gen_ai.output.messages", content.output_messages(fact.output))
        self._end(chat, at)

    def _response_unusable(self, at: float, run: RunStory, fact: e.ResponseUnusable) -> None:
        chat = self._end_of_chat(run)
        if chat is not None:
            if fact.response_id is not None:
                chat.set_attribute("gen_ai.response.id", fact.response_id)
            self._fail(chat, "unusable_response")
            self._end(chat, at)

    def _request_failed(self, at: float, run: RunStory, fact: e.RequestRefused | e.RequestLost) -> None:
        chat = self._end_of_chat(run)
        if chat is not None:
            chat.set_attribute("placet.delivery", "refused" if isinstance(fact, e.RequestRefused) else "unknown")
            self._fail(chat, fact.why)
            self._end(chat, at)

    def _end_of_chat(self, run: RunStory) -> Span | None:
        opened = self._run(run.path)
        chat, opened.chat = opened.chat, None
        return chat

    # -- questions ---------------------------------------------------------------------------------------------------

    def _asked(self, at: float, run: RunStory, fact: e.CallHeld | e.CallInDoubt | e.InputAsked) -> None:
        call = self._story.call(fact.call)
        body = self._function_spans.pop(call.id, None)
        if body is not None:
            is_asking = isinstance(fact, e.InputAsked)  # it ended for now, and nothing went wrong
            body.set_attribute("placet.call.outcome", "input_asked" if is_asking else "in_doubt")
            if not is_asking:
                self._fail(body, "in_doubt")
            self._end(body, at)
        assert call.request is not None, "the story has just taken it in"
        is_input = call.request.asked.kind == "elicitation"
        span = self._start(
            f"request_input {call.name}" if is_input else f"request_approval {call.name}",
            self._run(run.path).span,
            at,
            self._attributes.of_question(call, call.request),
            place=("ask", self._attributes.request_key(call, call.request)),
        )
        self._end(span, at)

    def _trace_end_of_question(self, at: float, call: CallStory, request: RequestStory, ended_by: e.PlainFact) -> None:
        """The wait, whole: a drive ends with the question, so the one that acts on the answer tells of both."""
        decision = request.decision
        end = max(request.asked.at, at if decision is None else decision.at)
        key = self._attributes.request_key(call, request)
        asked = Link(context_of(request.asked_in or self.run_id, "ask", key), {"placet.link": "request"})
        span = self._start(
            f"input {call.name}" if request.asked.kind == "elicitation" else f"approval {call.name}",
            self._run(path_of(call.id)).span,
            request.asked.at,
            self._attributes.of_wait(call, request, end, ended_by),
            place=("approval", key),
            links=[asked] if self._links_can_be_made else (),
        )
        for event in request.moments:
            by = event.by if isinstance(event, Revoked) else None
            name = "placet.decision.revoked" if isinstance(event, Revoked) else "placet.request.escalated"
            span.add_event(name, self._attributes.of_person(by), _nanoseconds(event.at))
        self._approvals[call.id] = span.get_span_context()
        self._end(span, end)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _calls_started(self, at: float, run: RunStory, fact: e.CallsStarted) -> None:
        for local in fact.calls:
            call = self._story.call(local)
            if call.is_handoff:
                continue
            approval = self._approvals.pop(local, None)
            links = [] if approval is None else [Link(approval, {"placet.link": "approval"})]
            self._start_function_span(call, at, links, ("tool", local, str(call.attempts)))

    def _start_function_span(
        self, call: CallStory, at: float | None, links: Sequence[Link], place: tuple[str, ...] = ()
    ) -> Span:
        attributes = self._attributes.of_tool_function(call, is_continued=not place)
        parent = self._run(path_of(call.id)).span
        span = self._start(f"execute_tool {call.name}".rstrip(), parent, at, attributes, place, links)
        self._function_spans[call.id] = span
        return span

    def _body(self, local: str) -> Span:
        """The span of the call in which a run is nested. A call that an earlier drive started goes on in a new one."""
        found = self._function_spans.get(local)
        if found is not None:
            return found
        call = self._story.call(local)
        links = []
        if self._links_can_be_made:
            first = context_of(call.started_in or self.run_id, "tool", local, str(call.attempts))
            links.append(Link(first, {"placet.link": "continues"}))
        return self._start_function_span(call, self._at, links)

    def _call_ended(self, at: float, run: RunStory, fact: e.CallEnded) -> None:
        nested = [path for path in self._open if path == fact.call or path.startswith(f"{fact.call}/")]
        for path in sorted(nested, key=len, reverse=True):
            self._end_run(path, None)
        call, body = self._story.call(fact.call), self._function_spans.pop(fact.call, None)
        raised = self._errors.pop(fact.call, None)
        if body is None:
            if fact.outcome in ("denied", "failed"):
                self._event(run.path, f"placet.call.{fact.outcome}", at, self._attributes.of_call(call))
            return
        body.set_attribute("placet.call.outcome", fact.outcome)
        if self._settings.capture_content:
            body.set_attribute("gen_ai.tool.call.result", content.as_text(fact.output))
        if fact.outcome != "finished":
            self._fail(body, fact.outcome if raised is None else kind_of(raised), raised)
        self._end(body, at)

    def function_raised(self, local: str, error: BaseException) -> None:
        self._errors[local] = error

    def function_span(self, local: str) -> Span | None:
        return self._function_spans.get(local)


class _CurrentSpan(AbstractContextManager[None]):
    """While a tool function runs, its span is the current one: what the tool function traces itself hangs below it."""

    __slots__ = ("_call", "_token", "_trace")

    def __init__(self, trace: DriveTrace, call: str) -> None:
        self._trace = trace
        self._call = call
        self._token: Token[otel.Context] | None = None

    def __enter__(self) -> None:
        try:
            span = self._trace.function_span(self._call)
            if span is not None:
                self._token = otel.attach(set_span_in_context(span))
        except Exception as failure:  # noqa: BLE001  # it must not touch the tool function
            self._trace.report(failure)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if error is not None:
            self._trace.function_raised(self._call, error)
        if self._token is not None:
            otel.detach(self._token)


_Handler: TypeAlias = Callable[[DriveTrace, float, RunStory, Any], None]  # Any: each takes the fact of its key
HANDLERS: dict[type[e.Fact], _Handler] = {
    e.RunStarted: DriveTrace._run_started,
    e.RunEnded: DriveTrace._run_ended,
    e.RunCancelled: DriveTrace._run_cancelled,
    e.RunStopped: DriveTrace._run_stopped,
    e.CancelAsked: DriveTrace._cancel_asked,
    e.AgentChanged: DriveTrace._agent_changed,
    e.GuardrailsJudged: DriveTrace._guardrails_judged,
    e.GrantMade: DriveTrace._grant_made,
    e.BoundedGrantMade: DriveTrace._grant_made,
    e.RequestSent: DriveTrace._request_sent,
    e.ResponseReceived: DriveTrace._response_received,
    e.ResponseUnusable: DriveTrace._response_unusable,
    e.RequestRefused: DriveTrace._request_failed,
    e.RequestLost: DriveTrace._request_failed,
    e.CallHeld: DriveTrace._asked,
    e.CallInDoubt: DriveTrace._asked,
    e.InputAsked: DriveTrace._asked,
    e.CallsStarted: DriveTrace._calls_started,
    e.CallEnded: DriveTrace._call_ended,
}
"""How each fact is told."""

UNTOLD: frozenset[type[e.Fact]] = frozenset(
    {
        e.ApproversRequired,
        e.ApproversSet,
        e.DelegationMade,
        e.DelegationEnded,
        e.RotationSet,
        e.GlassReviewed,
        e.PolicyJudged,
        e.ArgumentsValidated,  # the call's span shows the values
        e.CallsAllowed,
        e.CallsDeferred,
        e.CallsProposed,  # no drive executes a guest's calls
        e.ContextSaved,
        e.DecisionMade,  # told with its question, by the drive that acts on it
        e.DecisionRevoked,
        e.Erased,
        e.FourEyesSet,
        e.PolicyChanged,
        e.GrantRevoked,
        e.GuestAdmitted,
        e.HistoryRewritten,
        e.HoldLifted,
        e.HoldPlaced,
        e.InputAdded,
        e.InvitationChanged,
        e.BudgetGivenBack,
        e.ChatLinkChanged,
        e.BudgetTaken,
        e.LateReport,
        e.PasswordChanged,
        e.QuestionEscalated,
        e.LadderSet,
        e.RungClimbed,
        e.ReportedAfterEnd,
        e.RequestSettled,
        e.ClaimDelayed,
        e.DelayOver,
        e.OwnHistoryChosen,
        e.ResumeAsked,
        e.RunErased,
        e.RunForked,
        e.RunsDeleted,
        e.SessionClosed,
        e.SessionWriting,
        e.SessionWritten,
        e.StandingGrantMade,
        e.SubscriptionChanged,
        e.TokenChanged,
        e.PasskeyChanged,
        e.IdentityTied,
        e.TurnJudged,
        e.TurnLimitSet,
        e.UserChanged,
        e.VoteCast,  # a question is told when it is decided
        e.VoteTakenBack,
    }
)
"""The facts that no span is made of."""
