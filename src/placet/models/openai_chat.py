"""Chat Completions, by the official `openai` client: OpenAI's own server, and the many others that speak this API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.facts.items import ModelResponse, field_of
from placet.facts.model_settings import MCPToolChoice, ModelSettings
from placet.models.openai_chat_request import as_messages, is_openai
from placet.models.openai_chat_response import ChatAssembly, as_response
from placet.models.openai_client import OpenAIClient
from placet.models.provider_errors import provider_errors, refuse_what_is_no_stream
from placet.models.request_settings import strict_if_possible, with_extra_args, without_groups
from placet.models.response_events import ResponseEvents
from placet.ports import ModelRequest, RawEvent, StreamPart, ToolSpec

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_CHOICES = frozenset({"auto", "required", "none"})


class OpenAIChatCompletionsModel:
    """`OpenAIChatCompletionsModel("gpt-5")` asks OpenAI with the key of the environment. For another server that speaks
    the API give a client: `openai_client=AsyncOpenAI(base_url="http://localhost:8000/v1", api_key="…")`.

    The client's own retries are off, also on one that you made: the runtime retries, and knows what may be sent twice.
    """

    leaves_input_alone = True
    keeps_history = False

    def __init__(self, model: str, openai_client: AsyncOpenAI | None = None) -> None:
        self.model = model
        self._client = OpenAIClient(f"The model '{model}'", openai_client)

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        client = await self._client.get()
        server = _server(client)
        arguments = create_arguments(self.model, request, server)
        with provider_errors(server):
            raw = await client.chat.completions.with_raw_response.create(**arguments)
            body = json.loads(raw.text)  # as it came: the client's types may not know all of it
        return as_response(body, server, raw.request_id)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        client = await self._client.get()
        server = _server(client)
        arguments = create_arguments(self.model, request, server)
        if request.model_settings.include_usage is not False:
            arguments.setdefault("stream_options", {"include_usage": True})
        assembly, events = ChatAssembly(), ResponseEvents()
        with provider_errors(server):
            async with await client.chat.completions.create(**arguments, stream=True) as stream:
                headers = stream.response.headers
                async for chunk in stream:
                    plain = _plain(chunk)
                    for event in events.of_chunk(plain):
                        yield RawEvent(event)
                    assembly.add(plain)
        refuse_what_is_no_stream(server, headers, said=assembly.is_begun)
        response = as_response(assembly.whole(), server, headers.get("x-request-id"))
        for event in events.of_whole(response):
            yield RawEvent(event)
        yield response


def _server(client: AsyncOpenAI) -> str:
    """The server's name: it stands in errors, and beside what only this server would understand."""
    return client.base_url.host


def _plain(chunk: Any) -> Mapping[str, Any]:  # Any: the client's type, or whatever a server sent in its place
    dump = getattr(chunk, "to_dict", None)
    found: object = dump(mode="json", warnings=False) if dump is not None else chunk
    return found if isinstance(found, dict) else {}


def create_arguments(model: str, request: ModelRequest, server: str) -> dict[str, Any]:  # Any: the API's own shapes
    """The arguments of `client.chat.completions.create` for this request; what is None is left to the server."""
    _refuse_what_this_api_has_not(request)
    settings = request.model_settings
    tools = [_function(tool) for tool in without_groups(request.tools, "Chat Completions")] or None
    limit = "max_completion_tokens" if is_openai(server) else "max_tokens"
    found: dict[str, Any] = {
        "model": model,
        "messages": as_messages(request.input, request.system_instructions, server),
        "tools": tools,
        "tool_choice": _choice(settings.tool_choice) if tools else None,
        "parallel_tool_calls": settings.parallel_tool_calls if tools else None,
        "response_format": _format(request),
        limit: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "frequency_penalty": settings.frequency_penalty,
        "presence_penalty": settings.presence_penalty,
        "reasoning_effort": _effort(settings),
        "verbosity": settings.verbosity,
        "logprobs": None if settings.top_logprobs is None else True,
        "top_logprobs": settings.top_logprobs,
        "metadata": settings.metadata,
        "store": settings.store,
        "prompt_cache_key": settings.prompt_cache_key,
        "prompt_cache_retention": settings.prompt_cache_retention,
        "extra_headers": settings.extra_headers,
        "extra_query": settings.extra_query,
        "extra_body": settings.extra_body,
        "timeout": settings.timeout,
    }
    return with_extra_args(found, settings)


def _refuse_what_this_api_has_not(request: ModelRequest) -> None:
    if request.previous_response_id is not None or request.conversation_id is not None:
        raise UserError(
            "Chat Completions keeps no conversations: run without previous_response_id, auto_previous_response_id and "
            "conversation_id (the whole history is sent then), or use OpenAI's Responses API ('openai/…')."
        )
    if request.prompt is not None:
        raise UserError("Chat Completions keeps no prompts: give the agent instructions in place of a prompt.")
    if request.hosted_tools:
        names = sorted({str(tool.get("type")) for tool in request.hosted_tools})
        raise UserError(
            f"Chat Completions runs no hosted tools ({', '.join(names)}): use OpenAI's Responses API ('openai/…'), or "
            "give the agent a tool of your own."
        )


def _function(tool: ToolSpec) -> JsonObject:
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.params_json_schema),
    }
    if tool.strict:  # not every server knows the word: it is said only where it is meant
        function["strict"] = True
    return {"type": "function", "function": function}


def _choice(choice: str | Mapping[str, Any] | MCPToolChoice | None) -> Any:
    if isinstance(choice, MCPToolChoice):
        raise UserError("Chat Completions talks to no MCP servers: MCPToolChoice needs the Responses API ('openai/…').")
    if choice is None or isinstance(choice, Mapping) or choice in _CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _format(request: ModelRequest) -> JsonObject | None:
    if request.output_schema is None:
        return None
    schema = strict_if_possible(request.output_schema, request.output_is_strict)
    return {"type": "json_schema", "json_schema": {"name": "final_output", **schema}}


def _effort(settings: ModelSettings) -> Any:
    """This API has one word of what the Responses API says about reasoning."""
    given = settings.reasoning
    return given if given is None or isinstance(given, str) else field_of(given, "effort")
