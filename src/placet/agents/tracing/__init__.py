"""Tracing in the SDK's words. Runs tell processors of their spans; OpenTelemetry sees the same (docs/tracing.md).

Unlike the SDK, nothing is sent anywhere unless a program adds a processor.
"""

from __future__ import annotations

from placet.agents.tracing import _runs
from placet.agents.tracing.config import TracingConfig
from placet.agents.tracing.context import TraceCtxManager
from placet.agents.tracing.create import (
    agent_span,
    custom_span,
    function_span,
    generation_span,
    get_current_span,
    get_current_trace,
    guardrail_span,
    handoff_span,
    mcp_tools_span,
    response_span,
    speech_group_span,
    speech_span,
    task_span,
    trace,
    transcription_span,
    turn_span,
)
from placet.agents.tracing.processor_interface import TracingExporter, TracingProcessor
from placet.agents.tracing.provider import TraceProvider
from placet.agents.tracing.setup import get_trace_provider, set_trace_provider
from placet.agents.tracing.span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
    SpeechGroupSpanData,
    SpeechSpanData,
    TaskSpanData,
    TranscriptionSpanData,
    TurnSpanData,
)
from placet.agents.tracing.spans import Span, SpanError
from placet.agents.tracing.traces import Trace
from placet.agents.tracing.util import gen_span_id, gen_trace_id

_runs.install()


def add_trace_processor(span_processor: TracingProcessor) -> None:
    """Tell this processor too."""
    get_trace_provider().register_processor(span_processor)


def set_trace_processors(processors: list[TracingProcessor]) -> None:
    """Tell these processors, and no others."""
    get_trace_provider().set_processors(processors)


def set_tracing_disabled(disabled: bool) -> None:
    """Stop telling, or begin again."""
    get_trace_provider().set_disabled(disabled)


def set_tracing_export_api_key(api_key: str) -> None:
    """Kept so that programs start: Placet sends no traces to OpenAI, so there is nothing that a key could be for."""


def flush_traces() -> None:
    """Have the processors export what they hold."""
    get_trace_provider().force_flush()


__all__ = [
    "AgentSpanData",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "MCPListToolsSpanData",
    "ResponseSpanData",
    "Span",
    "SpanData",
    "SpanError",
    "SpeechGroupSpanData",
    "SpeechSpanData",
    "TaskSpanData",
    "Trace",
    "TraceCtxManager",
    "TraceProvider",
    "TracingConfig",
    "TracingExporter",
    "TracingProcessor",
    "TranscriptionSpanData",
    "TurnSpanData",
    "add_trace_processor",
    "agent_span",
    "custom_span",
    "flush_traces",
    "function_span",
    "gen_span_id",
    "gen_trace_id",
    "generation_span",
    "get_current_span",
    "get_current_trace",
    "get_trace_provider",
    "guardrail_span",
    "handoff_span",
    "mcp_tools_span",
    "response_span",
    "set_trace_processors",
    "set_trace_provider",
    "set_tracing_disabled",
    "set_tracing_export_api_key",
    "speech_group_span",
    "speech_span",
    "task_span",
    "trace",
    "transcription_span",
    "turn_span",
]
