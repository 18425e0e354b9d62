"""What `POST /messages` accepts: parameters, turns, tool results beside their tool uses, thinking as it was given.

A test compares the table of parameters with the types of the official client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from placet.testing.provider.parameters import kind_of
from placet.testing.provider.preserved_thinking import THINKING, check_prefixes, is_checked, key_of, mark_of
from placet.testing.provider.refusal import Refused
from placet.testing.provider.strict_schema import check_strict_schema

Block = dict[str, Any]
PARAMETERS = {
    "max_tokens": "integer",
    "messages": "array",
    "model": "string",
    "cache_control": "object?",
    "container": "string|object?",
    "diagnostics": "object?",
    "inference_geo": "string?",
    "metadata": "object",
    "output_config": "object",
    "service_tier": "string",
    "speed": "string?",
    "stop_sequences": "array",
    "stream": "boolean",
    "system": "string|array",
    "temperature": "decimal",
    "thinking": "object",
    "tool_choice": "object",
    "tools": "array",
    "top_k": "integer",
    "top_p": "decimal",
    "user_profile_id": "string",
    "workspace_id": "string",
}
_EXPECTED = {
    "string": "a valid string",
    "integer": "a valid integer",
    "decimal": "a valid number",
    "boolean": "a valid boolean",
    "array": "a valid array",
    "object": "an object",
}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")
OLD_VERSION = "2023-06-01"
VERSIONS = (OLD_VERSION, "2026-10-21")
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
"""Parameters that the newer version of the API no longer has."""
BLOCKS = {
    "user": (
        "text",
        "image",
        "document",
        "search_result",
        "tool_result",
        "container_upload",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
    ),
    "assistant": (
        "text",
        "document",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "container_upload",
    ),
    "system": ("text",),
}
_NEEDED = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
}


@dataclass(slots=True)
class Signatures:
    """What the service can tell from a signature: which thinking it gave out, and beside which tool uses."""

    genuine: dict[str, str] = field(default_factory=dict)
    """The thinking of each signature."""
    redacted: set[str] = field(default_factory=set)
    beside: dict[str, list[Block]] = field(default_factory=dict)
    """Of each tool use, the thinking blocks of its message."""
    marks: dict[str, set[str]] = field(default_factory=dict)
    """Of each thinking block, what stood before it, as digests."""
    kinds: set[str] = field(default_factory=set)
    """The kinds of blocks that it gave out: it knows them when they come back."""
    paused: list[list[Block]] = field(default_factory=list)
    """Turns that it paused: whoever sends them back, as they were, lets it go on."""

    def learn(self, blocks: Sequence[Block], mark: str) -> None:
        self.kinds |= {block["type"] for block in blocks}
        thinking = [block for block in blocks if block["type"] in THINKING]
        for block in thinking:
            self.marks.setdefault(key_of(block), set()).add(mark)
            if block["type"] == "thinking":
                self.genuine[block["signature"]] = block["thinking"]
            else:
                self.redacted.add(block["data"])
        for block in blocks:
            if block["type"] == "tool_use":
                self.beside[block["id"]] = thinking


def checked_version(headers: Mapping[str, str]) -> str:
    version = headers.get("anthropic-version")
    if version is None:
        raise Refused("anthropic-version: header is required")
    if version not in VERSIONS:
        raise Refused(f"anthropic-version: '{version}' is not a valid version")
    return version


def check_body(body: Any, version: str) -> None:
    if not isinstance(body, dict):
        raise Refused("The request body is not a JSON object.")
    for name in ("model", "max_tokens", "messages"):
        if body.get(name) is None:
            raise Refused(f"{name}: Field required")
    for name, value in body.items():
        if name not in PARAMETERS or (name in SAMPLING and version != OLD_VERSION):
            raise Refused(f"{name}: Extra inputs are not permitted")
        _check_type(name, value, PARAMETERS[name])
    if body["max_tokens"] < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    for name in ("temperature", "top_p"):
        if not 0 <= body.get(name, 1) <= 1:
            raise Refused(f"{name}: Input should be from 0 to 1")
    _check_thinking(body)
    _check_tools(body)


def _check_type(where: str, value: Any, wanted: str) -> None:
    kinds = wanted.removesuffix("?").split("|") + (["null"] if wanted.endswith("?") else [])
    given = kind_of(value)
    if given in kinds or (given == "integer" and "decimal" in kinds):
        return
    names = " or ".join(_EXPECTED[kind] for kind in kinds if kind != "null")
    raise Refused(f"{where}: Input should be {names}")


def _check_thinking(body: Mapping[str, Any]) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        raise Refused(f"thinking.type: {kind!r} is none of 'enabled', 'disabled', 'adaptive', 'between_tools'")
    if kind != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if budget is None:
        raise Refused("thinking.enabled.budget_tokens: Field required")
    if budget < 1024:
        raise Refused("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if budget >= body["max_tokens"]:
        raise Refused("max_tokens: it must be greater than thinking.budget_tokens")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise Refused("tool_choice: thinking may not be enabled when a tool use is forced")


def _check_tools(body: Mapping[str, Any]) -> None:
    offered: set[str] = set()
    for index, tool in enumerate(body.get("tools") or []):
        where = f"tools.{index}"
        _check_type(where, tool, "object")
        if tool.get("type", "custom") not in ("custom", None):
            offered.add(str(tool.get("name")))
            continue
        for name in ("name", "input_schema"):
            if tool.get(name) is None:
                raise Refused(f"{where}.custom.{name}: Field required")
            _check_type(f"{where}.custom.{name}", tool[name], "string" if name == "name" else "object")
        if not _TOOL_NAME.fullmatch(tool["name"]):
            raise Refused(f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool["name"] in offered:
            raise Refused(f"tools: Tool names must be unique, and '{tool['name']}' is there twice")
        if tool["input_schema"].get("type") != "object":
            raise Refused(f"{where}.custom.input_schema.type: Input should be 'object'")
        if tool.get("strict") is True:
            where = f"{where}.custom.input_schema"
            check_strict_schema(tool["input_schema"], tool["name"], param=where, all_required=False)
        offered.add(tool["name"])
    _check_choice(body, offered)


def _check_choice(body: Mapping[str, Any], offered: set[str]) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        raise Refused(f"tool_choice: {kind!r} is none of 'auto', 'any', 'tool', 'none'")
    if not offered:
        raise Refused("tool_choice: it may only be given together with tools")
    if kind == "tool":
        if not choice.get("name"):
            raise Refused("tool_choice.tool.name: Field required")
        _check_type("tool_choice.tool.name", choice["name"], "string")
        if choice["name"] not in offered:
            raise Refused(f"tool_choice: tool '{choice['name']}' not found in the tools that are offered")


# -- the conversation -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Turn:
    """Messages of one role in a row are one turn."""

    role: str
    blocks: list[tuple[str, Block]] = field(default_factory=list)
    """With their places."""
    first: int = 0
    """The number of its first message."""


def check_conversation(body: Mapping[str, Any], version: str, signatures: Signatures) -> None:
    turns = _turns(body["messages"], signatures.kinds)
    if version != OLD_VERSION:
        _check_newer_rules(turns)
    talking = [turn for turn in turns if turn.role != "system"]
    if talking[0].role != "user":
        raise Refused('messages: the first message must use the "user" role')
    if talking[-1].role == "assistant" and [block for _, block in talking[-1].blocks] not in signatures.paused:
        raise Refused(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    _check_tools_are_defined(body, talking)
    _check_pairs(talking)
    _check_signatures(talking, signatures)
    check_prefixes(body, signatures.marks)
    _check_latest(body, talking, signatures)


def _check_newer_rules(turns: Sequence[Turn]) -> None:
    for turn in turns:
        for place, block in turn.blocks:
            if turn.role == "assistant" and block["type"] == "document":
                raise Refused(f"{place}: a `document` block cannot stand in an assistant message")
            if turn.role == "user" and block["type"] == "text" and block.get("citations"):
                raise Refused(f"{place}.citations: a text block of the user has no citations")


def _turns(messages: Sequence[Any], known: AbstractSet[str]) -> list[Turn]:
    if not messages:
        raise Refused("messages: at least one message is required")
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            raise Refused(f"{where}: Input should be an object")
        role = message.get("role")
        if not isinstance(role, str) or role not in BLOCKS:
            raise Refused(f"{where}.role: Input should be 'user', 'assistant' or 'system'")
        if not turns or turns[-1].role != role:
            turns.append(Turn(role, first=index))
        turns[-1].blocks += _blocks_of(message, where, known)
    if all(turn.role == "system" for turn in turns):
        raise Refused("messages: at least one message of the user is required")
    return turns


def _blocks_of(message: Mapping[str, Any], where: str, known: AbstractSet[str]) -> list[tuple[str, Block]]:
    content = message.get("content")
    if content is None:
        raise Refused(f"{where}.content: Field required")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Refused(f"{where}.content: Input should be a valid string or a valid array")
    if not content:
        raise Refused(f"{where}: content must not be empty")
    found = [(f"{where}.content.{index}", block) for index, block in enumerate(content)]
    for place, block in found:
        _check_block(block, message["role"], place, known)
    return found


def _check_block(block: Any, role: str, where: str, known: AbstractSet[str]) -> None:
    kinds = {*BLOCKS[role], *known} if role == "assistant" else BLOCKS[role]
    if not isinstance(block, dict) or not isinstance(block.get("type"), str) or block["type"] not in kinds:
        kind = block.get("type") if isinstance(block, dict) else block
        raise Refused(f"{where}: a block of type {kind!r} cannot stand in a message of role '{role}'")
    kind = block["type"]
    for name in _NEEDED.get(kind, ()):
        if block.get(name) is None:
            raise Refused(f"{where}.{kind}.{name}: Field required")
    for name in ("text", "thinking", "signature", "data", "tool_use_id", "id", "name"):
        if name in _NEEDED.get(kind, ()):
            _check_type(f"{where}.{kind}.{name}", block[name], "string")
    if kind == "text" and not block["text"].strip():
        raise Refused(f"{where}: text content blocks must contain more than white space")
    if kind == "tool_use":
        _check_tool_use(block, f"{where}.tool_use")


def _check_tool_use(block: Block, where: str) -> None:
    if not isinstance(block["input"], dict):
        raise Refused(f"{where}.input: Input should be an object")
    if not _TOOL_USE_ID.fullmatch(block["id"]):
        raise Refused(f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")


def _check_tools_are_defined(body: Mapping[str, Any], turns: Sequence[Turn]) -> None:
    if body.get("tools"):
        return
    if any(block["type"] in ("tool_use", "tool_result") for turn in turns for _, block in turn.blocks):
        raise Refused("tools: a request with `tool_use` or `tool_result` blocks must define tools")


def _check_pairs(turns: Sequence[Turn]) -> None:
    seen: set[str] = set()
    uses: list[str] = []
    for turn in turns:
        if turn.role == "user":
            _check_results(turn, uses)
            uses = []
            continue
        uses = []
        for place, block in turn.blocks:
            if block["type"] == "tool_use":
                if block["id"] in seen:
                    raise Refused(f"{place}: `tool_use` ids must be unique")
                seen.add(block["id"])
                uses.append(block["id"])


def _check_results(turn: Turn, uses: Sequence[str]) -> None:
    """A user's turn after tool uses begins with one result for each of them."""
    found: list[str] = []
    is_over = False
    for place, block in turn.blocks:
        if block["type"] != "tool_result":
            is_over = True
            continue
        name = block["tool_use_id"]
        if name not in uses:
            raise Refused(
                f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. The message before has no "
                "`tool_use` block with that id."
            )
        if name in found:
            raise Refused(f"{place}: each tool_use must have a single result, and {name} has several")
        if is_over:
            raise Refused(f"{place}: `tool_result` blocks must come first in the message, before any text")
        found.append(name)
    missing = [name for name in uses if name not in found]
    if missing:
        raise Refused(
            f"messages.{turn.first - 1}: `tool_use` ids were found without `tool_result` blocks right after them: "
            f"{', '.join(missing)}."
        )


