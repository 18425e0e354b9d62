"""What a span tells, by its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class SpanData(ABC):
    """The base of what spans tell."""

    kind: ClassVar[str] = ""

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """The data as a dict."""

    @property
    def type(self) -> str:
        return self.kind


class _Fields(SpanData):
    """Tells what its attributes say, in this order."""

    names: ClassVar[tuple[str, ...]] = ()

    def export(self) -> dict[str, Any]:
        return {"type": self.type, **{name: getattr(self, name) for name in self.names}}


class AgentSpanData(_Fields):
    """An agent at work."""

    kind = "agent"
    names = ("name", "handoffs", "tools", "output_type")

    def __init__(
        self,
        name: str,
        handoffs: list[str] | None = None,
        tools: list[str] | None = None,
        output_type: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.handoffs, self.tools, self.output_type = name, handoffs, tools, output_type
        self.metadata = metadata


class FunctionSpanData(_Fields):
    """A tool at work."""

    kind = "function"
    names = ("name", "input", "output", "mcp_data")

    def __init__(
        self, name: str, input: str | None, output: Any | None, mcp_data: dict[str, Any] | None = None
    ) -> None:
        self.name, self.input, self.output, self.mcp_data = name, input, output, mcp_data


class GenerationSpanData(_Fields):
    """A model at work."""

    kind = "generation"
    names = ("input", "output", "model", "model_config", "usage")

    def __init__(
        self,
        input: Sequence[Mapping[str, Any]] | None = None,
        output: Sequence[Mapping[str, Any]] | None = None,
        model: str | None = None,
        model_config: Mapping[str, Any] | None = None,
        usage: dict[str, Any] | None = None,
    ) -> None:
        self.input, self.output, self.model, self.model_config, self.usage = input, output, model, model_config, usage


class ResponseSpanData(SpanData):
    """A response of the Responses API."""

    kind = "response"

    def __init__(
        self,
        response: Any = None,
        input: Any = None,
        usage: dict[str, Any] | None = None,
        response_id: str | None = None,
    ) -> None:
        self.response, self.input, self.usage = response, input, usage
        self._response_id = response_id

    @property
    def response_id(self) -> str | None:
        return self.response.id if self.response is not None else self._response_id

    def export(self) -> dict[str, Any]:
        return {"type": self.type, "response_id": self.response_id, "usage": self.usage}


class HandoffSpanData(_Fields):
    """The conversation goes to another agent."""

    kind = "handoff"
    names = ("from_agent", "to_agent")

    def __init__(self, from_agent: str | None, to_agent: str | None) -> None:
        self.from_agent, self.to_agent = from_agent, to_agent


class CustomSpanData(_Fields):
    """Whatever a program wants to tell."""

    kind = "custom"
    names = ("name", "data")

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self.name, self.data = name, data


class GuardrailSpanData(_Fields):
    """A guardrail at work."""

    kind = "guardrail"
    names = ("name", "triggered")

    def __init__(self, name: str, triggered: bool = False) -> None:
        self.name, self.triggered = name, triggered


class TaskSpanData(SpanData):
    """One drive of a run."""

    kind = "task"

    def __init__(self, name: str, usage: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None) -> None:
        self.name, self.usage, self.metadata = name, usage, metadata

    def export(self) -> dict[str, Any]:
        data = {"sdk_span_type": "task", "name": self.name, "usage": self.usage}
        return {"type": "custom", "name": "task", "data": data}


class TurnSpanData(SpanData):
    """One turn: a request to the model and all that its answer asked for."""

    kind = "turn"

    def __init__(self, turn: int, agent_name: str, usage: dict[str, Any] | None = None) -> None:
        self.turn, self.agent_name, self.usage = turn, agent_name, usage

    def export(self) -> dict[str, Any]:
        data = {"sdk_span_type": "turn", "turn": self.turn, "agent_name": self.agent_name, "usage": self.usage}
        return {"type": "custom", "name": "turn", "data": data}


class MCPListToolsSpanData(_Fields):
    """A server is asked for its tools."""

    kind = "mcp_tools"
    names = ("server", "result")

    def __init__(self, server: str | None = None, result: list[str] | None = None) -> None:
        self.server, self.result = server, result


class TranscriptionSpanData(_Fields):
    """Speech becomes text."""

    kind = "transcription"
    names = ("input", "output", "model", "model_config")

    def __init__(
        self,
        input: str | None = None,
        input_format: str | None = "pcm",
        output: str | None = None,
        model: str | None = None,
        model_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.input, self.input_format, self.output = input, input_format, output
        self.model, self.model_config = model, model_config


class SpeechSpanData(_Fields):
    """Text becomes speech."""

    kind = "speech"
    names = ("input", "output", "model", "model_config", "first_content_at")

    def __init__(
        self,
        input: str | None = None,
        output: str | None = None,
        output_format: str | None = "pcm",
        model: str | None = None,
        model_config: Mapping[str, Any] | None = None,
        first_content_at: str | None = None,
    ) -> None:
        self.input, self.output, self.output_format = input, output, output_format
        self.model, self.model_config, self.first_content_at = model, model_config, first_content_at


class SpeechGroupSpanData(_Fields):
    """Several pieces of speech."""

    kind = "speech_group"
    names = ("input",)

    def __init__(self, input: str | None = None) -> None:
        self.input = input
