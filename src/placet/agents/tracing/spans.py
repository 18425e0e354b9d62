"""Spans: something that began and ended, inside a trace. OpenTelemetry sees them too, where it is installed."""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import Any, Generic, TypedDict, TypeVar

from placet.agents.tracing import _otel
from placet.agents.tracing.processor_interface import TracingProcessor
from placet.agents.tracing.scope import Scope
from placet.agents.tracing.span_data import SpanData
from placet.agents.tracing.util import gen_span_id, time_iso

TSpanData = TypeVar("TSpanData", bound=SpanData)


class SpanError(TypedDict):
    """What went wrong."""

    message: str
    data: dict[str, Any] | None


class Span(Generic[TSpanData]):
    """One span: `with custom_span("work"): …`, or `start()` and `finish()` by hand."""

    def __init__(
        self,
        trace_id: str,
        span_id: str | None,
        parent_id: str | None,
        processor: TracingProcessor,
        span_data: TSpanData,
        *,
        tracing_api_key: str | None = None,
        trace_metadata: dict[str, Any] | None = None,
    ) -> None:
        self.trace_id = trace_id
        self.span_id = span_id or gen_span_id()
        self.parent_id = parent_id
        self.span_data = span_data
        self.tracing_api_key = tracing_api_key
        self.trace_metadata = trace_metadata
        self.started_at: str | None = None
        self.ended_at: str | None = None
        self.error: SpanError | None = None
        self._processor = processor
        self._token: contextvars.Token[Span[Any] | None] | None = None
        self._otel: _otel.Open | None = None

    def start(self, mark_as_current: bool = False, *, at: float | None = None) -> None:
        if self.started_at is not None:
            return
        self.started_at = time_iso(at)
        if mark_as_current:
            self._token = Scope.set_current_span(self)
            self._otel = _otel.begin(getattr(self.span_data, "name", None) or self.span_data.type, self.span_data)
        self._processor.on_span_start(self)

    def finish(self, reset_current: bool = False, *, at: float | None = None) -> None:
        if self.ended_at is not None:
            return
        self.ended_at = time_iso(at)
        if self._otel is not None:
            self._otel.end(None if self.error is None else self.error["message"])
        self._processor.on_span_end(self)
        if reset_current and self._token is not None:
            Scope.reset_current_span(self._token)
            self._token = None

    def set_error(self, error: SpanError) -> None:
        self.error = error

    def export(self) -> dict[str, Any] | None:
        return {
            "object": "trace.span",
            "id": self.span_id,
            "trace_id": self.trace_id,
            "parent_id": self.parent_id,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "span_data": self.span_data.export(),
            "error": self.error,
        }

    def __enter__(self) -> Span[TSpanData]:
        self.start(mark_as_current=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        # A generator that was closed has left the context in which it set the span: there is no way back then.
        self.finish(reset_current=kind is not GeneratorExit)


SpanImpl = Span


class NoOpSpan(Span[TSpanData]):
    """A span of a trace that nobody wants: it tells nobody."""

    def __init__(self, span_data: TSpanData) -> None:
        super().__init__("no-op", "no-op", None, _NoProcessor(), span_data)

    def export(self) -> None:
        return None


class _NoProcessor(TracingProcessor):
    def on_trace_start(self, trace: Any) -> None: ...

    def on_trace_end(self, trace: Any) -> None: ...

    def on_span_start(self, span: Any) -> None: ...

    def on_span_end(self, span: Any) -> None: ...

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...
