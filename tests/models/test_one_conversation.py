"""One conversation on three APIs: handed from agent to agent, with a pause on each, and nothing to refuse."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel

from placet import Agent, ModelSettings, Runner, RunState, SQLiteSession, function_tool
from placet.models import AnthropicModel, OpenAIChatCompletionsModel, OpenAIResponsesModel
from placet.testing import assistant_message, function_call, reasoning
from placet.testing.provider import FakeProvider
from tests.models.wire import wired

THINKING = ModelSettings(reasoning={"type": "adaptive"})


async def models(stack: AsyncExitStack, provider: FakeProvider) -> dict[str, Any]:
    url = await stack.enter_async_context(provider.serve())
    openai = await stack.enter_async_context(AsyncOpenAI(base_url=url, api_key="test", timeout=120))
    anthropic = await stack.enter_async_context(AsyncAnthropic(base_url=url, api_key="test", timeout=120))
    return {
        "responses": OpenAIResponsesModel("gpt-5", openai),
        "chat": OpenAIChatCompletionsModel("qwen3", openai),
        "anthropic": AnthropicModel("claude-opus-5", anthropic),
    }


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


def turn(n: int, next_agent: str | None) -> list[list[Any]]:
    """What one agent does: it thinks and pays, then hands over, or answers."""
    paying = [reasoning(f"I pay {n}.", item_id=f"rs_{n}"), function_call("pay", {"n": n}, call_id=f"p{n}")]
    if next_agent is None:
        return [paying, [assistant_message("All paid.")]]
    thought = reasoning("Not my job.", item_id=f"rs_{n}b")
    return [paying, [thought, function_call(f"transfer_to_{next_agent}", {}, call_id=f"h{n}")]]


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(
    "order",
    [("responses", "anthropic", "chat"), ("anthropic", "chat", "responses"), ("chat", "responses", "anthropic")],
    ids="-".join,
)
async def test_a_conversation_goes_from_api_to_api_with_a_pause_on_each(order: tuple[str, ...], streamed: bool) -> None:
    names = [*(f"{each}_{index}" for index, each in enumerate(order))]
    provider = FakeProvider([step for n, following in enumerate([*names[1:], None], 1) for step in turn(n, following)])
    async with AsyncExitStack() as stack:
        found = await models(stack, provider)
        agent: Agent[Any] | None = None
        for name, api in reversed(list(zip(names, order, strict=True))):
            settings = THINKING if api == "anthropic" else ModelSettings()
            others = [agent] if agent is not None else []
            agent = Agent(
                name=name, instructions=f"You are {name}.", tools=[pay], handoffs=others, model=found[api],
                model_settings=settings,
            )  # fmt: skip
        assert agent is not None
        result = await drive(agent, "Pay three times.", streamed=streamed)
        paid = 0
        while result.interruptions:
            state = await RunState.from_string(agent, result.to_state().to_string())
            state.approve(state.get_interruptions()[0])
            result = await drive(agent, state, streamed=streamed)
            paid += 1

    assert result.final_output == "All paid."
    assert paid == 3
    assert provider.refusals == []
    provider.assert_complete()


async def test_a_session_that_one_api_wrote_is_read_by_the_others(tmp_path: Any) -> None:
    provider = FakeProvider([step for n in (1, 2, 3) for step in turn(n, None)])
    session = SQLiteSession("s1", str(tmp_path / "sessions.db"))
    async with AsyncExitStack() as stack:
        for api, model in (await models(stack, provider)).items():
            settings = THINKING if api == "anthropic" else ModelSettings()
            agent = Agent(name=api, tools=[pay], model=model, model_settings=settings)
            state = (await Runner.run(agent, "Pay.", session=session)).to_state()
            state.approve(state.get_interruptions()[0])
            result = await Runner.run(agent, state, session=session)

            assert result.final_output == "All paid."

    assert provider.refusals == []
    provider.assert_complete()


class Receipt(BaseModel):
    order: str
    cents: int


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", ["chat", "anthropic"])
async def test_a_structured_answer_is_asked_for_and_read(api: str, streamed: bool) -> None:
    async with wired(api) as wire:
        wire.provider.add([assistant_message('{"order": "7", "cents": 4200}')])
        agent = Agent(name="Till", model=wire.model, output_type=Receipt)

        result = await drive(agent, "A receipt!", streamed=streamed)

    body = wire.provider.model_requests[0].body
    asked = body["response_format"]["json_schema"] if api == "chat" else body["output_config"]["format"]
    assert result.final_output == Receipt(order="7", cents=4200)
    assert asked["schema"]["required"] == ["order", "cents"]
    assert wire.provider.refusals == []


@pytest.mark.parametrize("api", ["chat", "anthropic"])
async def test_what_the_provider_sends_reaches_the_reader_of_the_stream_as_it_came(api: str) -> None:
    async with wired(api) as wire:
        wire.provider.add([assistant_message("It is done.")])
        result = Runner.run_streamed(Agent(name="Shop", model=wire.model), "Hello")
        told = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]

    if api == "chat":  # told as the Responses API tells it, so that programs which print deltas need to know one form
        words = [event.delta for event in told if event.type == "response.output_text.delta"]
    else:
        words = [event.delta.text for event in told if event.type == "content_block_delta"]
    assert "".join(words) == "It is done."
    assert len(words) > 1
    assert result.context_wrapper.usage.output_tokens > 0


PARTS: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ],
    "anthropic": [
        {"type": "input_text", "text": "Look:", "cache_control": {"type": "ephemeral"}},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
        {"type": "input_file", "file_data": "data:text/plain;base64,SGVsbG8="},
    ],
}


@pytest.mark.parametrize("api", ["chat", "anthropic"])
async def test_pictures_and_files_are_taken_in_input_and_in_outputs(api: str) -> None:
    @function_tool
    def look() -> list[dict[str, str]]:
        """Look at the chart."""
        return [
            {"type": "input_text", "text": "A chart."},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        ]

    async with wired(api) as wire:
        wire.provider.add([function_call("look", {}, call_id="c1")], [assistant_message("I see.")])
        agent = Agent(name="Eye", tools=[look], model=wire.model)

        result = await Runner.run(agent, [{"role": "user", "content": PARTS[api]}])

    assert result.final_output == "I see."
    assert wire.provider.refusals == []
    assert "AAAA" in str(wire.provider.model_requests[1].body["messages"][2:])
