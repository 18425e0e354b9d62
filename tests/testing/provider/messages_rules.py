"""The rules of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from anthropic import AsyncAnthropic

from placet.testing import assistant_message, function_call
from tests.testing.provider.responses_rules import SCHEMA, THOUGHT
from tests.testing.provider.rule import HI, Rule, Story

Block = dict[str, Any]
HELLO: Block = {"role": "user", "content": "hello"}
PAY: Block = {"name": "pay", "input_schema": SCHEMA}
CLOSED: Block = {**SCHEMA, "properties": {"where": {**SCHEMA, "required": ["n"]}}}
ENABLED: Block = {"type": "enabled", "budget_tokens": 1024}
THINKS = [[THOUGHT, assistant_message("well"), function_call("pay", {"n": 1}, call_id="t1")], HI, HI]


def use(label: str, **changes: Any) -> Block:
    return {"type": "tool_use", "id": label, "name": "pay", "input": {}, **changes}


def result(label: str) -> Block:
    return {"type": "tool_result", "tool_use_id": label, "content": "done"}


def text(words: str = "well") -> Block:
    return {"type": "text", "text": words}


def says(*blocks: Block) -> Block:
    return {"role": "assistant", "content": list(blocks)}


def asks(*blocks: Block) -> Block:
    return {"role": "user", "content": list(blocks)}


async def send(client: AsyncAnthropic, *messages: Block, **parameters: Any) -> Any:
    given = {"model": "claude-opus-5", "max_tokens": 4096, "tools": [PAY], **parameters}
    given = {name: value for name, value in given.items() if value is not None}
    return await client.post("/v1/messages", body={"messages": list(messages) or [HELLO], **given}, cast_to=object)


def sent(*messages: Block, **parameters: Any) -> Story:
    async def story(client: AsyncAnthropic) -> None:
        await send(client, *messages, **parameters)

    return story


def again(change: Any, **parameters: Any) -> Story:
    """The first step is asked for; then it is sent back, changed, with the result of its call."""

    async def story(client: AsyncAnthropic) -> None:
        first: Any = await send(client, thinking=ENABLED)
        await send(client, HELLO, says(*change(first["content"])), asks(result("t1")), **parameters)

    return story


def with_version(version: str | None) -> Story:
    async def story(client: AsyncAnthropic) -> None:
        from anthropic import Omit

        headers: Any = {"anthropic-version": Omit() if version is None else version}
        body = {"model": "claude-opus-5", "max_tokens": 9, "messages": [HELLO], "temperature": 0.5}
        if version != "2023-06-01":
            del body["temperature"]
        await client.post("/v1/messages", body=body, cast_to=object, options={"headers": headers})

    return story


def without(items: list[Block], index: int) -> list[Block]:
    return items[:index] + items[index + 1 :]


RULES = [
    Rule(
        "tool-use-without-a-result",
        sent(HELLO, says(use("t1"), use("t2")), asks(result("t1"))),
        sent(HELLO, says(use("t1"), use("t2")), asks(result("t2"), result("t1"))),
        r"messages.1: `tool_use` ids were found without `tool_result` blocks right after them: t2",
    ),
    Rule(
        "result-without-a-tool-use",
        sent(HELLO, says(text()), asks(result("t1"))),
        sent(HELLO, says(use("t1")), asks(result("t1"))),
        "messages.2.content.0: unexpected `tool_use_id`",
    ),
    Rule(
        "result-one-turn-too-late",
        sent(HELLO, says(use("t1")), asks(result("t1")), says(text()), asks(result("t1"))),
        sent(HELLO, says(use("t1")), asks(result("t1")), says(text()), asks(text())),
        "messages.4.content.0: unexpected `tool_use_id`",
    ),
    Rule(
        "result-twice",
        sent(HELLO, says(use("t1")), asks(result("t1"), result("t1"))),
        sent(HELLO, says(use("t1")), asks(result("t1"))),
        "must have a single result",
    ),
    Rule(
        "result-after-text",
        sent(HELLO, says(use("t1")), asks(text(), result("t1"))),
        sent(HELLO, says(use("t1")), asks(result("t1"), text())),
        "must come first in the message",
    ),
    Rule(
        "two-tool-uses-with-one-id",
        sent(HELLO, says(use("t1")), asks(result("t1")), says(use("t1")), asks(result("t1"))),
        sent(HELLO, says(use("t1")), asks(result("t1")), says(use("t2")), asks(result("t2"))),
        "`tool_use` ids must be unique",
    ),
    Rule(
        "tool-use-without-tools",
        sent(HELLO, says(use("t1")), asks(result("t1")), tools=None),
        sent(HELLO, says(use("t1")), asks(result("t1"))),
        "must define tools",
    ),
    Rule(
        "input-that-is-no-object",
        sent(HELLO, says(use("t1", input="{}")), asks(result("t1"))),
        sent(HELLO, says(use("t1", input={})), asks(result("t1"))),
        "Input should be an object",
    ),
    Rule(
        "odd-tool-use-id",
        sent(HELLO, says(use("t 1")), asks(result("t 1"))),
        sent(HELLO, says(use("t_1-a")), asks(result("t_1-a"))),
        "should match pattern",
    ),
    Rule(
        "thinking-altered",
        again(lambda blocks: [{**blocks[0], "thinking": "something else"}, *blocks[1:]], thinking=ENABLED),
        again(lambda blocks: blocks, thinking=ENABLED),
        "Invalid `signature` in `thinking` block",
        steps=THINKS,
    ),
    Rule(
        "thinking-without-a-signature",
        again(lambda blocks: [{"type": "thinking", "thinking": "hm"}, *blocks[1:]], thinking=ENABLED),
        again(lambda blocks: blocks, thinking=ENABLED),
        "thinking.signature: Field required",
        steps=THINKS,
    ),
    Rule(
        "thinking-removed",
        again(lambda blocks: blocks[1:], thinking=ENABLED),
        again(lambda blocks: blocks[1:], thinking={"type": "disabled"}),
        "expected `thinking` or `redacted_thinking`, but found `text`",
        steps=THINKS,
    ),
    Rule(
        "thinking-removed-while-adaptive",
        again(lambda blocks: blocks[1:], thinking={"type": "adaptive"}),
        again(lambda blocks: blocks, thinking={"type": "adaptive"}),
        "cannot be modified or left out",
        steps=THINKS,
    ),
    Rule(
        "thinking-behind-other-words",
        again(lambda blocks: blocks, thinking={"type": "adaptive"}, system="Be brief."),
        again(lambda blocks: blocks, thinking=ENABLED, system="Be brief."),
        "does not belong here",
        steps=THINKS,
    ),
    Rule(
        "redacted-thinking-forged",
        sent(HELLO, says({"type": "redacted_thinking", "data": "forged"}, text()), HELLO),
        sent(HELLO, says(text()), HELLO),
        "Invalid `data` in `redacted_thinking` block",
    ),
    Rule("missing-max-tokens", sent(max_tokens=None), sent(max_tokens=1), "max_tokens: Field required"),
    Rule("missing-model", sent(model=None), sent(), "model: Field required"),
    Rule("no-messages", sent(messages=[]), sent(HELLO), "at least one message is required"),
    Rule(
        "unknown-role",
        sent({"role": "tool", "content": "done"}),
        sent({"role": "system", "content": "Be brief."}, HELLO),
        "messages.0.role",
    ),
    Rule("assistant-first", sent(says(text()), HELLO), sent(HELLO, HELLO), 'must use the "user" role'),
    Rule("assistant-last", sent(HELLO, says(text())), sent(HELLO, says(text()), HELLO), "prefill"),
    Rule("empty-text", sent(asks(text(" "))), sent(asks(text("."))), "more than white space"),
    Rule("empty-content", sent({"role": "user", "content": []}), sent(asks(text())), "must not be empty"),
    Rule(
        "block-of-the-wrong-role",
        sent(asks(use("t1"))),
        sent(asks({"type": "image", "source": {"type": "url", "url": "https://pictures.test/a.png"}})),
        "'tool_use' cannot stand in a message of role 'user'",
    ),
    Rule("unknown-parameter", sent(mood="good"), sent(metadata={}), "mood: Extra inputs are not permitted"),
    Rule(
        "wrong-type-of-a-parameter", sent(stream="yes"), sent(stream=False), "stream: Input should be a valid boolean"
    ),
    Rule("temperature-in-the-newer-api", sent(temperature=1), with_version("2023-06-01"), "temperature: Extra inputs"),
    Rule("missing-version", with_version(None), with_version("2026-10-21"), "header is required"),
    Rule("unknown-version", with_version("1999-01-01"), with_version("2023-06-01"), "is not a valid version"),
    Rule(
        "document-of-the-assistant",
        sent(HELLO, says({"type": "document", "source": {"type": "text", "data": "x"}}), HELLO),
        sent(asks({"type": "document", "source": {"type": "text", "data": "x"}})),
        "cannot stand in an assistant message",
    ),
    Rule(
        "citations-of-the-user",
        sent(asks({**text(), "citations": [{"type": "char_location"}]})),
        sent(asks({**text(), "citations": None})),
        "has no citations",
    ),
    Rule(
        "thinking-budget-too-small",
        sent(thinking={"type": "enabled", "budget_tokens": 1023}),
        sent(thinking={"type": "enabled", "budget_tokens": 1024}),
        "greater than or equal to 1024",
    ),
    Rule(
        "thinking-budget-beyond-max-tokens",
        sent(thinking=ENABLED, max_tokens=1024),
        sent(thinking=ENABLED, max_tokens=1025),
        "must be greater than thinking.budget_tokens",
    ),
    Rule(
        "forced-tool-while-thinking",
        sent(thinking=ENABLED, tool_choice={"type": "any"}),
        sent(thinking=ENABLED, tool_choice={"type": "auto"}),
        "may not be enabled when a tool use is forced",
    ),
    Rule(
        "tool-name-with-a-dot",
        sent(tools=[{**PAY, "name": "pay.out"}]),
        sent(tools=[{**PAY, "name": "p" * 128}]),
        "should match pattern",
    ),
    Rule("two-tools-of-one-name", sent(tools=[PAY, PAY]), sent(tools=[PAY]), "must be unique"),
    Rule(
        "schema-that-is-no-object",
        sent(tools=[{**PAY, "input_schema": {"type": "string"}}]),
        sent(tools=[{**PAY, "input_schema": {"type": "object"}}]),
        "input_schema.type",
    ),
    Rule(
        "strict-schema-that-is-open",
        sent(tools=[{**PAY, "strict": True, "input_schema": {"type": "object", "properties": {}}}]),
        sent(tools=[{**PAY, "strict": True, "input_schema": {**CLOSED, "required": []}}]),
        "'additionalProperties'",
    ),
    Rule(
        "unknown-tool-choice",
        sent(tool_choice={"type": "maybe"}),
        sent(tool_choice={"type": "none"}),
        "tool_choice: 'maybe'",
    ),
    Rule(
        "choice-of-a-tool-that-is-not-offered",
        sent(tool_choice={"type": "tool", "name": "fly"}),
        sent(tool_choice={"type": "tool", "name": "pay"}),
        "'fly' not found",
    ),
]
