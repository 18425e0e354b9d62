"""Guardrails that stop a run, at its beginning and at its end."""

import asyncio

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call


@input_guardrail
async def no_homework(ctx, agent, given) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info={"asked": given}, tripwire_triggered="homework" in str(given))


@output_guardrail
async def no_secrets(ctx, agent, output) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="secret" in output)


@tool_input_guardrail
def only_small(data) -> ToolGuardrailFunctionOutput:
    if "999" in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("too much")
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[only_small])
def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


async def main() -> None:
    agent = Agent(
        name="Tutor",
        input_guardrails=[no_homework],
        output_guardrails=[no_secrets],
        tools=[pay],
        model=ScriptedModel([[assistant_message("sure")]]),
    )
    result = await Runner.run(agent, "hello")
    print(result.final_output, [each.output.tripwire_triggered for each in result.input_guardrail_results])
    try:
        await Runner.run(agent.clone(model=ScriptedModel([[assistant_message("no")]])), "do my homework")
    except InputGuardrailTripwireTriggered as error:
        print("input", error.guardrail_result.output.output_info, error.guardrail_result.guardrail.get_name())
    try:
        await Runner.run(agent.clone(model=ScriptedModel([[assistant_message("the secret")]])), "tell")
    except OutputGuardrailTripwireTriggered as error:
        print("output", error.guardrail_result.guardrail.get_name(), error.guardrail_result.agent_output)
    model = ScriptedModel(
        [
            [function_call("pay", {"n": 999}, call_id="a"), function_call("pay", {"n": 1}, call_id="b")],
            [assistant_message("ok")],
        ]
    )
    await Runner.run(agent.clone(model=model), "pay")
    print([item["output"] for item in model.last_call.input if item.get("type") == "function_call_output"])


asyncio.run(main())
