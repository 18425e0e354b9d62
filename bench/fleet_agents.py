"""What the workers of the fleet's benchmark drive: runs that only answer, and runs whose one call waits for a person.

The effect of that call is a line with the time in a file, which the benchmark compares with the time of the decision.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from placet import Agent, ModelResponse, ToolContext, Usage, function_tool
from placet.ports import ModelRequest, StreamPart
from placet.testing import assistant_message, function_call

EFFECTS = "PLACET_BENCH_EFFECTS"


def note_time(key: str) -> None:
    with Path(os.environ[EFFECTS]).open("a") as file:
        file.write(f"{key} {time.time():.6f}\n")


@function_tool(needs_approval=True)
async def refund(ctx: ToolContext[Any]) -> str:
    note_time(ctx.idempotency_key)
    return "done"


class Answers:
    """Asks for the tools it has, once, and ends."""

    leaves_input_alone = True

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        has_called = any(item.get("type") == "function_call" for item in request.input)
        if request.tools and not has_called:
            return ModelResponse([function_call("refund", {}, call_id="c")], Usage(1), None)
        return ModelResponse([assistant_message("done")], Usage(1), None)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


agents: list[Agent[Any]] = [Agent("Talker", model=Answers()), Agent("Support", tools=[refund], model=Answers())]
