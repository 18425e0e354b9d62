"""The Responses API, as a program meets it: a bare model name, tools, a structured output, a chained conversation."""

import asyncio

from agents import Agent, ModelSettings, Runner, function_tool, set_tracing_disabled
from pydantic import BaseModel

set_tracing_disabled(True)


class City(BaseModel):
    name: str
    country: str


@function_tool
def country_of(city: str) -> str:
    """The country of a city."""
    return "Norway"


async def main() -> None:
    agent = Agent(
        name="Geographer",
        instructions="Answer.",
        model="gpt-4.1",
        tools=[country_of],
        output_type=City,
        model_settings=ModelSettings(temperature=0.1, max_tokens=200),
    )
    result = await Runner.run(agent, "Where is Oslo?")
    print(result.final_output)
    print([item.type for item in result.new_items])
    plain = agent.clone(output_type=None, tools=[])
    following = await Runner.run(plain, "And Bergen?", previous_response_id=result.last_response_id)
    print(following.final_output, following.last_response_id != result.last_response_id)
    print(result.context_wrapper.usage.requests, following.context_wrapper.usage.requests)


asyncio.run(main())
