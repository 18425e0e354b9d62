"""Anthropic's Messages API, by the official `anthropic` client: plain and streamed, tools, thinking, caching."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from placet.facts.codec import JsonObject
from placet.facts.errors import ProviderError, UserError
from placet.facts.events import Usage
from placet.facts.items import ModelResponse, field_of
from placet.facts.model_settings import MCPToolChoice, ModelSettings
from placet.models.anthropic_messages_request import API, as_messages, as_system, mark_of
from placet.models.anthropic_messages_response import PAUSED, MessageAssembly, as_message, as_response, as_usage
from placet.models.provider_data import provider_data_of
from placet.models.provider_errors import provider_errors, refuse_what_is_no_stream
from placet.models.request_settings import with_extra_args, without_groups
from placet.models.shared_clients import shared_client
from placet.ports import ModelRequest, RawEvent, StreamPart, ToolSpec

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicBedrockMantle, AsyncAnthropicVertex

    AnyClient: TypeAlias = (
        AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicBedrockMantle | AsyncAnthropicVertex
    )  # the clients for other clouds are made alike

DEFAULT_MAX_TOKENS = 16_000
"""The API wants a limit with every request. This one is below what the client takes for a request of ten minutes."""
_ONLY_STREAMED = "Streaming is required"
"""What the client says, before it sends anything, where an idle connection might not last as long as the answer."""
_MOST_PAUSES = 20
"""How often a turn that the API paused (its own tools were at work) is continued."""
_READ_BY_THE_CLIENT = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE")
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


class AnthropicModel:
    """`AnthropicModel("claude-…")`: the key comes from the environment, or give `client=AsyncAnthropic(…)`.

    The client's own retries are off, also on one that you made: the runtime retries, and knows what may be sent twice.
    """

    leaves_input_alone = True
    keeps_history = False

    def __init__(self, model: str, client: AnyClient | None = None) -> None:
        self.model = model
        self._given = client.with_options(max_retries=0) if client is not None else None

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self._whole_response(request)
        except ValueError as error:
            if not str(error).startswith(_ONLY_STREAMED):
                raise
        return [part async for part in self.stream_response(request) if isinstance(part, ModelResponse)][-1]

    async def _whole_response(self, request: ModelRequest) -> ModelResponse:
        client = await self._client()
        asked = asked_of(self.model, request)
        so_far = _SoFar(asked.arguments)
        while True:
            with provider_errors("Anthropic"):
                raw = await client.messages.with_raw_response.create(**so_far.arguments())
                body = json.loads(await raw.text())  # as it came: the client's types may not know all of it
            if so_far.add(as_message(body, raw.request_id)):
                return so_far.response(asked.mark, raw.request_id)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        client = await self._client()
        asked = asked_of(self.model, request)
        so_far = _SoFar(asked.arguments)
        while True:
            assembly = MessageAssembly()
            with provider_errors("Anthropic"):
                async with await client.messages.create(**so_far.arguments(), stream=True) as stream:
                    headers = stream.response.headers
                    async for event in stream:
                        yield RawEvent(event)
                        assembly.add(_plain(event))
            refuse_what_is_no_stream("Anthropic", headers, said=assembly.is_begun)
            request_id = headers.get("request-id")
            if so_far.add(as_message(assembly.whole(), request_id)):
                yield so_far.response(asked.mark, request_id)
                return

    async def _client(self) -> AnyClient:
        if self._given is not None:
            return self._given
        settings = tuple(os.environ.get(name) for name in _READ_BY_THE_CLIENT)
        return await shared_client(("anthropic", *settings), self._made)

    def _made(self) -> AsyncAnthropic:
        try:
            from anthropic import AnthropicError, AsyncAnthropic
        except ModuleNotFoundError as error:
            raise UserError(
                f"The model '{self.model}' needs an extra that is not installed: pip install 'placet[anthropic]'."
            ) from error
        missing = (
            f"The model '{self.model}' needs a key: set ANTHROPIC_API_KEY, or pass client=AsyncAnthropic(api_key=…)."
        )
        try:
            client = AsyncAnthropic(max_retries=0)
        except AnthropicError as error:
            raise UserError(missing) from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise UserError(missing)  # the client itself would say so only when it is used
        return client


def _plain(event: Any) -> Mapping[str, Any]:  # Any: the client's type, or whatever a server sent in its place
    dump = getattr(event, "to_dict", None)
    found: object = dump(mode="json", warnings=False) if dump is not None else event
    return found if isinstance(found, dict) else {}


class _SoFar:
    """One answer, in as many requests as the API pauses it for its own tools."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._blocks: list[JsonObject] = []
        self._usage = Usage()
        self._last: JsonObject = {}
        self._pauses = 0

    def arguments(self) -> dict[str, Any]:
        if not self._blocks:
            return dict(self._arguments)
        paused = {"role": "assistant", "content": self._blocks}
        return {**self._arguments, "messages": [*self._arguments["messages"], paused]}

    def add(self, message: JsonObject) -> bool:
        """Whether the answer is complete with this message."""
        content = message["content"]
        assert isinstance(content, list), "looked at when it came"
        self._blocks += content
        self._usage.add(as_usage(message.get("usage")))
        self._last = message
        if message.get("stop_reason") != PAUSED:
            return True
        self._pauses += 1
        if self._pauses > _MOST_PAUSES:
            raise ProviderError(f"Anthropic paused the answer {self._pauses} times, and it is still not complete.")
        return False

    def response(self, mark: str, request_id: str | None) -> ModelResponse:
        found = as_response({**self._last, "content": self._blocks}, mark, request_id)
        return replace(found, usage=self._usage)


