"""A run's spans in the SDK's words, made of the facts that become durable: an observer like any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from placet import RunConfig, Usage
from placet.agents.tracing.config import include_task_and_turn_spans
from placet.agents.tracing.create import get_current_span, get_current_trace
from placet.agents.tracing.provider import DefaultTraceProvider
from placet.agents.tracing.scope import Scope
from placet.agents.tracing.setup import get_trace_provider
from placet.agents.tracing.span_data import (
    AgentSpanData,
    FunctionSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    ResponseSpanData,
    SpanData,
    TaskSpanData,
    TurnSpanData,
)
from placet.agents.tracing.spans import Span
from placet.agents.tracing.traces import Trace
from placet.core.calls import plan_calls
from placet.facts import events as e
from placet.facts.codec import encode
from placet.facts.ids import path_of, split_call_id
from placet.ports import DriveObserver, Observer
from placet.runtime.defaults import set_default_observers


def install() -> None:
    """From now on every run is told to the processors, if there are any."""
    set_default_observers(observers_of)


def observers_of(config: RunConfig) -> Sequence[Observer]:
    provider = get_trace_provider()
    is_listening = not isinstance(provider, DefaultTraceProvider) or provider.is_listening
    return [RunTracing(config)] if is_listening and not config.tracing_disabled else []


class RunTracing:
    """Watches the drives of one call of the Runner."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def drive_began(
        self, run_id: str, before: Sequence[tuple[float, Sequence[e.AnyFact]]], metadata: Mapping[str, str]
    ) -> DriveObserver:
        return _Drive(self._config, before, metadata)


class _Opened:
    """The spans of a run, or of one nested in it, that are open."""

    def __init__(self, parent: Span[Any] | Trace) -> None:
        self.parent = parent
        self.address = ""
        self.turn_number = 0
        self.agent: Span[Any] | None = None
        self.turn: Span[Any] | None = None
        self.request: Span[Any] | None = None
        self.usage = Usage()
        self.names: dict[str, tuple[str, str]] = {}
        """The open turn's calls: name and arguments."""
        self.handoffs: set[str] = set()

    @property
    def inner(self) -> Span[Any] | Trace:
        return self.turn or self.agent or self.parent


