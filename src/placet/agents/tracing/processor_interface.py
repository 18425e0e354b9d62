"""Who is told of traces and spans. They are declared on top of this: here they are Any."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class TracingProcessor(ABC):
    """Told when traces and spans begin and end. An error in it is its own."""

    @abstractmethod
    def on_trace_start(self, trace: Any) -> None: ...

    @abstractmethod
    def on_trace_end(self, trace: Any) -> None: ...

    @abstractmethod
    def on_span_start(self, span: Any) -> None: ...

    @abstractmethod
    def on_span_end(self, span: Any) -> None: ...

    @abstractmethod
    def shutdown(self) -> None: ...

    @abstractmethod
    def force_flush(self) -> None: ...


class TracingExporter(ABC):
    """Sends ended traces and spans somewhere."""

    @abstractmethod
    def export(self, items: list[Any]) -> None: ...
