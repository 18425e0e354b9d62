"""The rules of the Responses and Conversations APIs."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI

from placet.testing import assistant_message, function_call
from tests.testing.provider.rule import HI, Rule, Story

Item = dict[str, Any]
SCHEMA: Item = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "note": {"type": ["string", "null"]}},
    "required": ["n", "note"],
    "additionalProperties": False,
}
TOOL: Item = {"type": "function", "name": "pay", "strict": True, "parameters": SCHEMA}
HELLO: Item = {"role": "user", "content": "hello"}
CALL: Item = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "c1", "output": "done"}
THOUGHT: Item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
MCP: Item = {"type": "mcp", "server_label": "bank", "server_url": "https://bank.test/mcp"}
ASKED: Item = {"type": "mcp_approval_request", "server_label": "bank", "name": "pay", "arguments": "{}"}


async def send(client: AsyncOpenAI, items: Any = "hello", **parameters: Any) -> Any:
    return await client.responses.create(**{"model": "gpt-6", "input": items, **parameters})


def sent(items: Any = "hello", **parameters: Any) -> Story:
    async def story(client: AsyncOpenAI) -> None:
        await send(client, items, **parameters)

    return story


def after(answer_id: str | None = None, *, items: Any, **parameters: Any) -> Story:
    """The first step is asked for; then this is sent in the chain."""

    async def story(client: AsyncOpenAI) -> None:
        first = await send(client, store=parameters.pop("store_first", True))
        await send(client, items, previous_response_id=answer_id or first.id, **parameters)

    return story


def again(change: Any, **parameters: Any) -> Story:
    """The first step is asked for; then the whole history is sent, changed."""

    async def story(client: AsyncOpenAI) -> None:
        first = await send(client, **parameters)
        given = [item.model_dump(mode="json", exclude_none=True) for item in first.output]
        await send(client, change([HELLO, *given]), **parameters)

    return story


def _approved(request: Item, approve: Any = True) -> Item:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}


def _twice(items: list[Item]) -> list[Item]:
    return [*items, OUTPUT, items[-1], OUTPUT]


def _replaced(item: Item, **fields: Any) -> Item:
    return {name: value for name, value in {**item, **fields}.items() if value is not None}


def _in_conversation(*rounds: Any) -> Story:
    async def story(client: AsyncOpenAI) -> None:
        conversation = await client.conversations.create()
        for items in rounds:
            await send(client, items, conversation=conversation.id)

    return story


async def _add_twice(client: AsyncOpenAI) -> None:
    conversation = await client.conversations.create(items=[HELLO])
    [item] = (await client.conversations.items.list(conversation.id)).data
    await client.conversations.items.create(conversation.id, items=[item.model_dump(exclude_none=True)])


async def _add_another(client: AsyncOpenAI) -> None:
    conversation = await client.conversations.create(items=[HELLO])
    await client.conversations.items.create(conversation.id, items=[HELLO])


def _adding(count: int) -> Story:
    async def story(client: AsyncOpenAI) -> None:
        conversation = await client.conversations.create()
        await client.conversations.items.create(conversation.id, items=[HELLO] * count)

    return story


def _listing(**query: Any) -> Story:
    async def story(client: AsyncOpenAI) -> None:
        conversation = await client.conversations.create(items=[HELLO])
        await client.conversations.items.list(conversation.id, **query)

    return story


def _unlike(path: str, **changes: Any) -> Item:
    """The tool with a schema that strict mode does not take."""
    return {**TOOL, "parameters": {**SCHEMA, **changes}} if path == "root" else TOOL


NESTED = {**SCHEMA["properties"], "where": {"type": "object", "properties": {}, "required": []}}
CALLS = [[function_call("pay", {"n": 1}, call_id="c1")], HI, HI]
THINKS = [[THOUGHT, function_call("pay", {"n": 1}, call_id="c1")], HI, HI]
ASKS = [[ASKED], HI, HI]

HISTORY = [
    Rule(
        "call-without-output",
        after(items="and now?"),
        after(items=[OUTPUT]),
        "No tool output found for function call c1",
        param="input",
        steps=CALLS,
    ),
    Rule(
        "call-without-output-in-history",
        sent([HELLO, CALL]),
        sent([HELLO, CALL, OUTPUT]),
        "No tool output found for function call c1",
        param="input",
    ),
    Rule(
        "output-without-call",
        sent([HELLO, OUTPUT]),
        sent([HELLO, CALL, OUTPUT]),
        "No tool call found for function call output with call_id c1",
        param="input",
    ),
    Rule(
        "output-before-its-call",
        sent([HELLO, OUTPUT, CALL]),
        sent([HELLO, CALL, OUTPUT]),
        "No tool call found for function call output",
        param="input",
    ),
    Rule(
        "output-twice",
        after(items=[OUTPUT, OUTPUT]),
        after(items=[OUTPUT]),
        "that call has its output already",
        param="input",
        steps=CALLS,
    ),
    Rule(
        "output-twice-in-a-conversation",
        _in_conversation("hello", [OUTPUT], [OUTPUT]),
        _in_conversation("hello", [OUTPUT], "thanks"),
        "that call has its output already",
        param="input",
        steps=CALLS,
    ),
    Rule(
        "unknown-previous-response",
        after("resp_unknown", items=[OUTPUT]),
        after(items=[OUTPUT]),
        "resp_unknown",
        code="previous_response_not_found",
        param="previous_response_id",
        steps=CALLS,
    ),
    Rule(
        "previous-response-that-was-not-stored",
        after(items="more", store_first=False),
        after(items="more"),
        "not found",
        code="previous_response_not_found",
    ),
    Rule(
        "unknown-conversation",
        sent(conversation="conv_unknown"),
        _in_conversation("hello"),
        "Conversation with id 'conv_unknown' not found",
        status=404,
    ),
    Rule(
        "conversation-and-previous-response",
        sent(conversation="conv_1", previous_response_id="resp_1"),
        _in_conversation("hello"),
        "Mutually exclusive",
        code="mutually_exclusive_parameters",
    ),
    Rule(
        "duplicate-item",
        again(_twice),
        again(lambda items: [*items, OUTPUT]),
        "Duplicate item found with id fc_",
        param="input",
        steps=CALLS,
    ),
    Rule(
        "item-that-the-chain-holds-already",
        after(items=[{**assistant_message("hi"), "id": "msg_mine", "status": "completed"}]),
        after(items=[{**assistant_message("hi"), "id": "msg_other", "status": "completed"}]),
        "Duplicate item found with id msg_mine",
        steps=[[assistant_message("hi", item_id="msg_mine")], HI],
    ),
    Rule(
        "reasoning-without-what-follows",
        again(lambda items: items[:2]),
        again(lambda items: [*items, OUTPUT]),
        "without the item that must follow it",
        param="input",
        steps=THINKS,
    ),
    Rule(
        "reasoning-before-something-else",
        again(lambda items: [items[0], items[1], _replaced(items[2], id=None), OUTPUT]),
        again(lambda items: [*items, OUTPUT]),
        "without the item that must follow it",
        param="input",
        steps=THINKS,
    ),
    Rule(
        "call-without-its-reasoning",
        again(lambda items: [items[0], items[2], OUTPUT]),
        again(lambda items: [items[0], _replaced(items[2], id=None), OUTPUT]),
        "without the 'reasoning' item that it requires: 'rs_",
        param="input",
        steps=THINKS,
    ),
    Rule(
        "reasoning-that-was-not-stored",
        again(lambda items: [items[0], _replaced(items[1], encrypted_content=None), items[2], OUTPUT], store=False),
        again(lambda items: [*items, OUTPUT], store=False),
        "Items are kept only when `store` is true",
        status=404,
        steps=THINKS,
    ),
    Rule(
        "encrypted-reasoning-altered",
        again(lambda items: [items[0], {**items[1], "encrypted_content": "gAAAAAforged"}, items[2], OUTPUT]),
        again(lambda items: [*items, OUTPUT]),
        "could not be verified",
        code="invalid_encrypted_content",
        steps=THINKS,
    ),
    Rule(
        "status-of-reasoning",
        again(lambda items: [items[0], {**items[1], "status": "completed"}, items[2], OUTPUT]),
        again(lambda items: [*items, OUTPUT]),
        r"Unknown parameter: 'input\[1\].status'",
        code="unknown_parameter",
        steps=THINKS,
    ),
    Rule(
        "reference-to-nothing",
        sent([HELLO, {"type": "item_reference", "id": "msg_unknown"}]),
        again(lambda items: [items[0], {"type": "item_reference", "id": items[1]["id"]}]),
        "Item with id 'msg_unknown' not found",
        status=404,
    ),
    Rule(
        "approval-without-request",
        sent([HELLO, _approved({"id": "mcpr_unknown"})]),
        again(lambda items: [*items, _approved(items[1])]),
        "No approval request found with id 'mcpr_unknown'",
        param="input",
        steps=ASKS,
    ),
    Rule(
        "approval-twice",
        again(lambda items: [*items, _approved(items[1]), _approved(items[1], False)]),
        again(lambda items: [*items, _approved(items[1], False)]),
        "is answered already",
        param="input",
        steps=ASKS,
    ),
    Rule(
        "approval-that-is-no-yes-or-no",
        again(lambda items: [*items, _approved(items[1], "yes")]),
        again(lambda items: [*items, _approved(items[1])]),
        "expected a boolean",
        code="invalid_type",
        steps=ASKS,
    ),
    Rule("item-twice-in-a-conversation", _add_twice, _add_another, "Duplicate item found with id msg_", param="items"),
    Rule("more-than-20-items-at-once", _adding(21), _adding(20), "at most 20", code="array_above_max_length"),
    Rule("page-out-of-bounds", _listing(limit=101), _listing(limit=100), "from 1 to 100", param="limit"),
    Rule("page-after-nothing", _listing(after="msg_unknown"), _listing(), "no item 'msg_unknown'", param="after"),
]

ITEMS = [
    Rule(
        "unknown-item-type",
        sent([HELLO, {"type": "telepathy", "id": "tp_1"}]),
        again(lambda items: items),
        "'telepathy'",
        code="invalid_value",
        param="input[1].type",
        steps=[[{"type": "telepathy", "thought": "hm"}], HI],
    ),
    Rule(
        "unknown-field-of-an-item",
        sent([{**HELLO, "mood": "good"}]),
        again(lambda items: items),
        r"Unknown parameter: 'input\[0\].mood'",
        code="unknown_parameter",
        steps=[[{**assistant_message("hi"), "mood": "good"}], HI],
    ),
    Rule(
        "missing-field-of-an-item",
        sent([HELLO, _replaced(CALL, arguments=None), OUTPUT]),
        sent([HELLO, CALL, OUTPUT]),
        r"Missing required parameter: 'input\[1\].arguments'",
        code="missing_required_parameter",
    ),
    Rule(
        "output-that-is-no-text",
        sent([HELLO, CALL, {**OUTPUT, "output": {"done": True}}]),
        sent([HELLO, CALL, {**OUTPUT, "output": [{"type": "input_text", "text": "done"}]}]),
        "expected a string or an array",
        code="invalid_type",
    ),
    Rule(
        "empty-call-id",
        sent([HELLO, {**CALL, "call_id": ""}, {**OUTPUT, "call_id": ""}]),
        sent([HELLO, CALL, OUTPUT]),
        r"'input\[1\].call_id'",
    ),
    Rule("unknown-role", sent([{**HELLO, "role": "boss"}]), sent([HELLO]), "'boss'", code="invalid_value"),
    Rule(
        "input-text-of-the-assistant",
        sent([HELLO, {"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]}, HELLO]),
        sent([HELLO, {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}, HELLO]),
        "Supported values are: 'output_text', 'refusal'",
        code="invalid_value",
    ),
    Rule(
        "output-text-of-the-user",
        sent([{"role": "user", "content": [{"type": "output_text", "text": "hi"}]}]),
        sent([{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]),
        "'output_text'",
        code="invalid_value",
    ),
    Rule(
        "image-without-source",
        sent([{"role": "user", "content": [{"type": "input_image", "detail": "auto"}]}]),
        sent([{"role": "user", "content": [{"type": "input_image", "image_url": "https://pictures.test/a.png"}]}]),
        "image_url",
        code="missing_required_parameter",
    ),
]

PARAMETERS = [
    Rule("missing-model", sent(model=None), sent(), "'model'", code="missing_required_parameter"),
    Rule(
        "nothing-to-answer",
        sent([]),
        after(items=[]),
        "must bring something to answer",
        code="missing_required_parameter",
    ),
    Rule(
        "unknown-parameter",
        sent(extra_body={"mood": "good"}),
        sent(extra_body={"user": "me"}),
        "Unknown parameter: 'mood'",
        code="unknown_parameter",
        param="mood",
    ),
    Rule(
        "wrong-type-of-a-parameter",
        sent(temperature="warm"),
        sent(temperature=1),
        "expected a decimal, but got a string",
        code="invalid_type",
    ),
    Rule(
        "temperature-out-of-bounds", sent(temperature=2.1), sent(temperature=2), "<= 2", code="decimal_above_max_value"
    ),
    Rule(
        "too-few-output-tokens",
        sent(max_output_tokens=15),
        sent(max_output_tokens=16),
        ">= 16",
        code="integer_below_min_value",
    ),
    Rule(
        "too-much-metadata",
        sent(metadata={str(n): "x" for n in range(17)}),
        sent(metadata={str(n): "x" for n in range(16)}),
        "at most 16",
    ),
    Rule(
        "unknown-include",
        sent(include=["everything"]),
        sent(include=["reasoning.encrypted_content"]),
        "'everything'",
        code="invalid_value",
    ),
    Rule("unknown-effort", sent(reasoning={"effort": "heroic"}), sent(reasoning={"effort": "high"}), "'heroic'"),
    Rule(
        "stream-options-without-a-stream",
        sent(stream_options={"include_obfuscation": False}),
        sent(stream_options={"include_obfuscation": False}, stream=True),
        "only allowed when 'stream' is enabled",
    ),
]

TOOLS = [
    Rule(
        "strict-schema-that-is-open",
        sent(tools=[{**TOOL, "parameters": _replaced(SCHEMA, additionalProperties=None)}]),
        sent(tools=[TOOL]),
        "'additionalProperties' is required to be there and to be false",
        code="invalid_function_parameters",
        param="tools[0].parameters",
    ),
    Rule(
        "strict-schema-that-is-open-inside",
        sent(tools=[{**TOOL, "parameters": {**SCHEMA, "properties": NESTED, "required": list(NESTED)}}]),
        sent(tools=[{**TOOL, "strict": False, "parameters": {**SCHEMA, "properties": NESTED}}]),
        "'properties', 'where'",
        code="invalid_function_parameters",
    ),
    Rule(
        "strict-schema-with-an-optional-property",
        sent(tools=[{**TOOL, "parameters": {**SCHEMA, "required": ["n"]}}]),
        sent(tools=[{**TOOL, "strict": False, "parameters": {**SCHEMA, "required": ["n"]}}]),
        "Missing 'note'",
        code="invalid_function_parameters",
    ),
    Rule(
        "strict-schema-with-a-forbidden-keyword",
        sent(tools=[{**TOOL, "parameters": {**SCHEMA, "allOf": [{}]}}]),
        sent(tools=[TOOL]),
        "'allOf' is not permitted",
    ),
    Rule(
        "schema-that-is-no-object",
        sent(tools=[{**TOOL, "strict": False, "parameters": {"type": "string"}}]),
        sent(tools=[{**TOOL, "strict": False, "parameters": {"type": "object"}}]),
        "must be 'object'",
        code="invalid_function_parameters",
    ),
    Rule(
        "tool-name-with-a-space",
        sent(tools=[{**TOOL, "name": "pay out"}]),
        sent(tools=[{**TOOL, "name": "pay-out_2"}]),
        "does not match pattern",
        param="tools[0].name",
    ),
    Rule(
        "tool-name-that-is-too-long",
        sent(tools=[{**TOOL, "name": "p" * 65}]),
        sent(tools=[{**TOOL, "name": "p" * 64}]),
        "at most 64",
        code="string_above_max_length",
    ),
    Rule(
        "too-many-tools",
        sent(tools=[{**TOOL, "name": f"t{n}"} for n in range(129)]),
        sent(tools=[{**TOOL, "name": f"t{n}"} for n in range(128)]),
        "at most 128",
        code="array_above_max_length",
    ),
    Rule("unknown-tool-type", sent(tools=[{"type": "magic"}]), sent(tools=[{"type": "web_search"}]), "'magic'"),
    Rule(
        "unknown-tool-choice",
        sent(tools=[TOOL], tool_choice="maybe"),
        sent(tools=[TOOL], tool_choice="auto"),
        "'maybe'",
    ),
    Rule(
        "choice-of-a-tool-that-is-not-offered",
        sent(tools=[TOOL], tool_choice={"type": "function", "name": "fly"}),
        sent(tools=[TOOL], tool_choice={"type": "function", "name": "pay"}),
        "'fly' not found in 'tools'",
        param="tool_choice",
    ),
    Rule(
        "mcp-tool-without-a-server",
        sent(tools=[_replaced(MCP, server_url=None)]),
        sent(tools=[MCP]),
        "'server_url', 'connector_id' or 'tunnel_id'",
        code="missing_required_parameter",
    ),
    Rule(
        "unknown-word-for-require-approval",
        sent(tools=[{**MCP, "require_approval": "sometimes"}]),
        sent(tools=[{**MCP, "require_approval": "always"}]),
        "'sometimes'",
        code="invalid_value",
    ),
    Rule(
        "strict-output-schema-that-is-open",
        sent(text={"format": {"type": "json_schema", "name": "bill", "strict": True, "schema": {"type": "object"}}}),
        sent(text={"format": {"type": "json_schema", "name": "bill", "strict": True, "schema": SCHEMA}}),
        "'additionalProperties'",
        code="invalid_json_schema",
        param="text.format.schema",
    ),
]
RULES = [*HISTORY, *ITEMS, *PARAMETERS, *TOOLS]