def _check_signatures(turns: Sequence[Turn], signatures: Signatures) -> None:
    for turn in turns:
        for place, block in turn.blocks:
            if block["type"] == "thinking" and signatures.genuine.get(block["signature"]) != block["thinking"]:
                raise Refused(f"{place}: Invalid `signature` in `thinking` block")
            if block["type"] == "redacted_thinking" and block["data"] not in signatures.redacted:
                raise Refused(f"{place}: Invalid `data` in `redacted_thinking` block")


def _check_latest(body: Mapping[str, Any], turns: Sequence[Turn], signatures: Signatures) -> None:
    """While tools are being used, the thinking of the latest assistant turn is there as it was given."""
    kind = (body.get("thinking") or {}).get("type", "disabled")
    latest = [turn for turn in turns if turn.role == "assistant"][-1:]
    if kind == "disabled" or not latest:
        return
    blocks = latest[0].blocks
    uses = [block["id"] for _, block in blocks if block["type"] == "tool_use"]
    if not uses:
        return
    place, first = blocks[0]
    if kind == "enabled" and first["type"] not in THINKING:
        raise Refused(
            f"{place}.type: expected `thinking` or `redacted_thinking`, but found `{first['type']}`. While `thinking` "
            "is enabled, the last assistant message begins with a thinking block."
        )
    there = [block for _, block in blocks if block["type"] in THINKING]
    if any(block not in there for block in _thinking_given(body, latest[0], uses, signatures)):
        raise Refused(
            f"{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified or "
            "left out: they must be as they were in the original response."
        )


def _thinking_given(body: Mapping[str, Any], turn: Turn, uses: Sequence[str], signatures: Signatures) -> list[Block]:
    """The thinking that came with these uses of tools."""
    given = [block for name in dict.fromkeys(uses) for block in signatures.beside.get(name, [])]
    if not is_checked(body):
        return given
    mark = mark_of(body, body["messages"][: turn.first])  # behind other words it would be refused: it may be left out
    return [block for block in given if mark in signatures.marks[key_of(block)]]
