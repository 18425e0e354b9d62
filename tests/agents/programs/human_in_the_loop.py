"""Calls that wait for a person, decided after a trip through a file."""

import asyncio
import json

from agents import Agent, Runner, RunState, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


async def expensive(ctx, params, call_id) -> bool:
    return params["cents"] > 100


@function_tool(needs_approval=expensive)
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def main() -> None:
    model = ScriptedModel(
        [
            [
                function_call("delete", {"path": "a"}, call_id="d1"),
                function_call("delete", {"path": "b"}, call_id="d2"),
                function_call("pay", {"cents": 5}, call_id="p1"),
                function_call("pay", {"cents": 500}, call_id="p2"),
            ],
            [assistant_message("done")],
        ]
    )
    agent = Agent(name="Clerk", tools=[delete, pay], model=model)
    result = await Runner.run(agent, "clean up")
    print([(item.name, item.call_id) for item in result.interruptions], result.final_output)
    state = await RunState.from_string(agent, result.to_state().to_string())
    for item in state.get_interruptions():
        arguments = json.loads(item.arguments)
        if arguments.get("path") == "b":
            state.reject(item, rejection_message="keep b")
        else:
            state.approve(item)
    result = await Runner.run(agent, state)
    print(result.final_output)
    print(sorted(item["output"] for item in model.last_call.input if item.get("type") == "function_call_output"))


asyncio.run(main())
