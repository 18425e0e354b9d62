"""Who is told of traces and spans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.agents.tracing.spans import Span
    from placet.agents.tracing.traces import Trace


class TracingProcessor(ABC):
    """Told when traces and spans begin and end. An error in it is its own."""

    @abstractmethod
    def on_trace_start(self, trace: Trace) -> None: ...

    @abstractmethod
    def on_trace_end(self, trace: Trace) -> None: ...

    @abstractmethod
    def on_span_start(self, span: Span[Any]) -> None: ...

    @abstractmethod
    def on_span_end(self, span: Span[Any]) -> None: ...

    @abstractmethod
    def shutdown(self) -> None: ...

    @abstractmethod
    def force_flush(self) -> None: ...


class TracingExporter(ABC):
    """Sends ended traces and spans somewhere."""

    @abstractmethod
    def export(self, items: list[Trace | Span[Any]]) -> None: ...
