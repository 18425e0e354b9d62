"""An agent with instructions, a structured output, a context, dynamic instructions, and a limit of turns."""

import asyncio
from dataclasses import dataclass

from agents import Agent, MaxTurnsExceeded, ModelSettings, RunConfig, RunContextWrapper, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


@dataclass
class User:
    name: str


@function_tool
def get_weather(ctx: RunContextWrapper[User], city: str) -> str:
    """The weather in a city."""
    return f"{city} is sunny, {ctx.context.name}"


def instructions(ctx: RunContextWrapper[User], agent: Agent[User]) -> str:
    return f"You are {agent.name}. The user is {ctx.context.name}."


async def main() -> None:
    model = ScriptedModel(
        [
            [function_call("get_weather", {"city": "Oslo"}, call_id="c1")],
            [assistant_message('{"city": "Oslo", "degrees": 3}')],
        ]
    )
    agent = Agent[User](
        name="Forecaster",
        instructions=instructions,
        tools=[get_weather],
        output_type=Weather,
        model=model,
        model_settings=ModelSettings(temperature=0.2),
    )
    result = await Runner.run(agent, "Oslo?", context=User("Ana"))
    print(result.final_output, type(result.final_output).__name__, result.last_agent.name)
    print(result.final_output_as(Weather).degrees)
    print(model.first_call.system_instructions, model.first_call.model_settings.temperature)
    print([item.type for item in result.new_items])
    print(model.last_call.input[-1]["output"])
    clone = agent.clone(name="Copy", output_type=None, model=ScriptedModel([[assistant_message("plain")]]))
    print(clone.name, (await Runner.run(clone, "hi", context=User("Bo"))).final_output)
    looping = ScriptedModel([[function_call("get_weather", {"city": "X"}, call_id=f"c{n}")] for n in range(5)])
    try:
        await Runner.run(agent, "again", context=User("Cy"), max_turns=2, run_config=RunConfig(model=looping))
    except MaxTurnsExceeded as error:
        print("stopped", type(error).__name__)


asyncio.run(main())
