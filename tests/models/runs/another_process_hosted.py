"""Run as a program: a paused run's text and the provider's address on standard input; approves everything, resumes."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from placet import Agent, HostedMCPTool, Runner, RunState
from tests.models.runs.scenes import model_at


def agent_at(url: str) -> tuple[Agent[Any], Any]:
    model, client = model_at("responses", url)
    config = {"type": "mcp", "server_label": "files", "server_url": "https://files.example/mcp"}
    return Agent(name="Clerk", model=model, tools=[HostedMCPTool(config)]), client


async def go_on(order: dict[str, Any]) -> dict[str, Any]:
    agent, client = agent_at(order["url"])
    async with client:
        state: Any = await RunState.from_string(agent, order["text"])
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(agent, state)
        return {"final_output": result.final_output}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(go_on(json.loads(sys.stdin.read())))))
