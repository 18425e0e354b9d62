"""From Placet's request to the SDK's arguments, and from the SDK's events to Placet's answer."""

from __future__ import annotations

import enum
import inspect
from collections.abc import AsyncIterator
from typing import Any

from placet import ModelBehaviorError, ModelRequest, ModelResponse, RawEvent, Usage
from placet.declare.output_schema import OutputSchema, TypedOutputSchema

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ModelTracing(enum.Enum):
    """How much of a request may be traced."""

    DISABLED = 0
    ENABLED = 1
    ENABLED_WITHOUT_DATA = 2

    def is_disabled(self) -> bool:
        return self is ModelTracing.DISABLED

    def include_data(self) -> bool:
        return self is ModelTracing.ENABLED


class Bridge:
    """A model of the SDK's protocol, asked by Placet's."""

    leaves_input_alone = False

    def __init__(self, model: Any) -> None:
        self.model = model

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        found: ModelResponse = counted(as_response(await self.model.get_response(**arguments_of(request))))
        return found

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[Any]:
        events = self.model.stream_response(**arguments_of(request))
        if inspect.isawaitable(events):
            events = await events
        last: Any = None
        done: list[Any] = []
        try:
            async for event in events:
                yield RawEvent(event)
                kind = getattr(event, "type", None)
                if kind in _LAST:
                    last = event.response
                elif kind == "response.output_item.done":
                    done.append(event.item)
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        if last is None:
            raise ModelBehaviorError("Model did not produce a final response!")
        usage = as_usage(last.usage, requests=1)
        yield ModelResponse(list(last.output or done), usage, last.id, getattr(last, "_request_id", None))


def arguments_of(request: ModelRequest) -> dict[str, Any]:
    """The arguments that the SDK's models have for what a request says."""
    declared = request.declared
    config = declared.config if declared is not None else None
    tracing = ModelTracing.ENABLED
    if config is not None and config.tracing_disabled:
        tracing = ModelTracing.DISABLED
    elif config is not None and not config.trace_include_sensitive_data:
        tracing = ModelTracing.ENABLED_WITHOUT_DATA
    return {
        "system_instructions": request.system_instructions,
        "input": request.input,
        "model_settings": request.model_settings,
        "tools": list(declared.tools) if declared is not None else list(request.tools),
        "output_schema": _schema_of(declared.output_type if declared is not None else None),
        "handoffs": list(declared.handoffs) if declared is not None else [],
        "tracing": tracing,
        "previous_response_id": request.previous_response_id,
        "conversation_id": request.conversation_id,
        "prompt": request.prompt,
    }


def _schema_of(output_type: Any) -> OutputSchema | None:
    if output_type is None or output_type is str:
        return None
    return output_type if isinstance(output_type, OutputSchema) else TypedOutputSchema(output_type)


def as_response(found: Any) -> Any:
    """A response of any shape with the fields of one, as Placet's; anything else is left for the run to refuse."""
    if isinstance(found, ModelResponse) or not hasattr(found, "output") or not hasattr(found, "usage"):
        return found
    given = [getattr(found, name, None) for name in ("response_id", "request_id")]
    return ModelResponse(list(found.output), as_usage(found.usage), *given)


def counted(response: Any) -> Any:
    """An answer is the answer to one request, whether its usage says so or not."""
    if isinstance(response, ModelResponse) and not response.usage.requests:
        response.usage = response.usage.copy()
        response.usage.requests = 1
    return response


def as_usage(found: Any, requests: int | None = None) -> Usage:
    """The figures of a usage, whether they are Placet's, the SDK's or those of the `openai` package."""
    if isinstance(found, Usage):
        return found
    if found is None:
        return Usage(requests=requests or 0)
    read, written = (getattr(found, f"{side}_tokens_details", None) for side in ("input", "output"))
    return Usage(
        requests=requests if requests is not None else getattr(found, "requests", 1),
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        total_tokens=found.total_tokens,
        cached_tokens=getattr(read, "cached_tokens", None) or 0,
        reasoning_tokens=getattr(written, "reasoning_tokens", None) or 0,
    )
