"""A model of any service that LiteLLM reaches: it speaks Chat Completions to LiteLLM, and LiteLLM to the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from placet.facts.errors import UserError
from placet.facts.items import ModelResponse
from placet.models.openai_chat import create_arguments
from placet.models.openai_chat_response import ChatAssembly, as_response
from placet.models.provider_errors import provider_errors
from placet.models.response_events import ResponseEvents
from placet.ports import ModelRequest, RawEvent, StreamPart


class LitellmModel:
    """`LitellmModel("anthropic/claude-…", api_key="…")`. LiteLLM's own retries are off: the runtime retries, and knows
    what may be sent twice."""

    leaves_input_alone = True
    keeps_history = False

    def __init__(self, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        self.model = model
        self.base_url = base_url
        self.api_key = api_key
        _completion()  # what is missing is said here, not when the first run asks
        self._service = f"litellm:{model.partition('/')[0]}"

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        with provider_errors(self._service):
            found = await _completion()(**self._arguments(request))
        return as_response(_plain(found), self._service)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        arguments = self._arguments(request)
        if request.model_settings.include_usage is not False:
            arguments.setdefault("stream_options", {"include_usage": True})
        assembly, events = ChatAssembly(), ResponseEvents()
        with provider_errors(self._service):
            async for chunk in await _completion()(**arguments, stream=True):
                plain = _plain(chunk)
                for event in events.of_chunk(plain):
                    yield RawEvent(event)
                assembly.add(plain)
        response = as_response(assembly.whole(), self._service)
        for event in events.of_whole(response):
            yield RawEvent(event)
        yield response

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        """What is not said is left to LiteLLM; an empty value would be sent on to the service."""
        given = create_arguments(self.model, request, self._service)
        given |= {"base_url": self.base_url, "api_key": self.api_key, "num_retries": 0, "max_retries": 0}
        return {name: value for name, value in given.items() if value is not None}


def _completion() -> Any:  # Any: a function of LiteLLM's
    try:
        import litellm
    except ModuleNotFoundError as error:
        raise UserError("LitellmModel needs LiteLLM: pip install litellm") from error
    return litellm.acompletion


def _plain(found: Any) -> Mapping[str, Any]:  # Any: LiteLLM's own types
    plain: Mapping[str, Any] = found if isinstance(found, Mapping) else found.model_dump(mode="json")
    return plain
