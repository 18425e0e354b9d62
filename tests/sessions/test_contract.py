"""Every session keeps the contract of sessions."""

from __future__ import annotations

import pytest

from placet import InMemorySession, SQLiteSession
from placet.sessions.openai_conversations import OpenAIConversationsSession
from placet.testing.session_contract import SessionContract


class TestInMemorySession(SessionContract):
    @pytest.fixture
    def session(self):
        return InMemorySession("chat")


class TestSQLiteSession(SessionContract):
    @pytest.fixture
    def session(self, tmp_path):
        made = SQLiteSession("chat", tmp_path / "chats.db")
        yield made
        made.close()


class TestOpenAIConversationsSession(SessionContract):
    @pytest.fixture
    def session(self, client):
        return OpenAIConversationsSession(openai_client=client)
