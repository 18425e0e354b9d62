"""A Chat Completions stream as the events of the Responses API, which is what programs that print as it comes look
for (`isinstance(event.data, ResponseTextDeltaEvent)`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placet.facts.items import ModelResponse

FAKE_ID = "__fake_id__"
"""This API gives its items no ids."""


class ResponseEvents:
    """Tells of each chunk what is new in it. What was told is never taken back."""

    def __init__(self) -> None:
        self._number = 0
        self._has_begun = False
        self._calls: dict[int, int] = {}
        """By the index of a call: the place of its item among those that were told."""
        self._places = 0
        self._text_place: int | None = None

    def of_chunk(self, chunk: Mapping[str, Any]) -> Iterator[Any]:
        """The events that a chunk stands for."""
        if not self._has_begun:
            self._has_begun = True
            yield self._event("ResponseCreatedEvent", "response.created", response=_response(ModelResponse([]), []))
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta = first.get("delta")
        if isinstance(delta, dict):
            yield from self._of_text(delta)
            yield from self._of_calls(delta)

    def of_whole(self, response: ModelResponse) -> Iterator[Any]:
        """Each item as it is in the end, then the whole response."""
        items = [_item(each) for each in response.output]
        for place, item in enumerate(items):
            yield self._event("ResponseOutputItemDoneEvent", "response.output_item.done", item=item, output_index=place)
        yield self._event("ResponseCompletedEvent", "response.completed", response=_response(response, items))

    def _of_text(self, delta: Mapping[str, Any]) -> Iterator[Any]:
        text = delta.get("content")
        if not isinstance(text, str) or not text:
            return
        if self._text_place is None:
            self._text_place = self._places
            self._places += 1
            message = _item(
                {"type": "message", "id": FAKE_ID, "role": "assistant", "content": [], "status": "in_progress"}
            )
            yield self._added(message, self._text_place)
        yield self._event(
            "ResponseTextDeltaEvent",
            "response.output_text.delta",
            delta=text,
            item_id=FAKE_ID,
            output_index=self._text_place,
            content_index=0,
            logprobs=[],
        )

    def _of_calls(self, delta: Mapping[str, Any]) -> Iterator[Any]:
        given = delta.get("tool_calls")
        for call in given if isinstance(given, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                continue
            index = call.get("index") or 0
            if index not in self._calls:
                self._calls[index] = self._places
                self._places += 1
                item = {"type": "function_call", "name": function.get("name") or "", "arguments": ""}
                yield self._added(_item({**item, "call_id": call.get("id") or "", "id": FAKE_ID}), self._calls[index])
            text = function.get("arguments")
            if isinstance(text, str) and text:
                yield self._event(
                    "ResponseFunctionCallArgumentsDeltaEvent",
                    "response.function_call_arguments.delta",
                    delta=text,
                    item_id=FAKE_ID,
                    output_index=self._calls[index],
                )

    def _added(self, item: Any, place: int) -> Any:
        return self._event("ResponseOutputItemAddedEvent", "response.output_item.added", item=item, output_index=place)

    def _event(self, name: str, kind: str, **fields: Any) -> Any:
        from openai.types import responses

        self._number += 1
        return getattr(responses, name).model_construct(type=kind, sequence_number=self._number, **fields)


def _item(item: Mapping[str, Any]) -> Any:
    """The item as an object of the client's, without checking it: servers leave out what they like."""
    from openai.types import responses

    kinds: dict[str, Any] = {
        "message": responses.ResponseOutputMessage,
        "function_call": responses.ResponseFunctionToolCall,
        "reasoning": responses.ResponseReasoningItem,
    }
    kind = kinds.get(str(item.get("type")))
    return dict(item) if kind is None else kind.construct(**item)


def _response(response: ModelResponse, output: list[Any]) -> Any:
    from openai.types.responses import Response, ResponseUsage
    from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

    usage = response.usage
    return Response.model_construct(
        id=response.response_id or FAKE_ID,
        created_at=0,
        model="",
        object="response",
        output=output,
        parallel_tool_calls=False,
        tool_choice="auto",
        tools=[],
        usage=ResponseUsage.model_construct(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            input_tokens_details=InputTokensDetails.model_construct(cached_tokens=usage.cached_tokens),
            output_tokens_details=OutputTokensDetails.model_construct(reasoning_tokens=usage.reasoning_tokens),
        ),
    )