class _Drive:
    def __init__(
        self,
        config: RunConfig,
        before: Sequence[tuple[float, Sequence[e.AnyFact]]],
        metadata: Mapping[str, str],
    ) -> None:
        self._config = config
        self._provider = get_trace_provider()
        self._own_trace: Trace | None = None
        self._token = None
        current = get_current_trace()
        if current is None:
            current = self._provider.create_trace(
                config.workflow_name,
                config.trace_id,
                config.group_id,
                dict(metadata) or None,
                tracing=config.tracing,  # type: ignore[arg-type]  # its keys are looked at where they are used
            )
            self._own_trace = current
            current.start(mark_as_current=True)
        self._shows = config.trace_include_sensitive_data
        self._has_frame_spans = include_task_and_turn_spans(config.tracing)  # type: ignore[arg-type]
        above: Span[Any] | Trace = get_current_span() or current
        self._task: Span[Any] | None = None
        self._usage = Usage()
        if self._has_frame_spans:
            self._task = self._begin(TaskSpanData(config.workflow_name), above, None)
            self._token = Scope.set_current_span(self._task)
            above = self._task
        self._runs: dict[str, _Opened] = {"": _Opened(above)}
        self._function_spans: dict[str, Span[Any]] = {}
        self._remember(before)

    # -- the observer's verbs ---------------------------------------------------------------------------------------

    def on_facts(self, at: float, facts: Sequence[e.AnyFact]) -> None:
        for each in facts:
            path, fact = (each.path, each.fact) if isinstance(each, e.InChild) else ("", each)
            self._trace_fact(at, path, fact)

    def around_tool_function(self, call_id: str) -> AbstractContextManager[None]:
        span = self._function_spans.get(split_call_id(call_id)[1]) or self._function_spans.get(call_id)
        return nullcontext() if span is None else _current(span)

    def drive_ended(self, error: BaseException | None) -> None:
        for local in [*self._function_spans]:
            self._end(self._function_spans.pop(local), None)
        for path in sorted(self._runs, key=len, reverse=True):
            run = self._runs[path]
            innermost = run.request or run.turn or run.agent
            if error is not None and innermost is not None and not path:
                innermost.set_error({"message": type(error).__name__, "data": {"error": self._shown(str(error))}})
            self._close_agent(run, None)
        if self._token is not None:
            Scope.reset_current_span(self._token)
        if self._task is not None:
            self._task.span_data.usage = {**_figures(self._usage), **_totals(self._usage)}
            self._end(self._task, None)
        if self._own_trace is not None:
            self._own_trace.finish(reset_current=True)

    # -- from facts to spans -----------------------------------------------------------------------------------------

    def _remember(self, before: Sequence[tuple[float, Sequence[e.AnyFact]]]) -> None:
        """Where a run that is gone on with stands: who is at work, and what its calls are called."""
        for _, facts in before:
            for each in facts:
                path, fact = (each.path, each.fact) if isinstance(each, e.InChild) else ("", each)
                run = self._run(path)
                if isinstance(fact, e.RunStarted | e.AgentChanged):
                    run.address = fact.agent
                elif isinstance(fact, e.ResponseReceived):
                    self._plan(run, path, fact)

    def _run(self, path: str) -> _Opened:
        if path not in self._runs:
            above = self._function_spans.get(path)
            self._runs[path] = _Opened(above if above is not None else self._run(path_of(path)).inner)
        return self._runs[path]

    def _trace_fact(self, at: float, path: str, fact: e.PlainFact) -> None:
        run = self._run(path)
        match fact:
            case e.RunStarted():
                run.address = fact.agent
                self._open_agent(run, at)
            case e.RequestSent():
                self._open_turn(run, at)
                run.request = self._begin(ResponseSpanData(), run.inner, at)
            case e.ResponseReceived():
                self._received(run, path, fact, at)
            case e.RequestRefused() | e.RequestLost() | e.ResponseUnusable():
                self._failed(run, fact.why, at)
            case e.CallsDeferred():
                run.handoffs.update(fact.calls)
            case e.CallsStarted():
                self._start_function_spans(run, fact.calls, at)
            case e.CallEnded():
                self._end_function_span(fact, at)
            case e.AgentChanged():
                self._handed_over(run, fact, at)
            case e.GuardrailsJudged():
                self._trace_guardrails(run, fact.results, at)
            case e.RunEnded() | e.RunCancelled():
                self._close_agent(run, at)
            case _:
                pass

    def _start_function_spans(self, run: _Opened, calls: Iterable[str], at: float) -> None:
        for call in calls:
            if call not in run.handoffs:  # they have a span of their own
                self._start_function_span(run, call, at)

    def _trace_guardrails(self, run: _Opened, results: Iterable[e.GuardrailRecord], at: float) -> None:
        for record in results:
            self._end(self._begin(GuardrailSpanData(record.name, record.tripped), run.inner, at), at)

    def _open_agent(self, run: _Opened, at: float | None) -> None:
        if run.agent is None:
            name = _name_of(run.address)
            run.agent = self._begin(AgentSpanData(name, [], [], "str"), run.parent, at)

    def _open_turn(self, run: _Opened, at: float) -> None:
        self._open_agent(run, at)
        self._close_turn(run, at)
        run.turn_number += 1
        if self._has_frame_spans:
            data = TurnSpanData(run.turn_number, _name_of(run.address))
            run.turn = self._begin(data, run.agent or run.parent, at)

    def _received(self, run: _Opened, path: str, fact: e.ResponseReceived, at: float) -> None:
        self._usage.add(fact.usage)
        run.usage.add(fact.usage)
        if run.request is not None:
            data = run.request.span_data
            data._response_id, data.usage = fact.response_id, _figures(fact.usage)
            self._end(run.request, at)
            run.request = None
        self._plan(run, path, fact)

    def _plan(self, run: _Opened, path: str, fact: e.ResponseReceived) -> None:
        turn = run.turn_number = max(run.turn_number, 1)
        for _, call in plan_calls(path, turn, fact.output, set()):
            if call is not None:
                run.names[call.id.rpartition(".")[2]] = (call.name, call.arguments)

    def _failed(self, run: _Opened, why: str, at: float) -> None:
        if run.request is not None:
            run.request.set_error({"message": why, "data": None})
            self._end(run.request, at)
            run.request = None

    def _start_function_span(self, run: _Opened, call: str, at: float) -> None:
        self._open_agent(run, at)
        name, arguments = run.names.get(call.rpartition(".")[2], ("tool", ""))
        shown = arguments if self._shows else None
        self._function_spans[call] = self._begin(FunctionSpanData(name, shown, None), run.inner, at)

    def _end_function_span(self, fact: e.CallEnded, at: float) -> None:
        for path in [each for each in self._runs if each == fact.call or each.startswith(f"{fact.call}/")]:
            self._close_agent(self._runs.pop(path), at)
        span = self._function_spans.pop(fact.call, None)
        if span is None:
            return
        if self._shows:
            span.span_data.output = fact.output if isinstance(fact.output, str) else encode(fact.output).decode()
        if fact.outcome != "finished":
            span.set_error({"message": "Error running tool (non-fatal)", "data": {"outcome": fact.outcome}})
        self._end(span, at)

    def _handed_over(self, run: _Opened, fact: e.AgentChanged, at: float) -> None:
        data = HandoffSpanData(_name_of(run.address), _name_of(fact.agent))
        self._end(self._begin(data, run.inner, at), at)
        self._close_agent(run, at)
        run.address = fact.agent

    def _close_turn(self, run: _Opened, at: float | None) -> None:
        if run.request is not None:
            self._end(run.request, at)
            run.request = None
        if run.turn is not None:
            run.turn.span_data.usage = _figures(run.usage)
            self._end(run.turn, at)
        run.turn, run.usage = None, Usage()
        run.names = {}

    def _close_agent(self, run: _Opened, at: float | None) -> None:
        self._close_turn(run, at)
        if run.agent is not None:
            self._end(run.agent, at)
            run.agent = None

    def _begin(self, data: SpanData, parent: Span[Any] | Trace, at: float | None) -> Span[Any]:
        span = self._provider.create_span(data, parent=parent)
        span.start(at=at)
        return span

    def _end(self, span: Span[Any], at: float | None) -> None:
        span.finish(at=at)

    def _shown(self, text: str) -> str:
        return text if self._shows else "hidden"


@contextmanager
def _current(span: Span[Any]) -> Iterator[None]:
    token = Scope.set_current_span(span)
    try:
        yield
    finally:
        Scope.reset_current_span(token)


def _figures(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_tokens,
        "cache_write_input_tokens": usage.cache_write_tokens,
    }


def _totals(usage: Usage) -> dict[str, Any]:
    return {"requests": usage.requests, "total_tokens": usage.total_tokens}


def _name_of(address: str) -> str:
    """The agent at the end of an address: `Support`, `Support>Billing`, `Support/ask_billing(Billing)`."""
    last = address[max(address.rfind("/"), address.rfind(">")) + 1 :]
    if "/" in address and last.endswith(")") and address.rfind("/") > address.rfind(">"):
        last = last.partition("(")[2].removesuffix(")")
    return last.replace("%2F", "/").replace("%3E", ">").replace("%25", "%")
