"""The official clients in front of a fake provider: over real HTTP, and in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Literal

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from placet.testing.provider import FakeProvider

Way = Literal["http", "in_process"]
Clients = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["http", "in_process"])
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture
async def openai_for(way: Way) -> AsyncIterator[Clients]:
    """`await openai_for(provider)` is an official client that talks to the provider, without retries of its own."""
    async with AsyncExitStack() as stack:

        async def make(provider: FakeProvider, **options: Any) -> AsyncOpenAI:
            options = {"max_retries": 0, "timeout": 20, **options}
            if way == "in_process":
                return await stack.enter_async_context(provider.openai_client(**options))
            url = await stack.enter_async_context(provider.serve())
            return await stack.enter_async_context(AsyncOpenAI(base_url=url, api_key="secret", **options))

        yield make


@pytest.fixture
async def anthropic_for(way: Way) -> AsyncIterator[Clients]:
    async with AsyncExitStack() as stack:

        async def make(provider: FakeProvider, **options: Any) -> AsyncAnthropic:
            options = {"max_retries": 0, "timeout": 20, **options}
            if way == "in_process":
                return await stack.enter_async_context(provider.anthropic_client(**options))
            url = await stack.enter_async_context(provider.serve())
            return await stack.enter_async_context(AsyncAnthropic(base_url=url, api_key="secret", **options))

        yield make
