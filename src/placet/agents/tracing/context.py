"""A trace for as long as a block runs, unless there is one already."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from placet.agents.tracing.create import get_current_trace, trace
from placet.agents.tracing.traces import Trace


class TraceCtxManager:
    """`with TraceCtxManager("Support"): …` makes a trace only where none is current."""

    def __init__(
        self,
        workflow_name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        tracing: Any = None,
        disabled: bool = False,
    ) -> None:
        self._settings = (workflow_name, trace_id, group_id, metadata, tracing, disabled)
        self.trace: Trace | None = None

    def __enter__(self) -> Self:
        if get_current_trace() is None:
            self.trace = trace(*self._settings)
            self.trace.start(mark_as_current=True)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if self.trace is not None:
            self.trace.finish(reset_current=True)
