"""Traces: what belongs together, from the first span to the last."""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import Any, Self

from placet.agents.tracing import _otel
from placet.agents.tracing.processor_interface import TracingProcessor
from placet.agents.tracing.scope import Scope
from placet.agents.tracing.spans import Span, _NoProcessor
from placet.agents.tracing.util import gen_trace_id


class Trace:
    """One workflow: `with trace("Support"): …`, or `start()` and `finish()` by hand."""

    def __init__(
        self,
        name: str,
        trace_id: str | None,
        group_id: str | None,
        metadata: dict[str, Any] | None,
        processor: TracingProcessor,
        tracing_api_key: str | None = None,
    ) -> None:
        self.name = name
        self.trace_id = trace_id or gen_trace_id()
        self.group_id = group_id
        self.metadata = metadata
        self.tracing_api_key = tracing_api_key
        self._processor = processor
        self._token: contextvars.Token[Trace | None] | None = None
        self._spans: contextvars.Token[Span[Any] | None] | None = None
        self._has_begun = self._has_ended = False
        self._otel: _otel.Open | None = None

    def start(self, mark_as_current: bool = False) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        self._processor.on_trace_start(self)
        if mark_as_current:
            self._token = Scope.set_current_trace(self)
            self._spans = Scope.set_current_span(None)
            self._otel = _otel.begin(self.name, None)

    def finish(self, reset_current: bool = False) -> None:
        if not self._has_begun or self._has_ended:
            return
        self._has_ended = True
        if self._otel is not None:
            self._otel.end(None)
        self._processor.on_trace_end(self)
        if reset_current and self._token is not None and self._spans is not None:
            Scope.reset_current_span(self._spans)
            Scope.reset_current_trace(self._token)
            self._token = self._spans = None

    def export(self) -> dict[str, Any] | None:
        return {
            "object": "trace",
            "id": self.trace_id,
            "workflow_name": self.name,
            "group_id": self.group_id,
            "metadata": self.metadata,
        }

    def to_json(self, *, include_tracing_api_key: bool = False) -> dict[str, Any] | None:
        found = self.export()
        if found is not None and include_tracing_api_key and self.tracing_api_key:
            found["tracing_api_key"] = self.tracing_api_key
        return found

    def __enter__(self) -> Self:
        self.start(mark_as_current=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.finish(reset_current=kind is not GeneratorExit)


TraceImpl = Trace


class NoOpTrace(Trace):
    """A trace that nobody wants."""

    def __init__(self) -> None:
        super().__init__("no-op", "no-op", None, None, _NoProcessor())

    def export(self) -> None:
        return None


NO_OP_TRACE = NoOpTrace()
