"""Makes traces and spans, and tells the processors of them."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from placet.agents.tracing import util
from placet.agents.tracing.config import TracingConfig
from placet.agents.tracing.processor_interface import TracingProcessor
from placet.agents.tracing.scope import Scope
from placet.agents.tracing.span_data import SpanData
from placet.agents.tracing.spans import NoOpSpan, Span, TSpanData
from placet.agents.tracing.traces import NoOpTrace, Trace

logger = logging.getLogger("placet.agents.tracing")


class SynchronousMultiTracingProcessor(TracingProcessor):
    """Tells several processors, one after the other. What one of them raises is logged, and reaches nobody else."""

    def __init__(self) -> None:
        self._processors: tuple[TracingProcessor, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self._processors

    def add_tracing_processor(self, processor: TracingProcessor) -> None:
        self._processors += (processor,)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        self._processors = tuple(processors)

    def on_trace_start(self, trace: Any) -> None:
        self._notify(lambda each: each.on_trace_start(trace))

    def on_trace_end(self, trace: Any) -> None:
        self._notify(lambda each: each.on_trace_end(trace))

    def on_span_start(self, span: Any) -> None:
        self._notify(lambda each: each.on_span_start(span))

    def on_span_end(self, span: Any) -> None:
        self._notify(lambda each: each.on_span_end(span))

    def shutdown(self) -> None:
        self._notify(lambda each: each.shutdown())

    def force_flush(self) -> None:
        self._notify(lambda each: each.force_flush())

    def _notify(self, how: Callable[[TracingProcessor], None]) -> None:
        for each in self._processors:
            try:
                how(each)
            except Exception:
                logger.exception("a tracing processor failed")


class TraceProvider(ABC):
    """What `set_trace_provider` takes."""

    @abstractmethod
    def register_processor(self, processor: TracingProcessor) -> None: ...

    @abstractmethod
    def set_processors(self, processors: list[TracingProcessor]) -> None: ...

    @abstractmethod
    def get_current_trace(self) -> Trace | None: ...

    @abstractmethod
    def get_current_span(self) -> Span[Any] | None: ...

    @abstractmethod
    def set_disabled(self, disabled: bool) -> None: ...

    @abstractmethod
    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        disabled: bool = False,
        tracing: TracingConfig | None = None,
    ) -> Trace: ...

    @abstractmethod
    def create_span(
        self,
        span_data: TSpanData,
        span_id: str | None = None,
        parent: Trace | Span[Any] | None = None,
        disabled: bool = False,
    ) -> Span[TSpanData]: ...

    def time_iso(self) -> str:
        return util.time_iso()

    def gen_trace_id(self) -> str:
        return util.gen_trace_id()

    def gen_span_id(self) -> str:
        return util.gen_span_id()

    def gen_group_id(self) -> str:
        return util.gen_group_id()

    def force_flush(self) -> None:  # noqa: B027  # may be left as it is
        pass

    def shutdown(self) -> None:  # noqa: B027
        pass


class DefaultTraceProvider(TraceProvider):
    """The provider that is there from the start. Without a processor nothing is sent anywhere."""

    def __init__(self) -> None:
        self._multi_processor = SynchronousMultiTracingProcessor()
        setting = os.environ.get("OPENAI_AGENTS_DISABLE_TRACING", "")
        self._disabled = setting.strip().lower() in ("1", "true")

    @property
    def is_listening(self) -> bool:
        return not self._disabled and not self._multi_processor.is_empty

    def register_processor(self, processor: TracingProcessor) -> None:
        self._multi_processor.add_tracing_processor(processor)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        self._multi_processor.set_processors(processors)

    def get_current_trace(self) -> Trace | None:
        found: Trace | None = Scope.get_current_trace()
        return found

    def get_current_span(self) -> Span[Any] | None:
        found: Span[Any] | None = Scope.get_current_span()
        return found

    def set_disabled(self, disabled: bool) -> None:
        self._disabled = disabled

    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        disabled: bool = False,
        tracing: TracingConfig | None = None,
    ) -> Trace:
        if self._disabled or disabled:
            return NoOpTrace()
        key = (tracing or {}).get("api_key")
        return Trace(name, trace_id, group_id, metadata, self._multi_processor, key)

    def create_span(
        self,
        span_data: TSpanData,
        span_id: str | None = None,
        parent: Trace | Span[Any] | None = None,
        disabled: bool = False,
    ) -> Span[TSpanData]:
        if self._disabled or disabled:
            return NoOpSpan(span_data)
        above = parent or Scope.get_current_span() or Scope.get_current_trace()
        if above is None:
            logger.error("There is no trace: start one with trace(…) before a span of type %s.", _kind(span_data))
            return NoOpSpan(span_data)
        if isinstance(above, NoOpTrace | NoOpSpan):
            return NoOpSpan(span_data)
        if isinstance(above, Trace):
            where, metadata = None, above.metadata
        else:
            where, metadata = above.span_id, above.trace_metadata
        return Span(
            above.trace_id,
            span_id,
            where,
            self._multi_processor,
            span_data,
            tracing_api_key=above.tracing_api_key,
            trace_metadata=metadata,
        )

    def force_flush(self) -> None:
        self._multi_processor.force_flush()

    def shutdown(self) -> None:
        self._multi_processor.shutdown()


def _kind(data: SpanData) -> str:
    return data.type
