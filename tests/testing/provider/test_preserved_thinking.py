"""Thinking goes back only behind the words before which it was thought, and a paused turn may go back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import BadRequestError

from placet.testing import assistant_message, reasoning
from placet.testing.provider import Answer, FakeProvider, ProviderStep

USER = {"role": "user", "content": "Hello"}
TOOLS = [{"name": "pay", "input_schema": {"type": "object"}}]
REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 3000, "system": "Be kind.", "tools": TOOLS}
MANUAL = {"type": "enabled", "budget_tokens": 2000}
THOUGHT = [reasoning("Hm."), assistant_message("Hello.")]


async def replayed(**changed: Any) -> FakeProvider:
    """Ask once, then send the answer back behind words of which some may have changed."""
    provider = FakeProvider([THOUGHT, [assistant_message("Bye.")]])
    async with provider.anthropic_client(max_retries=0) as client:
        first = await client.messages.create(**REQUEST, messages=[USER])
        content = [block.to_dict() for block in first.content]
        before = changed.pop("before", USER)
        messages = [before, {"role": "assistant", "content": content}, {"role": "user", "content": "Bye"}]
        await client.messages.create(**{**REQUEST, **changed}, messages=messages)
    return provider


@pytest.mark.parametrize(
    "changed",
    [{"system": "Be brief."}, {"tools": []}, {"before": {"role": "user", "content": "Hullo"}}],
    ids=["system prompt", "tools", "messages"],
)
async def test_thinking_behind_other_words_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError, match="does not belong here"):
        await replayed(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"before": {"role": "user", "content": "Hullo"}, "thinking": MANUAL},
        {"tools": [{**TOOLS[0], "cache_control": {"type": "ephemeral"}}]},
    ],
    ids=["nothing", "the older mode of thinking", "a mark of caching"],
)
async def test_thinking_behind_the_same_words_or_in_the_older_mode_is_taken(changed: dict[str, Any]) -> None:
    provider = await replayed(**changed)

    assert provider.refusals == []


async def test_only_a_turn_that_was_paused_may_end_a_conversation() -> None:
    block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    paused = ProviderStep(Answer([block], extra={"stop_reason": "pause_turn"}))
    provider = FakeProvider([paused, [assistant_message("Done.")]])
    async with provider.anthropic_client(max_retries=0) as client:
        await client.messages.create(**REQUEST, messages=[USER])
        await client.messages.create(**REQUEST, messages=[USER, {"role": "assistant", "content": [block]}])
        with pytest.raises(BadRequestError, match="prefill"):
            await client.messages.create(**REQUEST, messages=[USER, {"role": "assistant", "content": "Sure"}])

    assert len(provider.refusals) == 1
