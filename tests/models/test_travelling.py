"""What a provider said travels through a pause, a text and a resume, and comes back to it as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet import Agent, ModelSettings, Runner, RunState, function_tool, handoff
from placet.models import AnthropicModel
from placet.testing import assistant_message, function_call, reasoning
from placet.testing.provider import Answer, FakeProvider, ProviderStep, raw
from tests.models.wire import Wire, wired

DONE = [assistant_message("It is done.")]


@function_tool(needs_approval=True)
def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


async def drive(agent: Agent[Any], given: Any, *, streamed: bool) -> Any:
    if not streamed:
        return await Runner.run(agent, given)
    result = Runner.run_streamed(agent, given)
    async for _ in result.stream_events():
        pass
    return result


async def pause_and_resume(wire: Wire, *, streamed: bool, **options: Any) -> Any:
    """Ask, pause, write the state down, load it for an agent that was made anew, approve everything, go on."""

    def made() -> Agent[Any]:
        return Agent(name="Shop", instructions="Be kind.", tools=[pay], model=wire.model, **options)

    paused = await drive(made(), "Pay!", streamed=streamed)
    agent = made()
    state = await RunState.from_string(agent, paused.to_state().to_string())
    for item in state.get_interruptions():
        state.approve(item)
    return await drive(agent, state, streamed=streamed)


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def chat() -> AsyncIterator[Wire]:
    async with wired("chat") as wire:
        yield wire
        assert wire.provider.refusals == []


@pytest.fixture
async def anthropic() -> AsyncIterator[Wire]:
    async with wired("anthropic") as wire:
        yield wire
        assert wire.provider.refusals == []


# -- Anthropic ---------------------------------------------------------------------------------------------------------

SAID: list[dict[str, Any]] = [
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
    {"type": "text", "text": "The sky is ", "citations": None},
    {"type": "text", "text": "blue.", "citations": [{"type": "char_location", "cited_text": "blue"}], "tone": "calm"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sky"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "daydream", "dream": {"of": ["sheep", 1.5, None]}},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "pay",
        "input": {"n": 1},
        "caller": {"type": "direct"},
        "newest": True,
    },
    {"type": "tool_use", "id": "toolu_2", "name": "pay", "input": {"n": 2}},
]


@pytest.mark.parametrize("thinking", [None, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 2000}])
async def test_thinking_and_blocks_of_a_newer_api_come_back_as_they_were(
    anthropic: Wire, streamed: bool, thinking: Any
) -> None:
    anthropic.provider.add([reasoning("I must pay."), *SAID], DONE)

    result = await pause_and_resume(anthropic, streamed=streamed, model_settings=ModelSettings(reasoning=thinking))

    _, turn, results = anthropic.provider.model_requests[1].body["messages"]
    assert result.final_output == "It is done."
    assert turn["content"][0]["thinking"] == "I must pay."
    assert turn["content"][0]["signature"]
    assert turn["content"][1:] == SAID
    assert [block["content"] for block in results["content"]] == ["paid 1", "paid 2"]


async def test_a_handoff_leaves_the_thinking_of_the_other_agent_out_and_keeps_the_own(
    anthropic: Wire, streamed: bool
) -> None:
    anthropic.provider.add(
        [reasoning("Not my job."), function_call("transfer_to_payer", {}, call_id="h1")],
        [reasoning("My job."), function_call("pay", {"n": 1}, call_id="p1")],
        DONE,
    )
    settings = ModelSettings(reasoning={"type": "adaptive"})
    payer = Agent(name="Payer", instructions="Pay.", tools=[pay], model=anthropic.model, model_settings=settings)
    desk = Agent(
        name="Desk",
        instructions="Hand over.",
        handoffs=[handoff(payer)],
        model=anthropic.model,
        model_settings=settings,
    )

    paused = await drive(desk, "Pay!", streamed=streamed)
    state = await RunState.from_string(desk, paused.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    result = await drive(desk, state, streamed=streamed)

    thoughts = [
        [
            block["thinking"]
            for message in request.body["messages"]
            for block in message["content"]
            if "thinking" in block
        ]
        for request in anthropic.provider.model_requests
    ]
    assert result.final_output == "It is done."
    assert thoughts == [[], [], ["My job."]]


async def test_a_turn_that_the_api_pauses_for_its_own_tools_is_gone_on_with(anthropic: Wire, streamed: bool) -> None:
    searching = [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sky"}}]
    anthropic.provider.add(
        ProviderStep(Answer(searching, extra={"stop_reason": "pause_turn"})),
        [{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, assistant_message("Blue.")],
    )
    agent = Agent(name="Sky", model=anthropic.model)

    result = await drive(agent, "Which colour?", streamed=streamed)

    assert result.final_output == "Blue."
    assert result.context_wrapper.usage.requests == 2
    assert [item.raw_item["type"] for item in result.new_items] == [
        "anthropic:server_tool_use",
        "anthropic:web_search_tool_result",
        "message",
    ]


@pytest.mark.parametrize(("limit", "is_streamed"), [(None, False), (64_000, True)])
async def test_a_long_answer_is_streamed_also_where_nobody_asked_for_a_stream(
    limit: int | None, is_streamed: bool
) -> None:
    provider = FakeProvider([DONE])
    async with provider.anthropic_client() as client:  # with the client's own limits of time
        settings = ModelSettings(max_tokens=limit)
        agent = Agent(name="Shop", model=AnthropicModel("claude-opus-5", client), model_settings=settings)

        result = await Runner.run(agent, "Tell me everything.")

    assert result.final_output == "It is done."
    assert provider.model_requests[0].body.get("stream", False) is is_streamed


# -- Chat Completions --------------------------------------------------------------------------------------------------

CALL: dict[str, Any] = {
    "id": "a",
    "type": "function",
    "function": {"name": "pay", "arguments": '{"n": 1}'},
    "extra_content": {"google": {"thought_signature": "c2ln"}},
}
MESSAGE: dict[str, Any] = {
    "role": "assistant",
    "content": "I pay.",
    "reasoning_content": "I must pay.",
    "mood": {"tone": ["calm", 1.5]},
}


def chat_answer(message: dict[str, Any], *, streamed: bool) -> ProviderStep:
    head = {"id": "chatcmpl-1", "created": 1, "model": "m"}
    if not streamed:
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return raw({**head, "object": "chat.completion", "choices": [choice]})
    calls = [{"index": index, **call} for index, call in enumerate(message["tool_calls"])]
    deltas: list[dict[str, Any]] = [{**message, "tool_calls": calls}, {}]
    reasons = [None, "tool_calls"]
    return raw(
        [
            {
                **head,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
            for delta, reason in zip(deltas, reasons, strict=True)
        ]
    )


async def test_reasoning_signatures_and_fields_of_a_newer_api_come_back_as_they_were(
    chat: Wire, streamed: bool
) -> None:
    message = {**MESSAGE, "tool_calls": [CALL]}
    chat.provider.add(chat_answer(message, streamed=streamed), DONE)

    await pause_and_resume(chat, streamed=streamed)

    sent = chat.provider.model_requests[1].body["messages"]
    assert sent[2] == message
    assert sent[3] == {"role": "tool", "tool_call_id": "a", "content": "paid 1"}


@pytest.mark.promise("P6")
@pytest.mark.parametrize("given", [[None, None], ["", ""], ["a", "a"], ["a", None]], ids=str)
async def test_ids_that_a_server_repeats_or_omits_are_unique_and_the_same_in_every_request(
    chat: Wire, streamed: bool, given: list[str | None]
) -> None:
    calls: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": "pay", "arguments": f'{{"n": {n}}}'}} for n in (1, 2)
    ]
    for call, identity in zip(calls, given, strict=True):
        if identity is not None:
            call["id"] = identity
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    chat.provider.add(chat_answer(message, streamed=streamed), [function_call("pay", {"n": 3}, call_id="a")], DONE)
    agent = Agent(name="Shop", tools=[pay], model=chat.model)

    paused = await drive(agent, "Pay!", streamed=streamed)
    state = await RunState.from_string(agent, paused.to_state().to_string())
    first, second = state.get_interruptions()
    state.approve(first)
    state.reject(second, rejection_message="not twice")
    again = await drive(agent, state, streamed=streamed)
    state = await RunState.from_string(agent, again.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    await drive(agent, state, streamed=streamed)

    one, two = (request.body["messages"] for request in chat.provider.model_requests[1:])
    labels = [call["id"] for call in one[1]["tool_calls"]]
    assert len(set(labels)) == 2
    assert all(labels)
    assert [(each["tool_call_id"], each["content"]) for each in one[2:]] == [
        (labels[0], "paid 1"),
        (labels[1], "not twice"),
    ]
    assert two[: len(one)] == one
    assert two[-1]["content"] == "paid 3"
