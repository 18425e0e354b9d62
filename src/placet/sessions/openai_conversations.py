"""A session in a conversation that OpenAI keeps: every process with the key can open it by its id.

What changes the conversation is sent once: a request that the server may have taken is never repeated from here, not
even by the client's own retries, because adding is not idempotent. It fails, and the writer looks at what is there.
Only a request that was certainly refused (the rate limit) is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from placet.facts.codec import JsonObject, plain_item
from placet.facts.errors import UserError
from placet.facts.ids import mint
from placet.runtime.session_matching import digest_of_place

if TYPE_CHECKING:
    from openai import AsyncOpenAI, RateLimitError
    from openai.types.responses import ResponseIncludable
    from openai.types.responses.response_input_item_param import ResponseInputItemParam

V = TypeVar("V")

_ITEMS_PER_REQUEST = 20
_ITEMS_PER_PAGE = 100
_LONGEST_WAIT = 60.0
_UNOPENED = "unopened"

_LEFT_OUT_UNLESS_ASKED: list[ResponseIncludable] = [
    "reasoning.encrypted_content",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
]
"""Parts of items that a model must be sent again, and that the server only shows to those who ask."""

_SERVER_NOTES = ("created_by", "provider_data")
_WITHOUT_STATUS = frozenset({"message", "reasoning", "function_call", "function_call_output"})
_NAMED_BY_ID = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "web_search_call",
    }
)
"""Kinds of items that the API takes only with their id. All others go without: an id that is sent again makes the
server move the item out of the conversation in which it was."""


class OpenAIConversationsSession:
    """`OpenAIConversationsSession()` opens a new conversation at its first use, `…(conversation_id="conv_…")` one that
    exists.

    `session_id` is the conversation's id, and it is what a run's log keeps: to resume the run in another process, open
    the session there with `conversation_id=`. Before the first use there is no conversation and so no id yet:
    `session_id` is then a stand-in that nothing stores. Who needs the id earlier writes
    `session = await OpenAIConversationsSession.create()`.

    Items come back as a model takes them as input: without the server's ids and states, which the API refuses there.
    Reasoning that has neither an id nor encrypted content (another provider's) cannot be kept at OpenAI and is left
    out. `clear_session` empties the conversation, which stays what it was, with the same id.
    """

    def __init__(self, *, conversation_id: str | None = None, openai_client: AsyncOpenAI | None = None) -> None:
        if conversation_id is not None:
            _check_id(conversation_id)
        self._conversation_id = conversation_id
        self._stand_in = mint(_UNOPENED)
        self._client = openai_client if openai_client is not None else _default_client()
        self._opening = asyncio.Lock()

    @classmethod
    async def create(cls, *, openai_client: AsyncOpenAI | None = None) -> OpenAIConversationsSession:
        """A session in a new conversation, which exists from now on."""
        session = cls(openai_client=openai_client)
        await session._opened()
        return session

    @property
    def session_id(self) -> str:
        return self._conversation_id if self._conversation_id is not None else self._stand_in

    @property
    def kept_in(self) -> str:
        """At the service that the client speaks to: two services may give the same id to two conversations."""
        url = self._client.base_url
        return digest_of_place("openai", f"{url.scheme}://{url.host}:{url.port}{url.path.rstrip('/')}")

    @staticmethod
    def keeps(item: JsonObject) -> bool:
        """Whether the server can keep this item: `add_items` leaves out those that it cannot."""
        return item.get("type") != "reasoning" or bool(item.get("id") or item.get("encrypted_content"))

    async def get_items(self, limit: int | None = None) -> list[JsonObject]:
        if limit is None:
            return [_as_input(item) async for item in self._stored("asc")]
        newest = [_as_input(item) async for item in self._stored("desc", limit)]
        return newest[::-1]

    async def add_items(self, items: Sequence[JsonObject]) -> None:
        """In the given order, some at a time: if it fails, the conversation holds a beginning of them."""
        kept = [_as_input(plain_item(item)) for item in items if self.keeps(item)]
        conversation = await self._opened()
        create = self._client.with_options(max_retries=0).conversations.items.create
        for start in range(0, len(kept), _ITEMS_PER_REQUEST):
            some = cast("Iterable[ResponseInputItemParam]", kept[start : start + _ITEMS_PER_REQUEST])
            with self._naming_what_is_missing():
                await self._unless_refused(partial(create, conversation, items=some))

    async def pop_item(self) -> JsonObject | None:
        from openai import NotFoundError

        conversation = await self._opened()
        delete = self._client.with_options(max_retries=0).conversations.items.delete
        while newest := [item async for item in self._stored("desc", 1)]:
            with contextlib.suppress(NotFoundError):  # another process took it in between: there is another newest one
                await self._unless_refused(partial(delete, str(newest[0]["id"]), conversation_id=conversation))
                return _as_input(newest[0])
        return None

    async def clear_session(self) -> None:
        """Newest first: if it fails, the conversation holds a beginning of what it held."""
        from openai import NotFoundError

        conversation = await self._opened()
        for item in [item async for item in self._stored("desc")]:
            with contextlib.suppress(NotFoundError):  # deleting twice is deleting: here the client may retry
                await self._client.conversations.items.delete(str(item["id"]), conversation_id=conversation)

    async def _opened(self) -> str:
        async with self._opening:
            if self._conversation_id is None:
                self._conversation_id = (await self._client.conversations.create()).id
            return self._conversation_id

    async def _stored(self, order: Literal["asc", "desc"], limit: int | None = None) -> AsyncIterator[JsonObject]:
        """The items as the server has them, read page by page, as many as are wanted."""
        conversation = await self._opened()
        left = sys.maxsize if limit is None else limit
        if left < 1:
            return
        with self._naming_what_is_missing():
            found = self._client.conversations.items.list(
                conversation, order=order, limit=min(left, _ITEMS_PER_PAGE), include=_LEFT_OUT_UNLESS_ASKED
            )
            async for item in found:
                yield item.to_dict(mode="json", warnings=False)
                left -= 1
                if left == 0:
                    break

    @contextlib.contextmanager
    def _naming_what_is_missing(self) -> Iterator[None]:
        from openai import NotFoundError

        try:
            yield
        except NotFoundError as error:
            raise UserError(
                f"There is no conversation '{self.session_id}' for this key: it was deleted, or another project has it."
            ) from error

    async def _unless_refused(self, request: Callable[[], Awaitable[V]]) -> V:
        """The request's answer. It is repeated, as often as the client would, while the rate limit refuses it."""
        from openai import RateLimitError

        for refusals in range(self._client.max_retries):
            try:
                return await request()
            except RateLimitError as error:
                await asyncio.sleep(_wait_after(error, refusals))
        return await request()


def _default_client() -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI, OpenAIError
    except ModuleNotFoundError as error:
        raise UserError(
            "OpenAIConversationsSession needs an extra that is not installed: pip install 'placet[openai]'."
        ) from error
    try:
        # No connection outlives its request, and so none outlives its event loop: `run_sync` opens a loop for each run.
        return AsyncOpenAI(default_headers={"Connection": "close"})
    except OpenAIError as error:
        raise UserError(
            "OpenAIConversationsSession needs a key: set OPENAI_API_KEY, or pass openai_client=AsyncOpenAI(api_key=…)."
        ) from error


def _check_id(conversation_id: object) -> None:
    if not isinstance(conversation_id, str) or not conversation_id:
        raise UserError(f"conversation_id is the id of a conversation ('conv_…'), not {conversation_id!r}.")
    if conversation_id.startswith(f"{_UNOPENED}_"):
        raise UserError(
            f"'{conversation_id}' stood in for the id of a conversation that was not open yet. Take session_id after "
            "the first use, or use `await OpenAIConversationsSession.create()`."
        )


def _wait_after(error: RateLimitError, refusals: int) -> float:
    """Seconds: what the server says, or longer each time."""
    headers = error.response.headers
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with contextlib.suppress(KeyError, ValueError):
            return min(max(float(headers[header]) * unit, 0.0), _LONGEST_WAIT)
    return min(0.5 * 2.0**refusals, _LONGEST_WAIT)


def _as_input(item: JsonObject) -> JsonObject:
    """An item as the API takes it, and as a model does: the same form for writing and for reading."""
    kind = item.get("type") or "message"
    found = {name: value for name, value in item.items() if value is not None and name not in _SERVER_NOTES}
    if kind in _WITHOUT_STATUS:
        found.pop("status", None)
    is_only_an_id = kind == "reasoning" and "encrypted_content" not in found
    if kind not in _NAMED_BY_ID and not is_only_an_id:
        found.pop("id", None)
    content = found.get("content")
    if kind == "message" and isinstance(content, list):
        found["content"] = [_part_as_input(part, item.get("role")) for part in content]
    output = found.get("output")
    if isinstance(output, list):
        found["output"] = list(map(_without_nulls, output))
    return found


def _part_as_input(part: object, role: object) -> object:
    """A part of a message. A text is called by who said it: the API refuses the model's text as a user's."""
    found = _without_nulls(part)
    if not isinstance(found, dict) or found.get("type") not in ("text", "input_text", "output_text"):
        return found
    if role != "assistant":
        return {**found, "type": "input_text"}
    if not found.get("logprobs"):
        found.pop("logprobs", None)
    return {**found, "type": "output_text", "annotations": found.get("annotations", [])}


def _without_nulls(part: object) -> object:
    return {name: value for name, value in part.items() if value is not None} if isinstance(part, dict) else part
