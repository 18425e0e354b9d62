"""The Responses API in plain JSON: what a request looks like on the wire, and what its answer means. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.facts.codec import JsonObject
from placet.facts.errors import ProviderError
from placet.facts.events import Usage
from placet.facts.items import ModelResponse
from placet.facts.model_settings import MCPToolChoice, ModelSettings
from placet.models.request_settings import strict_if_possible, with_extra_args
from placet.ports import ModelRequest, ToolSpec

ENCRYPTED_REASONING = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_CHOICES = frozenset({"auto", "required", "none"})
_HOSTED_CHOICES = frozenset(
    {"code_interpreter", "file_search", "image_generation", "web_search", "web_search_preview", "computer_use_preview"}
)
_NAMED_TOOLS = frozenset({"function", "custom"})
_NAMED_ANEW = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "shell_call", "apply_patch_call"}
    | {"custom_tool_call", "custom_tool_call_output"}
)
"""Items that the API takes without their id: what the server did not store cannot be named by one."""
_COMMON = frozenset({"message", "function_call", "function_call_output"})
"""What every API makes, and every other can read."""
_TRANSIENT = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})

_INCOMPLETE = {
    "max_output_tokens": "it reached its limit of output tokens (ModelSettings.max_tokens, or the model's own)",
    "content_filter": "the provider's content filter stopped it",
}


# -- the request -------------------------------------------------------------------------------------------------------


def create_arguments(model: str, request: ModelRequest) -> dict[str, Any]:  # Any: the API's own shapes
    """The arguments of `client.responses.create` for this request; what is None is left to the provider."""
    settings = request.model_settings
    found: dict[str, Any] = {
        "model": model,
        "input": input_items(request.input, stored=settings.store is not False),
        "instructions": request.system_instructions,
        "tools": [*_tools(request.tools), *map(dict, request.hosted_tools)] or None,
        "tool_choice": _choice(settings.tool_choice, {each.name: each.native for each in request.tools if each.native}),
        "previous_response_id": request.previous_response_id,
        "conversation": request.conversation_id,
        "prompt": request.prompt,
        "text": _text(settings, request),
        "include": _include(settings) or None,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_logprobs": settings.top_logprobs,
        "max_output_tokens": settings.max_tokens,
        "parallel_tool_calls": settings.parallel_tool_calls,
        "truncation": settings.truncation,
        "reasoning": _plain_setting(settings.reasoning),
        "metadata": settings.metadata,
        "store": settings.store,
        "prompt_cache_key": settings.prompt_cache_key,
        "prompt_cache_retention": settings.prompt_cache_retention,
        "context_management": settings.context_management,
        "prompt_cache_options": settings.prompt_cache_options,
        "extra_headers": settings.extra_headers,
        "extra_query": settings.extra_query,
        "extra_body": settings.extra_body,
        "timeout": settings.timeout,
    }
    return with_extra_args(found, settings)


def _tools(tools: Sequence[ToolSpec]) -> list[JsonObject]:
    """The tools, those of one group together, where the first of them stands."""
    found: list[JsonObject] = []
    groups: dict[str, list[Any]] = {}
    for tool in tools:
        if tool.namespace is None:
            found.append(_tool(tool))
        elif tool.namespace in groups:
            groups[tool.namespace].append(_tool(tool))
        else:
            members = groups[tool.namespace] = [_tool(tool)]
            told = {"description": tool.namespace_description} if tool.namespace_description else {}
            found.append({"type": "namespace", "name": tool.namespace, **told, "tools": members})
    return found


def _tool(tool: ToolSpec) -> JsonObject:
    if tool.native is not None:
        return dict(tool.native)
    return {
        "type": "function",
        "name": tool.name if tool.namespace is None else tool.name.removeprefix(f"{tool.namespace}."),
        "description": tool.description,
        "parameters": dict(tool.params_json_schema),
        "strict": tool.strict,
        **(tool.more or {}),
    }


def _choice(choice: str | Mapping[str, Any] | MCPToolChoice | None, native: Mapping[str, Mapping[str, object]]) -> Any:
    if choice is None or isinstance(choice, Mapping):
        return choice
    if isinstance(choice, MCPToolChoice):
        return {"type": "mcp", "server_label": choice.server_label, "name": choice.name}
    if choice in _CHOICES:
        return choice
    kind = str(native[choice]["type"]) if choice in native else "function"
    is_unnamed = choice in _HOSTED_CHOICES or kind not in _NAMED_TOOLS
    return {"type": kind if choice in native else choice} if is_unnamed else {"type": kind, "name": choice}


def _text(settings: ModelSettings, request: ModelRequest) -> JsonObject | None:
    found: JsonObject = {}
    if request.output_schema is not None:
        schema = strict_if_possible(request.output_schema, request.output_is_strict)
        found["format"] = {"type": "json_schema", "name": "final_output", **schema}
    if settings.verbosity is not None:
        found["verbosity"] = settings.verbosity
    return found or None


def _include(settings: ModelSettings) -> list[str]:
    found = list(settings.response_include or ())
    if settings.store is False:
        found.append(ENCRYPTED_REASONING)  # the server keeps nothing: its thoughts travel with us, sealed
    if settings.top_logprobs is not None:
        found.append(_LOGPROBS)
    return list(dict.fromkeys(found))


def _plain_setting(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(exclude_unset=True) if dump is not None else value


def input_items(items: Sequence[JsonObject], *, stored: bool) -> list[JsonObject]:
    """The history as this API takes it: everything as it came, but for what only another provider could read."""
    return [found for item in items if (found := _input_item(item, stored=stored)) is not None]


def _input_item(item: JsonObject, *, stored: bool) -> JsonObject | None:
    kind = item.get("type") or "message"
    if kind == "reasoning" and not _can_be_read(item, stored=stored):
        return None
    if kind not in _COMMON and item.get("provider_data"):
        return None  # another API made it for itself
    found = {name: value for name, value in item.items() if name != "provider_data"}
    if not stored and kind in _NAMED_ANEW:
        found.pop("id", None)
    return found


def _can_be_read(reasoning: JsonObject, *, stored: bool) -> bool:
    """Whether OpenAI can make anything of these thoughts: its own, stored there or sealed in the item."""
    if reasoning.get("provider_data"):
        return False
    return bool(reasoning.get("encrypted_content")) or (stored and bool(reasoning.get("id")))


# -- the answer --------------------------------------------------------------------------------------------------------


def model_response(body: object, request_id: str | None) -> ModelResponse:
    """The answer as the runtime takes it. A failed one is a ProviderError; an incomplete one says so."""
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        raise ProviderError("OpenAI answered something that is no response: it has no list of output items.")
    status = body.get("status")
    if status == "failed" or (status is None and body.get("error")):
        raise failure(body, request_id)
    if status in ("queued", "in_progress", "cancelled"):
        raise ProviderError(f"OpenAI's response is {status}, and not complete.", request_id=request_id)
    response_id = body.get("id")
    return ModelResponse(
        output=body["output"],
        usage=usage_of(body.get("usage")),
        response_id=response_id if isinstance(response_id, str) else None,
        request_id=request_id,
        incomplete=_why_incomplete(body) if status == "incomplete" else None,
    )


def failure(body: Mapping[str, Any], request_id: str | None) -> ProviderError:
    given = body.get("error")
    error: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    message = error.get("message") or "it gave no reason"
    return ProviderError(
        f"OpenAI could not make a response: {message}",
        is_transient=error.get("code") in _TRANSIENT,
        request_id=request_id,
    )


def _why_incomplete(body: Mapping[str, Any]) -> str:
    details = body.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    return _INCOMPLETE.get(str(reason), f"the provider says: {reason or 'no reason'}")


def usage_of(given: object) -> Usage:
    if not isinstance(given, Mapping):
        return Usage(requests=1)
    read, written = _details(given, "input_tokens_details"), _details(given, "output_tokens_details")
    return Usage(
        requests=1,
        input_tokens=_count(given, "input_tokens"),
        output_tokens=_count(given, "output_tokens"),
        total_tokens=_count(given, "total_tokens"),
        cached_tokens=_count(read, "cached_tokens"),
        reasoning_tokens=_count(written, "reasoning_tokens"),
        cache_write_tokens=_count(read, "cache_write_tokens"),
    )


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = usage.get(name)
    return found if isinstance(found, Mapping) else {}


def _count(figures: Mapping[str, Any], name: str) -> int:
    found = figures.get(name)
    return found if isinstance(found, int) else 0


# -- a request whose answer was lost, in a conversation ----------------------------------------------------------------


def carried(sent: Sequence[JsonObject], newer: Sequence[JsonObject]) -> list[JsonObject] | None:
    """What stands behind the items of a request in what a conversation got since, oldest first.

    None: this is not what the request would have left there; another process wrote into the conversation.
    """
    if len(newer) < len(sent) or any(_outline(one) != _outline(other) for one, other in zip(sent, newer, strict=False)):
        return None
    return list(newer[len(sent) :])


def _outline(item: JsonObject) -> tuple[object, ...]:
    """What an item and its stored twin have in common, whatever the server adds."""
    kind = item.get("type") or "message"
    match kind:
        case "message":
            return (kind, item.get("role"), _texts_of(item.get("content")))
        case "mcp_approval_response":
            return (kind, item.get("approval_request_id"), item.get("approve"))
        case "item_reference" | "local_shell_call_output":
            return (kind, item.get("id"))
        case _:
            return (kind, item.get("call_id"))


def _texts_of(content: object) -> tuple[object, ...]:
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else []
    return tuple(part.get("text", part.get("type")) for part in parts if isinstance(part, dict))
