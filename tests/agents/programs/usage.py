"""How much a run used: in all, request by request, in a hook, over a nested agent."""

import asyncio

from agents import Agent, RunContextWrapper, RunHooks, Runner, Usage, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call


@function_tool
def ping() -> str:
    """Ping."""
    return "pong"


class Watching(RunHooks):
    async def on_agent_end(self, context: RunContextWrapper, agent, output):
        if agent.name == "Outer":
            print(agent.name, context.usage.requests, context.usage.total_tokens)


def used(tokens: int) -> Usage:
    return Usage(requests=1, input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1)


async def main() -> None:
    inner = Agent(name="Inner", model=ScriptedModel([ModelStep([assistant_message("inside")], usage=used(100))]))
    model = ScriptedModel(
        [
            ModelStep([function_call("ping", {}, call_id="p1")], usage=used(10)),
            ModelStep([function_call("inner", {"input": "x"}, call_id="i1")], usage=used(20)),
            ModelStep([assistant_message("done")], usage=used(30)),
        ]
    )
    agent = Agent(name="Outer", model=model, tools=[ping, inner.as_tool("inner", "Inner.")])
    result = await Runner.run(agent, "go", hooks=Watching())
    usage = result.context_wrapper.usage
    print(usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens)
    print(usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens)
    print([entry.total_tokens for entry in usage.request_usage_entries])
    print([response.usage.input_tokens for response in result.raw_responses])
    total = Usage()
    total.add(used(1))
    total.add(used(2))
    print(total.requests, total.total_tokens)


asyncio.run(main())
