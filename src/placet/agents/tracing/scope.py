"""Which trace and which span the code that runs now is in."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.agents.tracing.spans import Span
    from placet.agents.tracing.traces import Trace

_span: contextvars.ContextVar[Span[Any] | None] = contextvars.ContextVar("placet_current_span", default=None)
_trace: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("placet_current_trace", default=None)


class Scope:
    """The current trace and span, each with a way back to the one before."""

    @classmethod
    def get_current_span(cls) -> Span[Any] | None:
        return _span.get()

    @classmethod
    def set_current_span(cls, span: Span[Any] | None) -> contextvars.Token[Span[Any] | None]:
        return _span.set(span)

    @classmethod
    def reset_current_span(cls, token: contextvars.Token[Span[Any] | None]) -> None:
        _span.reset(token)

    @classmethod
    def get_current_trace(cls) -> Trace | None:
        return _trace.get()

    @classmethod
    def set_current_trace(cls, trace: Trace | None) -> contextvars.Token[Trace | None]:
        return _trace.set(trace)

    @classmethod
    def reset_current_trace(cls, token: contextvars.Token[Trace | None]) -> None:
        _trace.reset(token)
