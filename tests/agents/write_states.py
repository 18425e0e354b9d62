"""Writes states of paused runs with the real SDK, in all the shapes that it has: run in an environment of its own.

python write_states.py FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agents import Agent, HostedMCPTool, Runner, SQLiteSession, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses.response_output_item import McpApprovalRequest

FOLDER = Path(sys.argv[1])
BANK: Any = {"type": "mcp", "server_label": "bank", "server_url": "https://x.invalid", "require_approval": "always"}


@function_tool(needs_approval=True)
def refund(order_id: str, cents: int) -> str:
    """Pay back."""
    return f"refunded {order_id} {cents}"


@function_tool
def look(order_id: str) -> str:
    """Look."""
    return f"looked {order_id}"


REFUND = function_call("refund", {"order_id": "7", "cents": 1}, call_id="r1")
LOOK = function_call("look", {"order_id": "7"}, call_id="l1")


def save(name: str, state: Any) -> None:
    (FOLDER / f"{name}.json").write_text(state.to_string())


async def paused(*steps: Any, tools: list[Any], handoffs: list[Any] | None = None, **options: Any) -> Any:
    model = ScriptedModel(steps)
    for each in handoffs or []:
        each.model = model
    for each in tools:
        if getattr(each, "_agent_instance", None) is not None:
            each._agent_instance.model = model
    agent = Agent(name="Support", tools=tools, handoffs=handoffs or [], model=model)
    return await Runner.run(agent, options.pop("given", "Refund 7"), **options)


async def main() -> None:
    result = await paused([REFUND, LOOK], tools=[refund, look], context={"tenant": "t1"})
    save("plain", result.to_state())
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    save("approved", state)
    state = result.to_state()
    state.reject(state.get_interruptions()[0], rejection_message="no way")
    save("rejected", state)
    state = result.to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    save("always", state)
    second = function_call("refund", {"order_id": "8", "cents": 2}, call_id="r2")
    save("second_turn", (await paused([LOOK], [REFUND, second], tools=[refund, look])).to_state())
    billing = Agent(name="Billing", tools=[refund])
    handed = await paused(
        [function_call("transfer_to_billing", {}, call_id="h1")], [REFUND], tools=[], handoffs=[billing]
    )
    save("handed_over", handed.to_state())
    model = ScriptedModel([[function_call("ask_billing", {"input": "refund 7"}, call_id="n1")], [REFUND]])
    inner = Agent(name="Billing", tools=[refund], model=model)
    outer = Agent(name="Support", tools=[inner.as_tool("ask_billing", "Ask")], model=model)
    nested = await Runner.run(outer, "Refund 7")
    save("nested", nested.to_state())
    state = nested.to_state()
    state.approve(state.get_interruptions()[0])
    save("nested_approved", state)
    step = ModelStep([REFUND], response_id="resp_1")
    save("chained", (await paused(step, tools=[refund], previous_response_id="resp_0")).to_state())
    save("conversation", (await paused(step, tools=[refund], conversation_id="conv_1")).to_state())
    save("session", (await paused([REFUND], tools=[refund], session=SQLiteSession("s"))).to_state())
    save("ended", (await paused([assistant_message("done")], tools=[])).to_state())
    request = McpApprovalRequest(
        id="mcpr_1", arguments='{"a":1}', name="pay", server_label="bank", type="mcp_approval_request"
    )
    save("hosted_mcp", (await paused([request], tools=[HostedMCPTool(tool_config=BANK)])).to_state())


asyncio.run(main())
