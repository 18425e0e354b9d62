"""Making traces and spans by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.agents.tracing import span_data as data
from placet.agents.tracing.config import TracingConfig
from placet.agents.tracing.setup import get_trace_provider
from placet.agents.tracing.spans import Span, TSpanData
from placet.agents.tracing.traces import Trace

_Above = Trace | Span[Any] | None


def trace(
    workflow_name: str,
    trace_id: str | None = None,
    group_id: str | None = None,
    metadata: dict[str, Any] | None = None,
    tracing: TracingConfig | None = None,
    disabled: bool = False,
) -> Trace:
    """A trace: `with trace("Support"): …` puts all runs inside of it into one."""
    return get_trace_provider().create_trace(workflow_name, trace_id, group_id, metadata, disabled, tracing)


def get_current_trace() -> Trace | None:
    return get_trace_provider().get_current_trace()


def get_current_span() -> Span[Any] | None:
    return get_trace_provider().get_current_span()


def _made(kind: TSpanData, span_id: str | None, parent: _Above, disabled: bool) -> Span[TSpanData]:
    return get_trace_provider().create_span(kind, span_id, parent, disabled)


def agent_span(
    name: str,
    handoffs: list[str] | None = None,
    tools: list[str] | None = None,
    output_type: str | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
) -> Span[data.AgentSpanData]:
    return _made(data.AgentSpanData(name, handoffs, tools, output_type), span_id, parent, disabled)


def task_span(
    name: str, span_id: str | None = None, parent: _Above = None, disabled: bool = False
) -> Span[data.TaskSpanData]:
    return _made(data.TaskSpanData(name), span_id, parent, disabled)


def turn_span(
    turn: int, agent_name: str, span_id: str | None = None, parent: _Above = None, disabled: bool = False
) -> Span[data.TurnSpanData]:
    return _made(data.TurnSpanData(turn, agent_name), span_id, parent, disabled)


def function_span(
    name: str,
    input: str | None = None,
    output: str | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
) -> Span[data.FunctionSpanData]:
    return _made(data.FunctionSpanData(name, input, output), span_id, parent, disabled)


def generation_span(
    input: Sequence[Mapping[str, Any]] | None = None,
    output: Sequence[Mapping[str, Any]] | None = None,
    model: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
) -> Span[data.GenerationSpanData]:
    return _made(data.GenerationSpanData(input, output, model, model_config, usage), span_id, parent, disabled)


def response_span(
    response: Any = None, span_id: str | None = None, parent: _Above = None, disabled: bool = False
) -> Span[data.ResponseSpanData]:
    return _made(data.ResponseSpanData(response), span_id, parent, disabled)


def handoff_span(
    from_agent: str | None = None,
    to_agent: str | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
) -> Span[data.HandoffSpanData]:
    return _made(data.HandoffSpanData(from_agent, to_agent), span_id, parent, disabled)


def custom_span(
    name: str,
    data_: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
    *,
    data: dict[str, Any] | None = None,
) -> Span[Any]:
    """A span of the program's own: `with custom_span("look it up", {"table": "orders"}): …`."""
    return _custom(name, data_ or data or {}, span_id, parent, disabled)


def _custom(name: str, span_data: dict[str, Any], span_id: str | None, parent: _Above, disabled: bool) -> Span[Any]:
    return _made(data.CustomSpanData(name, span_data), span_id, parent, disabled)


def guardrail_span(
    name: str, triggered: bool = False, span_id: str | None = None, parent: _Above = None, disabled: bool = False
) -> Span[data.GuardrailSpanData]:
    return _made(data.GuardrailSpanData(name, triggered), span_id, parent, disabled)


def mcp_tools_span(
    server: str | None = None,
    result: list[str] | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
) -> Span[data.MCPListToolsSpanData]:
    return _made(data.MCPListToolsSpanData(server, result), span_id, parent, disabled)


def transcription_span(
    model: str | None = None,
    input: str | None = None,
    input_format: str | None = "pcm",
    output: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
) -> Span[data.TranscriptionSpanData]:
    span_data = data.TranscriptionSpanData(input, input_format, output, model, model_config)
    return _made(span_data, span_id, parent, disabled)


def speech_span(
    model: str | None = None,
    input: str | None = None,
    output: str | None = None,
    output_format: str | None = "pcm",
    model_config: Mapping[str, Any] | None = None,
    first_content_at: str | None = None,
    span_id: str | None = None,
    parent: _Above = None,
    disabled: bool = False,
) -> Span[data.SpeechSpanData]:
    span_data = data.SpeechSpanData(input, output, output_format, model, model_config, first_content_at)
    return _made(span_data, span_id, parent, disabled)


def speech_group_span(
    input: str | None = None, span_id: str | None = None, parent: _Above = None, disabled: bool = False
) -> Span[data.SpeechGroupSpanData]:
    return _made(data.SpeechGroupSpanData(input), span_id, parent, disabled)
