"""Deltas of the Responses API, printed as they come."""

import asyncio

from agents import Agent, Runner, set_tracing_disabled
from openai.types.responses import ResponseTextDeltaEvent

set_tracing_disabled(True)


async def main() -> None:
    result = Runner.run_streamed(Agent(name="Writer", model="gpt-4.1"), "Write.")
    text = ""
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            text += event.data.delta
    print(text)
    print(result.final_output == text, result.current_agent.name, result.current_turn, result.max_turns)


asyncio.run(main())
