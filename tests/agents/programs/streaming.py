"""What a program prints while a run goes."""

import asyncio

from agents import Agent, ItemHelpers, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseTextDeltaEvent


@function_tool
def how_many() -> int:
    """How many jokes."""
    return 2


async def main() -> None:
    model = ScriptedModel([[function_call("how_many", {}, call_id="c")], [assistant_message("ha ha")]])
    result = Runner.run_streamed(Agent(name="Joker", tools=[how_many], model=model), "jokes!")
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print("delta", event.data.delta.strip())
        elif event.type == "agent_updated_stream_event":
            print("agent", event.new_agent.name)
        elif event.type == "run_item_stream_event":
            if event.item.type == "tool_call_item":
                print(event.name, event.item.raw_item.name)
            elif event.item.type == "tool_call_output_item":
                print(event.name, event.item.output)
            elif event.item.type == "message_output_item":
                print(event.name, ItemHelpers.text_message_output(event.item))
    print(result.final_output, result.is_complete)


asyncio.run(main())
