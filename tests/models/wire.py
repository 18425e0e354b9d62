"""The strict provider behind real HTTP, with models that reach it through the official clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from placet.facts.items import ModelResponse
from placet.models import AnthropicModel, OpenAIChatCompletionsModel
from placet.ports import Model, ModelRequest
from placet.testing.provider import FakeProvider


class Wire:
    """`wire.model()` is a model whose requests arrive at `wire.provider`. Retries wait for nobody."""

    def __init__(self, api: str, provider: FakeProvider, stack: AsyncExitStack) -> None:
        self.api = api
        self.provider = provider
        self._stack = stack
        self.url = ""
        self._model: Model | None = None

    async def open(self) -> None:
        self.url = await self._stack.enter_async_context(self.provider.serve())
        options: dict[str, Any] = {"base_url": self.url, "api_key": "test", "timeout": 20}
        if self.api == "chat":
            openai = await self._stack.enter_async_context(AsyncOpenAI(**options))
            self._model = OpenAIChatCompletionsModel("gpt-5", openai)
        else:
            anthropic = await self._stack.enter_async_context(AsyncAnthropic(**options))
            self._model = AnthropicModel("claude-opus-5", anthropic)

    @property
    def model(self) -> Model:
        assert self._model is not None
        return self._model

    async def ask(self, request: ModelRequest, *, streamed: bool) -> ModelResponse:
        """The model's answer by one way or the other."""
        if not streamed:
            return await self.model.get_response(request)
        parts = [part async for part in self.model.stream_response(request)]
        assert isinstance(parts[-1], ModelResponse)
        return parts[-1]


@asynccontextmanager
async def wired(api: str) -> AsyncIterator[Wire]:
    async with AsyncExitStack() as stack:
        wire = Wire(api, FakeProvider(), stack)
        await wire.open()
        yield wire
