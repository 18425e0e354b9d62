"""What a result holds: items, input for the next run, raw responses, guardrail results, the last agent, errors."""

import asyncio
import json

from agents import (
    Agent,
    HandoffOutputItem,
    ItemHelpers,
    MaxTurnsExceeded,
    MessageOutputItem,
    ModelResponse,
    Runner,
    ToolCallItem,
    ToolCallOutputItem,
    function_tool,
    trace,
)
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from pydantic import BaseModel


class Answer(BaseModel):
    number: int


@function_tool
def look_up(key: str) -> dict[str, int]:
    """Look something up."""
    return {key: 7}


def shape(item):
    return item.get("type", item.get("role"))


async def main() -> None:
    model = ScriptedModel(
        [
            ModelStep([function_call("look_up", {"key": "k"}, call_id="c1")], response_id="resp_1"),
            ModelStep([function_call("transfer_to_second", {}, call_id="h1")], response_id="resp_2"),
            ModelStep([assistant_message('{"number": 7}')], response_id="resp_3"),
        ]
    )
    second = Agent(name="Second", model=model, output_type=Answer)
    first = Agent(name="First", model=model, tools=[look_up], handoffs=[second])
    with trace("results"):
        result = await Runner.run(first, "what is k?")
    print(result.final_output, result.final_output_as(Answer, raise_if_incorrect_type=True).number)
    print(result.last_agent.name, result.last_response_id, len(result.raw_responses))
    print(isinstance(result.raw_responses[0], ModelResponse), result.raw_responses[0].response_id)
    for item in result.new_items:
        if isinstance(item, ToolCallItem):
            print("call", item.agent.name, item.raw_item.name, json.loads(item.raw_item.arguments))
        elif isinstance(item, ToolCallOutputItem):
            print("output", item.output, item.raw_item["call_id"])
        elif isinstance(item, HandoffOutputItem):
            print("handoff", item.source_agent.name, item.target_agent.name)
        elif isinstance(item, MessageOutputItem):
            print("message", ItemHelpers.text_message_output(item))
        else:
            print(type(item).__name__)
    print([shape(item) for item in result.to_input_list()])
    again = ScriptedModel([[assistant_message("and again")]])
    follow = await Runner.run(
        Agent(name="Third", model=again), [*result.to_input_list(), {"role": "user", "content": "more?"}]
    )
    print(follow.final_output, len(again.last_call.input), follow.input_guardrail_results, follow.interruptions)
    try:
        looping = ScriptedModel([[function_call("look_up", {"key": "x"}, call_id=f"c{n}")] for n in range(3)])
        await Runner.run(first.clone(model=looping, handoffs=[]), "loop", max_turns=2)
    except MaxTurnsExceeded as error:
        print(
            "stopped", error.run_data.last_agent.name, len(error.run_data.new_items), len(error.run_data.raw_responses)
        )


asyncio.run(main())
