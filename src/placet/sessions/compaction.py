"""A session that has OpenAI make its history shorter when it has grown: over any other session that keeps the items.

What the provider gives back takes the place of what was there. Until that is written, nothing is given up: a session
that can replace its items in one step (`replace_items`) does so; of any other, the old items are put back if the new
ones cannot be written.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, TypeGuard, runtime_checkable

from placet.facts.codec import JsonObject, plain_item
from placet.facts.errors import UserError
from placet.ports import Session
from placet.sessions.openai_conversations import OpenAIConversationsSession

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CompactionMode: TypeAlias = Literal["previous_response_id", "input", "auto"]
_MODES = ("previous_response_id", "input", "auto")
THRESHOLD = 10
"""So many items besides those of users make a history worth the request."""


class CompactionArgs(TypedDict, total=False):
    """What a session is told when it may compact itself."""

    response_id: str
    """The last response of the run."""
    compaction_mode: CompactionMode
    store: bool
    """Whether the provider keeps that response."""
    force: bool


@runtime_checkable
class CompactsItself(Protocol):
    """A session that is told when a run on it has ended."""

    async def run_compaction(self, args: CompactionArgs | None = None) -> None: ...


def compacts_itself(session: object) -> TypeGuard[CompactsItself]:
    return callable(getattr(session, "run_compaction", None))


class CompactingSession:
    """`CompactingSession("user-7", SQLiteSession("user-7", "chats.db"))`: for models of OpenAI's Responses API.

    `should_trigger_compaction` is told `response_id`, `compaction_mode`, `compaction_candidate_items` and
    `session_items`, and says whether it is time. `compaction_mode`: the provider makes it of the responses that it
    keeps, or of the items that it is sent; `auto` sends items where it keeps none.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        *,
        client: AsyncOpenAI | None = None,
        model: str = "gpt-4.1",
        compaction_mode: CompactionMode = "auto",
        should_trigger_compaction: Callable[[dict[str, Any]], bool | Awaitable[bool]] | None = None,
    ) -> None:
        if isinstance(underlying_session, OpenAIConversationsSession):
            raise UserError("A conversation that OpenAI keeps cannot be compacted from here: use another session.")
        if compaction_mode not in _MODES:
            raise UserError(f"compaction_mode is one of {', '.join(_MODES)}, not {compaction_mode!r}.")
        self.session_id = session_id
        self.underlying_session = underlying_session
        self.model = model
        self.compaction_mode = compaction_mode
        self.should_trigger_compaction = should_trigger_compaction
        self._client = client
        self._last_response: str | None = None
        self._lock = asyncio.Lock()

    @property
    def client(self) -> AsyncOpenAI:
        if self._client is None:
            try:
                from openai import AsyncOpenAI
            except ImportError as error:
                raise UserError(
                    'Compacting a session needs the package openai: pip install "placet[openai]".'
                ) from error
            self._client = AsyncOpenAI()
        return self._client

    @property
    def kept_in(self) -> str | None:
        """Where the other session is kept; None where that does not say."""
        found = getattr(self.underlying_session, "kept_in", None)
        return found if isinstance(found, str) else None

    @property
    def session_settings(self) -> Any:  # Any: whatever the other session has
        return getattr(self.underlying_session, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[JsonObject]:
        return await self.underlying_session.get_items(limit) if limit is not None else await self._items()

    async def add_items(self, items: Sequence[JsonObject]) -> None:
        async with self._lock:
            await self.underlying_session.add_items(list(items))

    async def pop_item(self) -> JsonObject | None:
        async with self._lock:
            return await self.underlying_session.pop_item()

    async def clear_session(self) -> None:
        async with self._lock:
            await self.underlying_session.clear_session()
            self._last_response = None

    async def run_compaction(self, args: CompactionArgs | None = None, **_more: object) -> None:
        """Compact now if it is time; `{"force": True}`: in any case."""
        given = args or {}
        self._last_response = given.get("response_id") or self._last_response
        mode = _resolved(given.get("compaction_mode") or self.compaction_mode, given.get("store"), self._last_response)
        if mode == "previous_response_id" and self._last_response is None:
            raise UserError(
                "compaction_mode='previous_response_id' needs the id of a response that the provider keeps."
            )
        async with self._lock:  # what is added meanwhile would be lost
            items = await self._items()
            if not given.get("force") and not await self._is_time(items, mode):
                return
            made = await self._compacted(items, mode)
            await self._replace(items, made)

    async def _items(self) -> list[JsonObject]:
        return [plain_item(item) for item in await self.underlying_session.get_items()]

    async def _is_time(self, items: list[JsonObject], mode: str) -> bool:
        candidates = [item for item in items if not _is_of_user(item) and item.get("type") != "compaction"]
        if self.should_trigger_compaction is None:
            return len(candidates) >= THRESHOLD
        answer = self.should_trigger_compaction(
            {
                "response_id": self._last_response,
                "compaction_mode": mode,
                "compaction_candidate_items": candidates,
                "session_items": items,
            }
        )
        return (await answer if inspect.isawaitable(answer) else answer) is True

    async def _compacted(self, items: list[JsonObject], mode: str) -> list[JsonObject]:
        told: Mapping[str, Any] = {"input": items} if mode == "input" else {"previous_response_id": self._last_response}
        found = await self.client.responses.compact(model=self.model, **told)
        return [_without_status(plain_item(item)) for item in found.output or []]

    async def _replace(self, old: list[JsonObject], new: list[JsonObject]) -> None:
        replace = getattr(self.underlying_session, "replace_items", None)
        if replace is not None:
            await replace(new)
            return
        await self.underlying_session.clear_session()
        try:
            await self.underlying_session.add_items(new)
        except BaseException:
            await self.underlying_session.clear_session()
            await self.underlying_session.add_items(old)
            raise


def _resolved(
    mode: CompactionMode, store: bool | None, response: str | None
) -> Literal["previous_response_id", "input"]:
    if mode == "auto":
        return "input" if store is False or response is None else "previous_response_id"
    return mode


def _is_of_user(item: JsonObject) -> bool:
    return item.get("role") == "user" and item.get("type", "message") == "message"


def _without_status(item: JsonObject) -> JsonObject:
    return {
        name: value for name, value in item.items() if value is not None and not (name == "status" and "role" in item)
    }
