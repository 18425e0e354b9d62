"""What is tried on the real services: the scenarios that the tests run against the fake provider, asked for in words.

A scenario is a function of a model's name that raises what is wrong. Each costs a few hundred tokens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pydantic

from placet import Agent, ModelSettings, RequestNotTaken, Runner, RunState, function_tool

Scenario = Callable[[str], Awaitable[None]]

THREE = (
    "Call refund for order 7, look_up for order 8 and refund for order 9, in this order, all three at once in one "
    "answer. When you have read their outputs, say DONE."
)


class City(pydantic.BaseModel):
    name: str
    country: str


def clerk(model: str) -> tuple[Agent[Any], list[str]]:
    effects: list[str] = []

    @function_tool(needs_approval=True)
    def refund(order: str) -> str:
        """Pay an order back."""
        effects.append(f"refund {order}")
        return "refunded"

    @function_tool
    def look_up(order: str) -> str:
        """What is known about an order."""
        effects.append(f"look_up {order}")
        return f"order {order}: 4200 cents"

    settings = ModelSettings(max_tokens=4000)
    return Agent(
        name="Clerk", instructions=THREE, tools=[refund, look_up], model=model, model_settings=settings
    ), effects


async def an_answer(model: str) -> None:
    result = await Runner.run(Agent(name="Greeter", model=model), "Say hello in one word.")
    _check(bool(result.final_output), "the answer is empty")
    _check(result.context_wrapper.usage.total_tokens > 0, "no tokens were counted")


async def a_streamed_answer(model: str) -> None:
    result = Runner.run_streamed(Agent(name="Greeter", model=model), "Say hello in one word.")
    events = [event.type async for event in result.stream_events()]
    _check(events.count("raw_response_event") > 1, "nothing was streamed")
    _check(bool(result.final_output), "the answer is empty")


async def structured_output(model: str) -> None:
    result = await Runner.run(Agent(name="Atlas", model=model, output_type=City), "The capital of France.")
    _check(result.final_output.name == "Paris", f"the answer is {result.final_output!r}")


async def three_calls_two_rejected(model: str) -> None:
    await _three_calls(model, streamed=False)


async def three_calls_two_rejected_streamed(model: str) -> None:
    await _three_calls(model, streamed=True)


async def three_calls_in_a_chain(model: str) -> None:
    await _three_calls(model, streamed=False, auto_previous_response_id=True)


async def three_calls_in_a_conversation(model: str) -> None:
    from openai import AsyncOpenAI

    async with AsyncOpenAI() as client:
        conversation = await client.conversations.create()
        try:
            await _three_calls(model, streamed=True, conversation_id=conversation.id)
        finally:
            await client.conversations.delete(conversation.id)


async def a_history_that_the_server_does_not_store(model: str) -> None:
    await _three_calls(model, streamed=False, settings=ModelSettings(store=False, max_tokens=4000))


async def a_model_that_does_not_exist(model: str) -> None:
    with contextlib.suppress(RequestNotTaken):
        await Runner.run(Agent(name="Nobody", model=f"{model}-no-such-model"), "hello")
        raise AssertionError("the provider answered for a model that does not exist")


async def _three_calls(model: str, *, streamed: bool, settings: ModelSettings | None = None, **options: Any) -> None:
    agent, effects = clerk(model)
    if settings is not None:
        agent.model_settings = settings
    result = await _drive(agent, "Go on.", streamed=streamed, **options)
    waiting = [item.name for item in result.interruptions]
    _check(waiting == ["refund", "refund"], f"these wait: {waiting}")
    state: Any = await RunState.from_string(agent, result.to_state().to_string())
    for item in state.get_interruptions():
        state.reject(item, rejection_message="Not today.")
    result = await _drive(agent, state, streamed=streamed)
    _check(effects == ["look_up 8"], f"these ran: {effects}")
    _check(bool(result.final_output), "the run did not end with an answer")


async def _drive(agent: Agent[Any], given: Any, *, streamed: bool, **options: Any) -> Any:
    if not streamed:
        return await Runner.run(agent, given, **options)
    result = Runner.run_streamed(agent, given, **options)
    async for _ in result.stream_events():
        pass
    return result


def _check(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise AssertionError(otherwise)


EVERYWHERE: tuple[Scenario, ...] = (
    an_answer,
    a_streamed_answer,
    structured_output,
    three_calls_two_rejected,
    three_calls_two_rejected_streamed,
    a_model_that_does_not_exist,
)
ON_RESPONSES: tuple[Scenario, ...] = (
    *EVERYWHERE,
    three_calls_in_a_chain,
    three_calls_in_a_conversation,
    a_history_that_the_server_does_not_store,
)
