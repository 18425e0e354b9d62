"""The events of the Responses API that tell of a response, as a server would have streamed it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placet import ModelResponse, Usage
from placet.facts.codec import plain_item


def events_of(response: ModelResponse) -> Iterator[Any]:
    """Each item with its beginning, its text or arguments piece by piece, and its end; then the whole."""
    from openai.types import responses as wire

    yield wire.ResponseCreatedEvent(type="response.created", response=_whole(response, []), sequence_number=0)
    number = 0
    for index, item in enumerate(response.output):
        for name, fields in _parts(plain_item(item), item, index):
            number += 1
            yield getattr(wire, name).model_construct(sequence_number=number, output_index=index, **fields)
    yield wire.ResponseCompletedEvent(
        type="response.completed", response=_whole(response, response.output), sequence_number=number + 1
    )


def _parts(plain: dict[str, Any], item: Any, index: int) -> Iterator[tuple[str, dict[str, Any]]]:
    item_id = str(plain.get("id") or f"item_{index}")
    yield "ResponseOutputItemAddedEvent", {"type": "response.output_item.added", "item": item}
    for place, part in enumerate(plain.get("content") or []):
        if part.get("type") == "output_text":
            where = {"item_id": item_id, "content_index": place}
            text = part.get("text") or ""
            yield (
                "ResponseTextDeltaEvent",
                {"type": "response.output_text.delta", "delta": text, "logprobs": [], **where},
            )
            yield "ResponseTextDoneEvent", {"type": "response.output_text.done", "text": text, "logprobs": [], **where}
    if plain.get("type") == "function_call":
        text = plain.get("arguments") or ""
        yield (
            "ResponseFunctionCallArgumentsDeltaEvent",
            {"type": "response.function_call_arguments.delta", "item_id": item_id, "delta": text},
        )
        yield (
            "ResponseFunctionCallArgumentsDoneEvent",
            {
                "type": "response.function_call_arguments.done",
                "item_id": item_id,
                "arguments": text,
                "name": plain.get("name"),
            },
        )
    yield "ResponseOutputItemDoneEvent", {"type": "response.output_item.done", "item": item}


def _whole(response: ModelResponse, output: list[Any]) -> Any:
    from openai.types.responses import Response

    return Response.model_construct(
        id=response.response_id or "",
        created_at=0,
        model="scripted",
        object="response",
        output=list(output),
        parallel_tool_calls=False,
        tool_choice="auto",
        tools=[],
        usage=_usage(response.usage),
    )


def _usage(usage: Usage) -> Any:
    from openai.types.responses import ResponseUsage
    from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

    return ResponseUsage.model_construct(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=InputTokensDetails.model_construct(cached_tokens=usage.cached_tokens),
        output_tokens_details=OutputTokensDetails.model_construct(reasoning_tokens=usage.reasoning_tokens),
    )
