"""The ways to run: sync, async, a configuration of its own, hooks, several messages, errors that are handled."""

import asyncio

from agents import (
    Agent,
    AgentHooks,
    ModelSettings,
    RunConfig,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    RunHooks,
    Runner,
    UserError,
    function_tool,
)
from agents.run import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
def work(n: int) -> int:
    """Work."""
    return n * 2


class Told(RunHooks):
    async def on_llm_start(self, context, agent, system_prompt, input_items):
        print("asks", agent.name, system_prompt, len(input_items))

    async def on_llm_end(self, context, agent, response):
        print("answered", len(response.output))

    async def on_tool_start(self, context, agent, tool):
        print("starts", tool.name)

    async def on_tool_end(self, context, agent, tool, result):
        print("ends", tool.name, result)


class Own(AgentHooks):
    async def on_start(self, context, agent):
        print("on_start", agent.name)

    async def on_end(self, context, agent, output):
        print("on_end", output)


def newest_only(data: CallModelData) -> ModelInputData:
    return ModelInputData(input=data.model_data.input[-1:], instructions="short")


async def later() -> None:
    model = ScriptedModel([[function_call("work", {"n": 4}, call_id="w1")], [assistant_message("eight")]])
    agent = Agent(name="Worker", instructions="Work.", tools=[work], model=model, hooks=Own())
    result = await Runner.run(
        agent, [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}], hooks=Told()
    )
    print(result.final_output)
    model = ScriptedModel([[assistant_message("filtered")]])
    config = RunConfig(model=model, model_settings=ModelSettings(temperature=0.0), call_model_input_filter=newest_only)
    result = await Runner.run(
        agent, [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}], run_config=config
    )
    call = model.last_call
    print(result.final_output, call.system_instructions, call.input[-1]["content"], call.model_settings.temperature)

    def give_up(data: RunErrorHandlerInput) -> RunErrorHandlerResult:
        return RunErrorHandlerResult(final_output=f"gave up after {len(data.run_data.raw_responses)}")

    looping = ScriptedModel([[function_call("work", {"n": n}, call_id=f"w{n}")] for n in range(3)])
    handled = await Runner.run(
        agent.clone(model=looping, hooks=None), "loop", max_turns=2, error_handlers={"max_turns": give_up}
    )
    print(handled.final_output)


def main() -> None:
    agent = Agent(name="Sync", model=ScriptedModel([[assistant_message("first")], [assistant_message("second")]]))
    print(Runner.run_sync(agent, "hello").final_output)
    asyncio.run(later())
    try:
        Agent(name=7)
    except (TypeError, UserError) as error:
        print("refused", "name" in str(error))


main()
