"""What the tests of this folder share: runs that are traced into memory, and a look at what was exported."""

from __future__ import annotations

import asyncio
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from placet import Agent, FunctionTool, RunConfig, Runner, Usage, function_tool
from placet.testing import ManualClock, ModelStep, ScriptedModel, assistant_message, function_call
from placet.tracing import OpenTelemetryTracing

PATIENCE = 90.0
"""Seconds that a test waits for something that happens at once, before it gives up."""
START = 1_800_000_000
"""Where the tests' clock begins, in seconds."""


class Traces:
    """Where the spans of one test end up, and the clock of its runs."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.clock = ManualClock(float(START))

    def config(self, *, config: dict[str, Any] | None = None, **settings: Any) -> RunConfig:
        return RunConfig(
            observers=[OpenTelemetryTracing(self.provider, **settings)], clock=self.clock, **(config or {})
        )

    def add(self, processor: SpanProcessor) -> None:
        self.provider.add_span_processor(processor)

    async def go(self, agent: Agent[Any], given: Any, streamed: bool = False, **options: Any) -> Any:
        """Run to the end of the drive, streamed or not."""
        options.setdefault("run_config", self.config())
        if not streamed:
            return await asyncio.wait_for(Runner.run(agent, given, **options), PATIENCE)
        result = Runner.run_streamed(agent, given, **options)

        async def read() -> None:
            async for _ in result.stream_events():
                pass

        await asyncio.wait_for(read(), PATIENCE)
        return result

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def all(self, name: str) -> list[ReadableSpan]:
        """The spans of this name, in the order in which they began."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        found = self.all(name)
        assert len(found) == 1, f"{len(found)} spans are called {name!r}; there are {[s.name for s in self.spans]}"
        return found[0]

    def tree(self) -> list[str]:
        """Every span as the names that lead to it, sorted."""
        names = {span.context.span_id: span for span in self.spans}

        def way(span: ReadableSpan) -> str:
            above = names.get(span.parent.span_id) if span.parent is not None else None
            return span.name if above is None else f"{way(above)} / {span.name}"

        return sorted(map(way, self.spans))


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def seconds(span: ReadableSpan) -> tuple[float, float]:
    """When a span began and ended, in seconds of the tests' clock."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9 - START, span.end_time / 1e9 - START


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    return span.parent is not None and span.parent.span_id == of.context.span_id


def links(span: ReadableSpan) -> list[tuple[str, int, int]]:
    """The links of a span: what each is, and the trace and span that it leads to."""
    return [
        (str((link.attributes or {}).get("placet.link")), link.context.trace_id, link.context.span_id)
        for link in span.links
    ]


def to(kind: str, span: ReadableSpan) -> tuple[str, int, int]:
    """What `links` shows of a link to this span."""
    return kind, span.context.trace_id, span.context.span_id


def everything_in(spans: tuple[ReadableSpan, ...]) -> str:
    """All that leaves the process of these spans, as one text."""
    return "\n".join(span.to_json() for span in spans)


def scripted(steps: list[Any], *tools: Any, name: str = "Clerk", **options: Any) -> Agent[Any]:
    return Agent(name, tools=list(tools), model=ScriptedModel(steps), **options)


def tool(name: str = "look", **options: Any) -> FunctionTool:
    @function_tool(name_override=name, **options)
    async def body(n: int = 0) -> str:
        return f"{name} {n}"

    return body


def gated(name: str = "pay", **options: Any) -> FunctionTool:
    return tool(name, needs_approval=True, **options)


def call(name: str, label: str | None = None, **arguments: Any) -> dict[str, Any]:
    return function_call(name, arguments, call_id=label)


def ask(name: str, label: str | None = None) -> dict[str, Any]:
    """The call of an agent behind a tool."""
    return call(name, label, input="go on")


def answer(*items: Any, tokens: int = 0) -> ModelStep:
    return ModelStep(list(items), usage=Usage(1, tokens, tokens * 2, tokens * 3))


DONE = [assistant_message("done")]
