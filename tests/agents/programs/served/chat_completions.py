"""Chat Completions: a client and a model that the program makes itself, plain and streamed."""

import asyncio

from agents import Agent, AsyncOpenAI, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)


@function_tool
def weather(city: str) -> str:
    """The weather."""
    return f"{city}: rain"


async def main() -> None:
    model = OpenAIChatCompletionsModel(model="gpt-4.1", openai_client=AsyncOpenAI())
    agent = Agent(name="Forecaster", instructions="Answer.", model=model, tools=[weather])
    result = await Runner.run(agent, "Bergen?")
    print(result.final_output, [item.type for item in result.new_items])
    streamed = Runner.run_streamed(agent, "And now?")
    text = ""
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            text += event.data.delta
    print(text, streamed.final_output == text)


asyncio.run(main())
