"""A Conversations API on loopback, and the real client that talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from openai import AsyncOpenAI

from tests.sessions.conversations_server import ConversationsServer


@pytest.fixture
def server() -> Iterator[ConversationsServer]:
    made = ConversationsServer()
    yield made
    made.close()


@pytest.fixture
async def client(server: ConversationsServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.url, api_key="key-for-tests") as made:
        yield made
