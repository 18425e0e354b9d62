"""The provider of this process."""

from __future__ import annotations

from placet.agents.tracing.provider import DefaultTraceProvider, TraceProvider


class _Process:
    provider: TraceProvider = DefaultTraceProvider()


def set_trace_provider(provider: TraceProvider) -> None:
    """Use this provider from now on."""
    _Process.provider = provider


def get_trace_provider() -> TraceProvider:
    return _Process.provider
