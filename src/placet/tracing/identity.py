"""Ids of traces and spans that need no storing: they follow from the run's id and from the place of a fact in it.

Only what one fact announces has such an id, because a fact is written once: a question, a claim, a request to the
model. A drive is no fact and has a random one.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from opentelemetry.trace import SpanContext, TraceFlags


class IdGenerator(Protocol):
    """What the SDK's tracers take ids from."""

    def generate_trace_id(self) -> int: ...

    def generate_span_id(self) -> int: ...


def trace_id_of(run_id: str) -> int:
    """The trace of a run: the same in every process that drives it."""
    return _number(16, run_id)


def span_id_of(run_id: str, *place: str) -> int:
    return _number(8, run_id, *place)


def context_of(run_id: str, *place: str) -> SpanContext:
    """The context of a span that perhaps another process made."""
    return SpanContext(
        trace_id_of(run_id), span_id_of(run_id, *place), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def _number(size: int, *parts: str) -> int:
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=size, person=b"placet/tracing")
    return int.from_bytes(digest.digest()) or 1  # zero means «no id»


class DerivedIds:
    """Gives the spans of one drive their ids: the run's trace, and for the next span the id that was chosen for it."""

    def __init__(self, run_id: str, others: IdGenerator) -> None:
        self._run_id = run_id
        self._others = others
        self._chosen: int | None = None

    def choose(self, *place: str) -> None:
        """The next span stands at this place; without one it gets a random id."""
        self._chosen = span_id_of(self._run_id, *place) if place else None

    def generate_trace_id(self) -> int:
        return trace_id_of(self._run_id)

    def generate_span_id(self) -> int:
        chosen, self._chosen = self._chosen, None
        return self._others.generate_span_id() if chosen is None else chosen

    def is_trace_id_random(self) -> bool:
        return True  # a digest of an id with 80 random bits: as evenly spread as samplers need it