# -- the request -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The arguments of `client.messages.create`, and the mark of all that they say."""

    arguments: dict[str, Any]  # Any: the API's own shapes
    mark: str


def asked_of(model: str, request: ModelRequest) -> PreparedRequest:
    _refuse_what_this_api_has_not(request)
    settings = request.model_settings
    thinking, effort = _thinking(settings)
    system = as_system(request.input, request.system_instructions)
    tools = [*map(_tool, without_groups(request.tools, "Anthropic's API")), *map(dict, request.hosted_tools)]
    has_none = not tools
    if has_none:
        tools = _tools_of_the_past(request.input)
    must_think = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    prompt = [{"type": "text", "text": system}] if isinstance(system, str) else system
    messages, mark = as_messages(request.input, mark_of(prompt, tools), must_think=must_think)
    found: dict[str, Any] = {
        "model": model,
        "max_tokens": _max_tokens(settings, thinking),
        "messages": messages,
        "system": system,
        "tools": tools or None,
        "tool_choice": ({"type": "none"} if tools else None) if has_none else _choice(settings),
        "thinking": thinking,
        "output_config": _output(request.output_schema, effort),
        "container": _container(request, settings),
        "metadata": _metadata(settings.metadata),
        "extra_headers": settings.extra_headers,
        "extra_query": settings.extra_query,
        "extra_body": settings.extra_body,
        "timeout": settings.timeout,
    }
    return PreparedRequest(with_extra_args(found, settings), mark)


def _refuse_what_this_api_has_not(request: ModelRequest) -> None:
    if request.previous_response_id is not None or request.conversation_id is not None:
        raise UserError(
            "Anthropic's API keeps no conversations: run without previous_response_id, auto_previous_response_id and "
            "conversation_id; the whole history is sent then."
        )
    foreign = sorted({str(tool.get("type")) for tool in request.hosted_tools if not isinstance(tool.get("name"), str)})
    if foreign:  # the tools that this API hosts have a type and a name
        raise UserError(
            f"Anthropic's API runs no hosted tool of the kind {', '.join(foreign)}: use OpenAI's Responses API "
            "('openai/…'), or give the agent a tool of your own."
        )


def _tools_of_the_past(items: Sequence[JsonObject]) -> list[JsonObject]:
    """An agent without tools may go on where another called some: the API wants those that were called to be declared.
    None of them may be called again."""
    names = dict.fromkeys(str(item.get("name")) for item in items if item.get("type") == "function_call")
    return [{"name": name, "input_schema": {"type": "object"}} for name in names]


def _tool(tool: ToolSpec) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.params_json_schema)}


def _choice(settings: ModelSettings) -> JsonObject | None:
    choice = settings.tool_choice
    if isinstance(choice, MCPToolChoice):
        raise UserError("Anthropic's API is given no MCPToolChoice: the servers that it talks to are not OpenAI's.")
    if isinstance(choice, Mapping):
        return dict(choice)
    if choice is None and settings.parallel_tool_calls is not False:
        return None
    kind = _CHOICES.get(choice or "auto")
    found: JsonObject = {"type": kind} if kind is not None else {"type": "tool", "name": choice}
    if settings.parallel_tool_calls is False and kind != "none":
        found["disable_parallel_tool_use"] = True
    return found


def _thinking(settings: ModelSettings) -> tuple[JsonObject | None, object]:
    """How the model is to think, and with how much effort: the API's own shape, or the effort alone."""
    given = settings.reasoning
    if given is None or isinstance(given, str):
        return None, given
    fields = given if isinstance(given, Mapping) else {}
    thinking = {name: value for name, value in fields.items() if name not in ("effort", "summary")}
    return (thinking if "type" in thinking else None), field_of(given, "effort")


def _max_tokens(settings: ModelSettings, thinking: JsonObject | None) -> int:
    if settings.max_tokens is not None:
        return settings.max_tokens
    budget = thinking.get("budget_tokens") if thinking is not None else None
    return DEFAULT_MAX_TOKENS + (budget if isinstance(budget, int) else 0)  # what is thought counts as said


def _output(schema: Mapping[str, object] | None, effort: object) -> JsonObject | None:
    found: JsonObject = {}
    if schema is not None:
        from anthropic import transform_schema

        found["format"] = {"type": "json_schema", "schema": transform_schema(dict(schema))}
    if effort is not None:
        found["effort"] = effort
    return found or None


def _container(request: ModelRequest, settings: ModelSettings) -> str | None:
    """Where the API's own tools worked last, as long as it is there. They find their files again."""
    if not request.hosted_tools or "container" in (settings.extra_args or {}):
        return None
    for item in reversed(request.input):
        found = provider_data_of(item, API).get("container")
        if isinstance(found, dict) and isinstance(found.get("id"), str):
            return None if _is_past(found.get("expires_at")) else str(found["id"])
    return None


def _is_past(when: object) -> bool:
    try:
        time = datetime.fromisoformat(str(when))
    except ValueError:
        return False
    return (time if time.tzinfo else time.replace(tzinfo=UTC)) <= datetime.now(UTC)


def _metadata(given: Mapping[str, str] | None) -> JsonObject | None:
    """The API takes one word about the request: whose it is."""
    return {"user_id": given["user_id"]} if given and "user_id" in given else None
