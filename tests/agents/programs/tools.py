"""Function tools: defaults, docstrings, errors of their own, agents as tools, and where a run stops."""

import asyncio
import json
from typing import Any

from agents import Agent, FunctionTool, RunContextWrapper, Runner, StopAtTools, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext


@function_tool
def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def explain(ctx: RunContextWrapper[Any], error: Exception) -> str:
    return f"explained: {error}"


@function_tool(name_override="broken", failure_error_function=explain)
async def fails() -> str:
    """Fails."""
    raise ValueError("on purpose")


async def run_function(ctx: ToolContext[Any], args: str) -> str:
    return f"{ctx.tool_name} got {json.loads(args)['x']}"


custom = FunctionTool(
    name="custom",
    description="By hand.",
    params_json_schema={
        "type": "object",
        "properties": {"x": {"type": "string"}},
        "required": ["x"],
        "additionalProperties": False,
    },
    on_invoke_tool=run_function,
)


async def main() -> None:
    print(add.name, add.description, sorted(add.params_json_schema["properties"]))
    model = ScriptedModel(
        [
            [
                function_call("add", {"a": 1, "b": 5}, call_id="c1"),
                function_call("broken", {}, call_id="c2"),
                function_call("custom", {"x": "hello"}, call_id="c3"),
            ],
            [assistant_message("done")],
        ]
    )
    result = await Runner.run(Agent(name="A", tools=[add, fails, custom], model=model), "go")
    print([item["output"] for item in model.last_call.input if item.get("type") == "function_call_output"])
    print(result.final_output)
    inner = Agent(name="Translator", model=ScriptedModel([[assistant_message("hola")]]))
    outer_model = ScriptedModel(
        [[function_call("translate", {"input": "hello"}, call_id="t1")], [assistant_message("it is hola")]]
    )
    outer = Agent(name="Boss", tools=[inner.as_tool("translate", "Translate to Spanish")], model=outer_model)
    print((await Runner.run(outer, "Translate hello")).final_output, outer_model.last_call.input[-1]["output"])
    stopping = ScriptedModel([[function_call("add", {"a": 1, "b": 1}, call_id="s1")]])
    agent = Agent(name="S", tools=[add], model=stopping, tool_use_behavior=StopAtTools(stop_at_tool_names=["add"]))
    print((await Runner.run(agent, "go")).final_output)


asyncio.run(main())
