"""OpenAI's Responses API, by the official client: plain and streamed, with the server's history or our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from placet.facts.codec import JsonObject
from placet.facts.errors import ProviderError
from placet.facts.items import ModelResponse
from placet.models.openai_client import OpenAIClient
from placet.models.provider_errors import provider_errors
from placet.models.responses_wire import carried, create_arguments, input_items, model_response
from placet.ports import ModelRequest, RawEvent, Reconciled, StreamPart

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_NEWEST = 100
"""How many items of a conversation are read to find a lost request: one page. It left fewer, or another process
wrote."""


_UNFINISHED = ("queued", "in_progress")
FIRST_LOOK, LONGEST_PAUSE = 0.25, 10.0
"""Seconds between two looks at a response that is made in the background."""


async def _finished(client: AsyncOpenAI, body: JsonObject) -> JsonObject:
    """The response, once the server has made it in the background (`extra_args={"background": True}`)."""
    pause = FIRST_LOOK
    while body.get("status") in _UNFINISHED:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
        raw = await client.responses.with_raw_response.retrieve(str(body["id"]))
        found = json.loads(raw.text)
        if not isinstance(found, dict):
            raise ProviderError("OpenAI answered something that is no response.")
        body = found
    return body


class OpenAIResponsesModel:
    """`OpenAIResponsesModel("gpt-5")`: the key comes from the environment, or give `openai_client=AsyncOpenAI(…)`.

    The client's own retries are off, also on one that you made: the runtime retries, and knows what may be sent twice.
    """

    leaves_input_alone = True

    def __init__(self, model: str, openai_client: AsyncOpenAI | None = None) -> None:
        self.model = model
        self._client = OpenAIClient(f"The model '{model}'", openai_client)

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        client = await self._client.get()
        arguments = create_arguments(self.model, request)
        with provider_errors("OpenAI"):
            raw = await client.responses.with_raw_response.create(**arguments)
            body = json.loads(raw.text)  # as it came: the client's types may not know all of it
            if isinstance(body, dict) and body.get("status") in _UNFINISHED:
                body = await _finished(client, body)
        return model_response(body, raw.request_id)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        client = await self._client.get()
        arguments = create_arguments(self.model, request)
        last: Any = None  # Any: one of the client's events
        done: list[Any] = []
        with provider_errors("OpenAI"):
            async with await client.responses.create(**arguments, stream=True) as stream:
                request_id = stream.response.headers.get("x-request-id")
                async for event in stream:
                    yield RawEvent(event)
                    if event.type in _LAST_EVENTS:
                        last = event
                    elif event.type == "response.output_item.done":
                        done.append(event.item)
        if last is None:
            raise ProviderError("OpenAI's stream ended before the response was complete.", is_transient=True)
        body = last.response.to_dict(mode="json", warnings=False)
        if not body.get("output"):  # some servers tell their items only one by one
            body["output"] = [item.to_dict(mode="json", warnings=False) for item in done]
        yield model_response(body, request_id)

    # -- conversations that the server keeps ------------------------------------------------------------------------

    async def newest_item(self, conversation_id: str) -> str | None:
        """The id of the conversation's newest item; empty where there is none."""
        found = await self._newest_items(conversation_id, 1)
        return str(found[0].get("id") or "") if found else ""

    async def find_request(self, request: ModelRequest) -> Reconciled | None:
        """What the conversation got since the item that was its newest before the request. The server writes a
        request's items and its answer's together, when the answer is complete: so what is there is whole.
        """
        if request.conversation_id is None or request.after is None:
            return None
        newer: list[JsonObject] = []
        found = await self._newest_items(request.conversation_id, _NEWEST)
        for item in found:
            if item.get("id") == request.after:
                break
            newer.insert(0, item)
        else:
            if request.after or len(found) == _NEWEST:
                return None  # the item that was the newest is not among these: deleted, or too much came since
        if not newer:
            return Reconciled(taken=False)
        answer = carried(input_items(request.input, stored=True), newer)
        if answer is None:
            return None
        return Reconciled(taken=True, response=ModelResponse(answer) if answer else None)

    async def _newest_items(self, conversation_id: str, limit: int) -> list[JsonObject]:
        """The newest items as the server has them, newest first: one page."""
        client = await self._client.get()
        with provider_errors("OpenAI"):
            raw = await client.conversations.items.with_raw_response.list(
                conversation_id, order="desc", limit=limit, include=["reasoning.encrypted_content"]
            )
            body = json.loads(raw.text)
        data = body.get("data") if isinstance(body, dict) else None
        if not isinstance(data, list):
            raise ProviderError("OpenAI answered something that is no list of a conversation's items.")
        return [item for item in data if isinstance(item, dict)]
