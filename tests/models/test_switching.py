"""A conversation that goes from one provider to another: what each can read of the others' items."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Agent, Runner, UserError
from placet.facts.codec import JsonObject
from placet.models import AnthropicModel, OpenAIChatCompletionsModel
from placet.models.anthropic_messages_response import as_items as items_of_anthropic
from placet.models.openai_chat_response import as_items as items_of_chat
from placet.models.responses_wire import input_items
from placet.testing.provider import FakeProvider

OF_CHAT = items_of_chat(
    {
        "role": "assistant",
        "content": "I pay.",
        "reasoning_content": "Hm.",
        "mood": "calm",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "pay", "arguments": "{}"}, "extra": 1}],
    },
    "llm.example",
)
OF_ANTHROPIC = items_of_anthropic(
    {
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "text", "text": "I pay.", "citations": [{"cited_text": "x"}]},
            {"type": "tool_use", "id": "a", "name": "pay", "input": {}, "caller": {"type": "direct"}},
        ]
    },
    "mark",
)


@pytest.mark.parametrize("items", [OF_CHAT, OF_ANTHROPIC], ids=["chat", "anthropic"])
def test_the_responses_api_gets_what_all_can_read_and_nothing_of_the_others_own(items: list[JsonObject]) -> None:
    found = input_items(items, stored=True)

    assert [item["type"] for item in found] == ["message", "function_call"]
    assert not any("provider_data" in item for item in found)


@pytest.mark.parametrize("api", ["chat", "anthropic"])
@pytest.mark.parametrize(
    "given",
    [{"auto_previous_response_id": True}, {"previous_response_id": "resp_1"}, {"conversation_id": "conv_1"}],
    ids=lambda given: next(iter(given)),
)
async def test_a_run_that_counts_on_a_servers_memory_is_refused_before_anything_is_sent(
    api: str, given: dict[str, Any]
) -> None:
    provider = FakeProvider()
    model: Any = (
        OpenAIChatCompletionsModel("gpt-5", provider.openai_client())
        if api == "chat"
        else AnthropicModel("claude-opus-5", provider.anthropic_client())
    )
    agent = Agent(name="Shop", model=model)

    with pytest.raises(UserError, match="run without previous_response_id"):
        await Runner.run(agent, "Hello", **given)

    assert provider.requests == []
