"""Which trace and which span the code that runs now is in. They are declared on top of this: here they are Any."""

from __future__ import annotations

import contextvars
from typing import Any

_span: contextvars.ContextVar[Any] = contextvars.ContextVar("placet_current_span", default=None)
_trace: contextvars.ContextVar[Any] = contextvars.ContextVar("placet_current_trace", default=None)


class Scope:
    """The current trace and span, each with a way back to the one before."""

    @classmethod
    def get_current_span(cls) -> Any:
        return _span.get()

    @classmethod
    def set_current_span(cls, span: Any) -> contextvars.Token[Any]:
        return _span.set(span)

    @classmethod
    def reset_current_span(cls, token: contextvars.Token[Any]) -> None:
        _span.reset(token)

    @classmethod
    def get_current_trace(cls) -> Any:
        return _trace.get()

    @classmethod
    def set_current_trace(cls, trace: Any) -> contextvars.Token[Any]:
        return _trace.set(trace)

    @classmethod
    def reset_current_trace(cls, token: contextvars.Token[Any]) -> None:
        _trace.reset(token)
