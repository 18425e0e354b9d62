"""Gated, free, gated; both rejected; resumed in another process: over HTTP, on all three APIs, streamed and not. The
provider refuses what the real one refuses, and has nothing to refuse."""

from __future__ import annotations

from typing import Any

import pytest

from placet.testing import ModelStep, assistant_message
from placet.testing.provider import FakeProvider
from tests.models.runs.processes import in_another_process
from tests.models.runs.scenes import APIS, DONE, THREE_CALLS, Api, drive, model_at, shop

KEPT_BY: dict[str, dict[str, Any]] = {
    "own history": {},
    "automatic chaining": {"auto_previous_response_id": True},
    "previous response": {"previous_response_id": "resp_before"},
    "conversation": {"conversation_id": "…"},
}
WAYS = [(api, "own history") for api in APIS] + [("responses", way) for way in KEPT_BY if way != "own history"]


@pytest.mark.promise("P1", "P2")
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(("api", "way"), WAYS)
async def test_three_calls_two_rejected_and_resumed_in_another_process(api: Api, way: str, streamed: bool) -> None:
    provider = FakeProvider([THREE_CALLS, DONE])
    options = dict(KEPT_BY[way])
    async with provider.serve() as url:
        model, client = model_at(api, url)
        if way == "previous response":
            provider = await _with_a_response_before(provider, client)
        if way == "conversation":
            options["conversation_id"] = provider.create_conversation()
        async with client:
            scene = shop(model)
            paused = await drive(scene.agent, "Refund orders 7 and 9.", streamed=streamed, **options)
            order = {"api": api, "url": url, "streamed": streamed, "text": paused.to_state().to_string()}
            found = await in_another_process("tests.models.runs.another_process", order)

    assert [item.call_id for item in paused.interruptions] == ["c1", "c3"]
    assert scene.effects == ["look_up 8"]
    assert found == {"final_output": "It is done.", "effects": []}
    assert provider.refusals == []
    assert {request.status for request in provider.requests} == {200}
    assert _outputs(api, provider.model_requests[-1]) == ["not c1", "order 8: 4200 cents", "not c3"]
    provider.assert_complete()


async def _with_a_response_before(provider: FakeProvider, client: Any) -> FakeProvider:
    """The run goes on from a response that somebody else asked for."""
    provider._steps.insert(0, ModelStep([assistant_message("What can I do?")], response_id="resp_before"))
    await client.responses.create(model="before", input="hello")
    return provider


def _outputs(api: Api, request: Any) -> list[str]:
    """What the model reads of the three calls, as the last request carries it."""
    if api == "responses":
        return [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    if api == "chat":
        return [message["content"] for message in request.input if message["role"] == "tool"]
    blocks = [
        block for message in request.input if isinstance(message["content"], list) for block in message["content"]
    ]
    return [_text(block["content"]) for block in blocks if block.get("type") == "tool_result"]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
