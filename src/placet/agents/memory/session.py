"""Sessions of one's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

from placet.declare.run_config import SessionSettings
from placet.sessions.compaction import CompactionArgs as OpenAIResponsesCompactionArgs
from placet.sessions.compaction import CompactsItself as OpenAIResponsesCompactionAwareSession
from placet.sessions.compaction import compacts_itself as is_openai_responses_compaction_aware_session


@runtime_checkable
class Session(Protocol):
    """What a session has; it may be inherited from, too."""

    session_id: str
    session_settings: SessionSettings | None = None

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items, oldest first; with a limit the newest so many."""
        ...

    async def add_items(self, items: list[Any]) -> None: ...

    async def pop_item(self) -> Any | None: ...

    async def clear_session(self) -> None: ...


class SessionABC(ABC):
    """The base of sessions of one's own."""

    session_id: str
    session_settings: SessionSettings | None = None

    @abstractmethod
    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items, oldest first; with a limit the newest so many."""

    @abstractmethod
    async def add_items(self, items: list[Any]) -> None: ...

    @abstractmethod
    async def pop_item(self) -> Any | None: ...

    @abstractmethod
    async def clear_session(self) -> None: ...


__all__ = [
    "OpenAIResponsesCompactionArgs",
    "OpenAIResponsesCompactionAwareSession",
    "Session",
    "SessionABC",
    "is_openai_responses_compaction_aware_session",
]
