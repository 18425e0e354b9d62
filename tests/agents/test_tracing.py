"""Tracing in the SDK's words: processors get its objects, and OpenTelemetry sees the same spans."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from placet.agents import (
    Agent,
    RunConfig,
    Runner,
    TracingProcessor,
    custom_span,
    function_tool,
    get_current_span,
    get_current_trace,
    set_trace_processors,
    set_tracing_disabled,
    trace,
)
from placet.agents.testing import ScriptedModel, assistant_message, function_call


class Told(TracingProcessor):
    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.spans: list[Any] = []
        self.ended: list[str] = []

    def on_trace_start(self, trace: Any) -> None:
        self.traces.append(trace)

    def on_trace_end(self, trace: Any) -> None:
        self.ended.append(trace.name)

    def on_span_start(self, span: Any) -> None:
        self.spans.append(span)

    def on_span_end(self, span: Any) -> None:
        self.ended.append(span.span_data.type)

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...

    def tree(self) -> list[tuple[str, str | None]]:
        kinds = {span.span_id: span.span_data.type for span in self.spans}
        return [(span.span_data.type, kinds.get(span.parent_id)) for span in self.spans]


@pytest.fixture
def told():
    found = Told()
    set_trace_processors([found])
    yield found
    set_trace_processors([])
    set_tracing_disabled(False)


@function_tool
def look(n: int) -> str:
    """Look."""
    with custom_span("inside", {"n": n}):
        return str(n)


def agent_that_looks() -> Agent[Any]:
    model = ScriptedModel([[function_call("look", {"n": 7}, call_id="c")], [assistant_message("bye")]])
    return Agent(name="A", tools=[look], model=model)


async def test_a_run_is_a_trace_with_its_spans(told):
    await Runner.run(agent_that_looks(), "hi", run_config=RunConfig(workflow_name="W", trace_metadata={"who": "me"}))

    assert told.tree() == [
        ("task", None),
        ("agent", "task"),
        ("turn", "agent"),
        ("response", "turn"),
        ("function", "turn"),
        ("custom", "function"),
        ("turn", "agent"),
        ("response", "turn"),
    ]
    assert [each.name for each in told.traces] == ["W"]
    assert told.traces[0].export()["metadata"] == {"who": "me"}
    assert sorted(told.ended) == sorted(["W", *(kind for kind, _ in told.tree())])
    function = next(span for span in told.spans if span.span_data.type == "function")
    assert function.span_data.export() == {
        "type": "function",
        "name": "look",
        "input": '{"n": 7}',
        "output": "7",
        "mcp_data": None,
    }


async def test_runs_inside_a_trace_belong_to_it(told):
    with trace("both", group_id="g") as whole:
        await Runner.run(agent_that_looks(), "hi")
        await Runner.run(agent_that_looks(), "hi")

    assert [each.name for each in told.traces] == ["both"]
    assert {span.trace_id for span in told.spans} == {whole.trace_id}
    assert get_current_trace() is None
    assert get_current_span() is None


async def test_what_was_said_is_left_out_where_it_is_sensitive(told):
    await Runner.run(agent_that_looks(), "hi", run_config=RunConfig(trace_include_sensitive_data=False))

    function = next(span for span in told.spans if span.span_data.type == "function")
    assert (function.span_data.input, function.span_data.output) == (None, None)


async def test_nobody_is_told_where_tracing_is_off(told):
    await Runner.run(agent_that_looks(), "hi", run_config=RunConfig(tracing_disabled=True))
    set_tracing_disabled(True)
    await Runner.run(agent_that_looks(), "hi")
    with trace("nothing"), custom_span("nothing"):
        pass

    assert (told.traces, told.spans) == ([], [])


async def test_a_processor_that_fails_does_not_touch_the_run(told):
    class Broken(Told):
        def on_span_start(self, span: Any) -> None:
            raise ValueError("no")

    set_trace_processors([Broken(), told])
    result = await Runner.run(agent_that_looks(), "hi")

    assert result.final_output == "bye"
    assert told.spans


async def test_a_span_of_the_programs_own_is_seen_by_opentelemetry_too(told, monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    with trace("outer"), custom_span("work", {"table": "orders", "skipped": object()}):
        pass

    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"outer", "work"}
    assert spans["work"].parent.span_id == spans["outer"].context.span_id
    assert dict(spans["work"].attributes) == {"table": "orders"}
