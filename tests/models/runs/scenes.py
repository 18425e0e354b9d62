"""A shop whose refunds need a person, on any of the three APIs, over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from placet import Agent, ModelRetryBackoffSettings, ModelRetrySettings, Runner, function_tool
from placet.models import AnthropicModel, OpenAIChatCompletionsModel, OpenAIResponsesModel
from placet.ports import Model
from placet.testing import assistant_message, function_call
from placet.testing.provider import FakeProvider

Api = Literal["responses", "chat", "messages"]
APIS: tuple[Api, ...] = ("responses", "chat", "messages")

THREE_CALLS = [
    function_call("refund", {"order": "7"}, call_id="c1"),
    function_call("look_up", {"order": "8"}, call_id="c2"),
    function_call("refund", {"order": "9"}, call_id="c3"),
]
DONE = [assistant_message("It is done.")]
AT_ONCE = ModelRetrySettings(backoff=ModelRetryBackoffSettings(initial_delay=0, max_delay=0))
"""Retries as by default, without the waiting."""


@dataclass(slots=True)
class Shop:
    agent: Agent[Any]
    effects: list[str] = field(default_factory=list)


def shop(model: Model | str, **options: Any) -> Shop:
    effects: list[str] = []

    @function_tool(needs_approval=True)
    def refund(order: str) -> str:
        """Pay money back."""
        effects.append(f"refund {order}")
        return f"order {order} is refunded"

    @function_tool
    def look_up(order: str) -> str:
        """What is known about an order."""
        effects.append(f"look_up {order}")
        return f"order {order}: 4200 cents"

    return Shop(Agent(name="Shop", instructions="Be kind.", tools=[refund, look_up], model=model, **options), effects)


def model_at(api: Api, url: str) -> tuple[Model, Any]:
    """The adapter for an API, with an official client that talks to this address."""
    if api == "messages":
        from anthropic import AsyncAnthropic

        anthropic = AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="secret", timeout=120)
        return AnthropicModel("claude-test", anthropic), anthropic
    from openai import AsyncOpenAI

    openai = AsyncOpenAI(base_url=url, api_key="secret", timeout=120)
    if api == "chat":
        return OpenAIChatCompletionsModel("gpt-test", openai), openai
    return OpenAIResponsesModel("gpt-test", openai), openai


@contextlib.asynccontextmanager
async def model_over_http(api: Api, provider: FakeProvider) -> AsyncIterator[Model]:
    async with provider.serve() as url:
        model, client = model_at(api, url)
        async with client:
            yield model


@contextlib.asynccontextmanager
async def responses_model(steps: Sequence[Any], **client: Any) -> AsyncIterator[tuple[FakeProvider, Model]]:
    from openai import AsyncOpenAI

    provider = FakeProvider(steps)
    async with (
        provider.serve() as url,
        AsyncOpenAI(base_url=url, api_key="secret", **{"timeout": 20, **client}) as openai,
    ):
        yield provider, OpenAIResponsesModel("gpt-test", openai)


async def drive(agent: Agent[Any], given: Any, *, streamed: bool, **options: Any) -> Any:
    if not streamed:
        return await Runner.run(agent, given, **options)
    result = Runner.run_streamed(agent, given, **options)
    async for _ in result.stream_events():
        pass
    return result
