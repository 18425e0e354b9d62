"""Tracing never touches a run: not by its errors, not by being there, not by being absent."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from placet import Agent, RunConfig, Runner, UserError
from placet.testing import ManualClock
from placet.tracing import OpenTelemetryTracing
from tests.tracing.scenes import DONE, Traces, ask, attributes, call, gated, is_child, links, scripted, to, tool


def busy() -> Agent[Any]:
    """An agent whose run has everything in it: calls, a nested run, a handoff, questions."""
    inner = scripted([[call("pay", "c4")], DONE], gated(), name="Inner")
    other = scripted([DONE], name="Other")
    calls = [call("look", "c1"), call("pay", "c2"), ask("ask", "c3"), call("transfer_to_other", "c5")]
    return scripted([calls], tool(), gated(), inner.as_tool("ask", "…"), handoffs=[other])


async def play(config: RunConfig) -> Any:
    """Run, approve everything, go on."""
    agent = busy()
    state = (await Runner.run(agent, "go", run_config=config)).to_state()
    for item in state.get_interruptions():
        state.approve(item)
    result = await Runner.run(agent, state, run_config=config)
    return [type(item).__name__ for item in result.new_items], result.final_output


class RaisingExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("no network")


class RaisingProcessor(SpanProcessor):
    def __init__(self, where: str) -> None:
        self.where = where

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.where == "start":
            raise RuntimeError("processor")

    def on_end(self, span: ReadableSpan) -> None:
        if self.where == "end":
            raise RuntimeError("processor")


class RaisingSampler(Sampler):
    def should_sample(self, *_args: Any, **_options: Any) -> SamplingResult:
        raise RuntimeError("sampler")

    def get_description(self) -> str:
        return "raises"


class RaisingProvider(trace.TracerProvider):
    def get_tracer(self, *_args: Any, **_options: Any) -> trace.Tracer:
        raise RuntimeError("provider")


async def test_an_exporter_that_raises_changes_nothing_of_the_run(
    traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "opentelemetry.sdk.trace.export")  # the SDK logs each of them at length
    traces.add(SimpleSpanProcessor(RaisingExporter()))

    traced = await play(traces.config())

    assert traced == await play(RunConfig())
    assert traces.all("execute_tool pay")


@pytest.mark.parametrize("where", ["start", "end"])
async def test_a_span_processor_that_raises_changes_nothing_of_the_run(
    traces: Traces, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "placet.tracing")  # an MCP server in this process may have set the root's
    traces.add(RaisingProcessor(where))

    traced = await play(traces.config())

    assert traced == await play(RunConfig())
    logged = [(each.action, each.error) for each in caplog.records if each.name == "placet.tracing"]
    assert logged == [("tracing_failed", "RuntimeError")] * 2  # once for each drive


async def test_a_sampler_that_raises_changes_nothing_of_the_run() -> None:
    assert await play(Traces(RaisingSampler()).config()) == await play(RunConfig())


async def test_a_provider_that_raises_changes_nothing_of_the_run() -> None:
    config = RunConfig(observers=[OpenTelemetryTracing(RaisingProvider())])

    assert await play(config) == await play(RunConfig())


async def test_without_a_provider_nothing_is_traced_and_nothing_goes_wrong() -> None:
    config = RunConfig(observers=[OpenTelemetryTracing()])

    assert await play(config) == await play(RunConfig())


async def test_a_tracer_that_is_not_the_sdks_is_used_as_it_is_and_makes_no_links(traces: Traces) -> None:
    class Wrapper(trace.Tracer):
        """As vendors ship them: ids are its own affair."""

        def __init__(self, inner: trace.Tracer) -> None:
            self._inner = inner

        def start_span(self, *args: Any, **options: Any) -> Any:
            return self._inner.start_span(*args, **options)

        start_as_current_span = None  # type: ignore[assignment]

    own = Wrapper(traces.provider.get_tracer("vendor"))
    config = RunConfig(observers=[OpenTelemetryTracing(tracer=own)], clock=ManualClock())

    await play(config)

    first, second = traces.all("invoke_agent Clerk")
    assert first.context.trace_id != second.context.trace_id
    assert links(second) == []
    assert all(is_child(each, second) for each in traces.all("approval pay")[:1])


async def test_the_tracer_that_was_given_keeps_its_ids(traces: Traces) -> None:
    given = traces.provider.get_tracer("mine")
    before = given.id_generator  # type: ignore[attr-defined]

    await play(RunConfig(observers=[OpenTelemetryTracing(tracer=given)]))

    assert given.id_generator is before  # type: ignore[attr-defined]
    assert {span.instrumentation_scope.name for span in traces.spans if span.instrumentation_scope} == {"mine"}


def test_a_provider_and_a_tracer_together_are_refused(traces: Traces) -> None:
    with pytest.raises(UserError, match="not both"):
        OpenTelemetryTracing(traces.provider, tracer=traces.provider.get_tracer("mine"))


# -- whoever runs the run ----------------------------------------------------------------------------------------------


async def test_a_run_has_its_own_trace_and_is_linked_with_its_caller_both_ways(traces: Traces) -> None:
    with traces.provider.get_tracer("web").start_as_current_span("POST /chat"):
        await traces.go(scripted([DONE]), "go")

    drive, caller = traces.one("invoke_agent Clerk"), traces.one("POST /chat")
    assert drive.parent is None
    assert drive.context.trace_id != caller.context.trace_id
    assert links(drive) == [to("caller", caller)]
    assert links(caller) == [to("run", drive)]


async def test_drives_can_be_put_into_the_traces_of_their_callers_and_then_have_no_links(traces: Traces) -> None:
    agent = scripted([[call("pay", "c1")], DONE], gated())
    config = traces.config(in_callers_trace=True)
    web = traces.provider.get_tracer("web")
    with web.start_as_current_span("POST /chat"):
        state = (await traces.go(agent, "go", run_config=config)).to_state()
    state.approve(state.get_interruptions()[0])
    with web.start_as_current_span("POST /approve"):
        await traces.go(agent, state, run_config=config)

    first, second = traces.all("invoke_agent Clerk")
    assert is_child(first, traces.one("POST /chat"))
    assert is_child(second, traces.one("POST /approve"))
    assert links(second) == []
    assert attributes(first)["placet.run.id"] == attributes(second)["placet.run.id"]
    assert is_child(traces.one("approval pay"), second)


async def test_a_callers_span_that_is_not_recorded_is_no_obstacle(traces: Traces) -> None:
    remote = NonRecordingSpan(SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(0)))
    with trace.use_span(remote):
        await traces.go(scripted([DONE]), "go")

    assert links(traces.one("invoke_agent Clerk")) == [("caller", 1, 2)]


# -- off ---------------------------------------------------------------------------------------------------------------


async def calls_into_tracing(config: RunConfig) -> Counter[str]:
    """How often a run enters a function of the tracing or of OpenTelemetry, by package."""
    found: Counter[str] = Counter()

    def look(frame: Any, event: str, _arg: Any) -> None:
        if event == "call":
            name = str(frame.f_globals.get("__name__"))
            found.update(package for package in ("placet.tracing", "opentelemetry") if name.startswith(package))

    sys.setprofile(look)
    try:
        await play(config)
    finally:
        sys.setprofile(None)
    return found


async def test_a_run_without_observers_calls_nothing_of_the_tracing(traces: Traces) -> None:
    assert await calls_into_tracing(RunConfig()) == Counter()
    assert (await calls_into_tracing(traces.config()))["placet.tracing"] > 100


def test_importing_and_running_placet_does_not_import_opentelemetry() -> None:
    program = (
        "import sys, placet; from placet.testing import *;"
        "a = placet.Agent('A', model=ScriptedModel([[assistant_message('hi')]]));"
        "placet.Runner.run_sync(a, 'go');"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'placet.tracing'))])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603  # our own words

    assert done.stdout.strip() == "[]"


def test_a_missing_extra_is_one_clear_sentence() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import placet.tracing"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  # our own words

    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: Tracing needs OpenTelemetry, which is not installed: pip install 'placet[otel]'."
    )
