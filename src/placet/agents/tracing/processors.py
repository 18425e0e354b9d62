"""Processors that come with the front door: one that collects and exports, and one that prints."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from typing import Any

from placet.agents.tracing.processor_interface import TracingExporter, TracingProcessor

logger = logging.getLogger("placet.agents.tracing")


class ConsoleSpanExporter(TracingExporter):
    """Prints what ended."""

    def export(self, items: list[Any]) -> None:
        for item in items:
            sys.stdout.write(f"[Exporter] Export: {item.export()}\n")


class BatchTraceProcessor(TracingProcessor):
    """Collects what ended, and gives it to an exporter in a thread of its own."""

    def __init__(
        self,
        exporter: TracingExporter,
        max_queue_size: int = 8192,
        max_batch_size: int = 128,
        schedule_delay: float = 5.0,
        export_trigger_ratio: float = 0.7,
    ) -> None:
        self._exporter = exporter
        self._queue: queue.Queue[Any] = queue.Queue(max_queue_size)
        self._batch_size = max_batch_size
        self._delay = schedule_delay
        self._trigger = max(1, int(max_queue_size * export_trigger_ratio))
        self._wake = threading.Event()
        self._is_closed = False
        self._exporting = threading.Lock()
        self._thread: threading.Thread | None = None

    def on_trace_start(self, trace: Any) -> None:
        self._put(trace)

    def on_trace_end(self, trace: Any) -> None:
        """A trace was told when it began."""

    def on_span_start(self, span: Any) -> None:
        """A span is told when it has ended."""

    def on_span_end(self, span: Any) -> None:
        self._put(span)

    def force_flush(self) -> None:
        self._export_all()

    def shutdown(self, timeout: float | None = None) -> None:
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._export_all()

    def _put(self, item: Any) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="placet-traces")
            self._thread.start()
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            logger.warning("too many spans wait for their export: one was dropped")
        if self._queue.qsize() >= self._trigger:
            self._wake.set()

    def _work(self) -> None:
        while not self._is_closed:
            self._wake.wait(self._delay)
            self._wake.clear()
            self._export_all()

    def _export_all(self) -> None:
        with self._exporting:
            while not self._queue.empty():
                batch = [self._queue.get_nowait() for _ in range(min(self._batch_size, self._queue.qsize()))]
                try:
                    self._exporter.export(batch)
                except Exception:
                    logger.exception("spans could not be exported")
