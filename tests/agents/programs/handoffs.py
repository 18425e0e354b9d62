"""Handoffs with data, callbacks and filters, and hooks that hear of them."""

import asyncio

from agents import Agent, AgentHooks, RunContextWrapper, RunHooks, Runner, handoff
from agents.extensions import handoff_filters
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic import BaseModel


class Reason(BaseModel):
    why: str


async def on_handoff(ctx: RunContextWrapper[None], data: Reason) -> None:
    print("handed over because", data.why)


class Run(RunHooks):
    async def on_handoff(self, context, from_agent, to_agent):
        print("run hears:", from_agent.name, "to", to_agent.name)

    async def on_agent_start(self, context, agent):
        print("start", agent.name)


class Own(AgentHooks):
    async def on_handoff(self, context, agent, source):
        print("agent hears:", source.name, "to", agent.name)


async def main() -> None:
    model = ScriptedModel(
        [[function_call("transfer_to_billing", {"why": "money"}, call_id="h1")], [assistant_message("paid")]]
    )
    billing = Agent(name="Billing", handoff_description="Money.", model=model, hooks=Own())
    triage = Agent(
        name="Triage",
        model=model,
        hooks=Own(),
        handoffs=[
            handoff(billing, on_handoff=on_handoff, input_type=Reason, input_filter=handoff_filters.remove_all_tools)
        ],
    )
    result = await Runner.run(triage, "Refund me", hooks=Run())
    print(result.final_output, result.last_agent.name)
    print([(item["role"], item["content"]) for item in model.last_call.input])


asyncio.run(main())
