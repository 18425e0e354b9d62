"""Goes on with a state in a process of its own: `python -m tests.mcp.another_process STATE EFFECTS`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from placet import Runner, RunState
from placet.testing import assistant_message
from tests.mcp.scenes import Effects, agent_with, outputs, stdio_shop


async def main(text: str, effects: str) -> None:
    server = stdio_shop(Effects(Path(effects)), require_approval={"refund": "always"})
    agent = agent_with(server, steps=[[assistant_message("done elsewhere")]])
    state = await RunState.from_string(agent, text)
    result = await Runner.run(agent, state)
    sys.stdout.write(f"{' '.join(outputs(result).values())} | {result.final_output}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text(), sys.argv[2]))
