"""The same spans in OpenTelemetry, so that both ways of tracing see what a program marks itself."""

from __future__ import annotations

from typing import Any

from placet.agents.tracing.span_data import CustomSpanData, SpanData


class Open:
    """A span that is current until it ends."""

    def __init__(self, span: Any, manager: Any) -> None:
        self._span, self._manager = span, manager

    def end(self, problem: str | None) -> None:
        if problem is not None:
            self._span.set_attribute("error.type", problem)
        self._manager.__exit__(None, None, None)


def begin(name: str, data: SpanData | None) -> Open | None:
    """Begin a span with the global tracer, if OpenTelemetry is installed. Without a provider it does nothing."""
    try:
        from opentelemetry.trace import get_tracer
    except ModuleNotFoundError:
        return None
    manager = get_tracer("placet.agents").start_as_current_span(name)
    span = manager.__enter__()
    if isinstance(data, CustomSpanData):
        for key, value in data.data.items():
            if isinstance(value, str | bool | int | float):
                span.set_attribute(key, value)
    return Open(span, manager)
