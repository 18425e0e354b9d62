"""The rules of the Chat Completions API."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI

from tests.testing.provider.responses_rules import SCHEMA
from tests.testing.provider.rule import Rule, Story

Message = dict[str, Any]
HELLO: Message = {"role": "user", "content": "hello"}
TOOL: Message = {"type": "function", "function": {"name": "pay", "strict": True, "parameters": SCHEMA}}


def call(label: str, name: str = "pay", arguments: Any = "{}") -> Message:
    return {"id": label, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*labels: str) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [call(label) for label in labels]}


def answer(label: str) -> Message:
    return {"role": "tool", "tool_call_id": label, "content": "done"}


def sent(*messages: Message, **parameters: Any) -> Story:
    async def story(client: AsyncOpenAI) -> None:
        given: Any = {"model": "gpt-6", "messages": list(messages) or [HELLO], **parameters}
        await client.chat.completions.create(**given)

    return story


def tool(**changes: Any) -> Message:
    return {"type": "function", "function": {**TOOL["function"], **changes}}


RULES = [
    Rule(
        "tool-message-without-a-call",
        sent(HELLO, answer("c1")),
        sent(HELLO, calls("c1"), answer("c1")),
        "must answer a call in the 'tool_calls' before them",
        param="messages.[1].role",
    ),
    Rule(
        "tool-message-for-another-call",
        sent(HELLO, calls("c1"), answer("c1"), answer("c2")),
        sent(HELLO, calls("c1", "c2"), answer("c1"), answer("c2")),
        "nothing there is called 'c2'",
    ),
    Rule(
        "call-without-a-tool-message",
        sent(HELLO, calls("c1", "c2"), answer("c1")),
        sent(HELLO, calls("c1", "c2"), answer("c2"), answer("c1")),
        "These have none: c2",
        param="messages.[3].role",
    ),
    Rule(
        "message-between-call-and-tool-message",
        sent(HELLO, calls("c1"), HELLO, answer("c1")),
        sent(HELLO, calls("c1"), answer("c1"), HELLO),
        "These have none: c1",
    ),
    Rule(
        "tool-message-twice",
        sent(HELLO, calls("c1"), answer("c1"), answer("c1")),
        sent(HELLO, calls("c1"), answer("c1"), calls("c1"), answer("c1")),
        "Duplicate value for 'tool_call_id' of 'c1'",
        param="messages.[3].tool_call_id",
    ),
    Rule(
        "two-calls-with-one-id",
        sent(HELLO, calls("c1", "c1"), answer("c1")),
        sent(HELLO, calls("c1", "c2"), answer("c1"), answer("c2")),
        "Duplicate value for 'id' of 'c1'",
    ),
    Rule(
        "call-without-an-id",
        sent(HELLO, calls(""), answer("")),
        sent(HELLO, calls("c1"), answer("c1")),
        r"tool_calls.\[0\].id",
        code="missing_required_parameter",
    ),
    Rule(
        "arguments-that-are-no-text",
        sent(HELLO, {**calls("c1"), "tool_calls": [call("c1", arguments={})]}, answer("c1")),
        sent(HELLO, {**calls("c1"), "tool_calls": [call("c1", arguments="")]}, answer("c1")),
        "expected a string, but got an object",
        code="invalid_type",
    ),
    Rule(
        "no-tool-calls-in-tool-calls",
        sent(HELLO, {"role": "assistant", "content": "hi", "tool_calls": []}, HELLO),
        sent(HELLO, {"role": "assistant", "content": "hi"}, HELLO),
        "empty array",
        code="empty_array",
    ),
    Rule(
        "assistant-that-says-nothing",
        sent(HELLO, {"role": "assistant", "content": None}, HELLO),
        sent(HELLO, {"role": "assistant", "content": ""}, HELLO),
        "has content or tool calls",
    ),
    Rule(
        "user-without-content",
        sent({"role": "user", "content": None}),
        sent({"role": "user", "content": [{"type": "text", "text": "hello"}]}),
        "expected a string or an array, but got null",
    ),
    Rule(
        "unknown-part-of-a-message",
        sent({"role": "user", "content": [{"type": "input_text", "text": "hello"}]}),
        sent({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://pictures.test/a.png"}}]}),
        "'input_text'",
        code="invalid_value",
    ),
    Rule("no-messages", sent(messages=[]), sent(HELLO), "empty array", code="empty_array"),
    Rule(
        "unknown-role", sent({"role": "boss", "content": "hi"}), sent({"role": "developer", "content": "hi"}), "'boss'"
    ),
    Rule("missing-model", sent(model=None), sent(), "'model'", code="missing_required_parameter"),
    Rule(
        "unknown-parameter",
        sent(extra_body={"input": "hello"}),
        sent(extra_body={"user": "me"}),
        "Unknown parameter: 'input'",
        code="unknown_parameter",
    ),
    Rule("wrong-type-of-a-parameter", sent(seed="s"), sent(seed=1), "expected an integer", code="invalid_type"),
    Rule("penalty-out-of-bounds", sent(presence_penalty=2.5), sent(presence_penalty=2), "<= 2"),
    Rule("too-many-stops", sent(stop=list("abcde")), sent(stop=list("abcd")), "at most 4"),
    Rule(
        "both-limits-of-tokens",
        sent(max_tokens=9, max_completion_tokens=9),
        sent(max_completion_tokens=9),
        "at the same time is not supported",
        code="invalid_parameter_combination",
    ),
    Rule(
        "top-logprobs-without-logprobs",
        sent(top_logprobs=2),
        sent(top_logprobs=2, logprobs=True),
        "only allowed when 'logprobs' is enabled",
    ),
    Rule(
        "stream-options-without-a-stream",
        sent(stream_options={"include_usage": True}),
        sent(stream_options={"include_usage": True}, stream=True),
        "only allowed when 'stream' is enabled",
    ),
    Rule(
        "tool-choice-without-tools",
        sent(tool_choice="auto"),
        sent(tool_choice="auto", tools=[TOOL]),
        "only allowed when 'tools' are specified",
    ),
    Rule(
        "parallel-calls-without-tools",
        sent(parallel_tool_calls=False),
        sent(parallel_tool_calls=False, tools=[TOOL]),
        "only allowed when 'tools' are specified",
    ),
    Rule("no-tools-in-tools", sent(tools=[]), sent(tools=[TOOL]), "empty array", code="empty_array"),
    Rule(
        "strict-schema-with-an-optional-property",
        sent(tools=[tool(parameters={**SCHEMA, "required": []})]),
        sent(tools=[tool(parameters={**SCHEMA, "required": []}, strict=False)]),
        "Missing 'n'",
        code="invalid_function_parameters",
        param="tools[0].function.parameters",
    ),
    Rule(
        "tool-name-with-a-dot",
        sent(tools=[tool(name="pay.out")]),
        sent(tools=[tool(name="pay_out")]),
        "does not match pattern",
        param="tools[0].function.name",
    ),
    Rule(
        "choice-of-a-tool-that-is-not-offered",
        sent(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "fly"}}),
        sent(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "pay"}}),
        "'fly' not found in 'tools'",
    ),
    Rule(
        "strict-output-schema-that-is-open",
        sent(
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "bill", "strict": True, "schema": {"type": "object", "properties": {}}},
            }
        ),
        sent(
            response_format={"type": "json_schema", "json_schema": {"name": "bill", "strict": True, "schema": SCHEMA}}
        ),
        "'additionalProperties'",
        code="invalid_json_schema",
    ),
]
