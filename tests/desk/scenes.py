"""What the tests of the desk share: agents whose models and witnesses survive the process, and paused runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from placet import Agent, FunctionTool, ModelResponse, ToolContext, Usage, function_tool
from placet.core.log import read_line
from placet.desk import Desk, DeskRequest, DeskRun
from placet.facts.codec import JsonObject
from placet.facts.events import CallEnded
from placet.ports import ModelRequest, StreamPart
from placet.testing import assistant_message, function_call

PATIENCE = 90.0


class Planned:
    """A model without a memory: which answer comes next is told by how many calls the history holds."""

    def __init__(self, *turns: Sequence[JsonObject], says: str = "done") -> None:
        self._turns = turns
        self._says = says
        self.inputs: list[list[JsonObject]] = []

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        self.inputs.append(request.input)
        made = sum(item.get("type") == "function_call" for item in request.input)
        for turn in self._turns:
            if made == 0:
                return ModelResponse(list(turn), Usage(1), None)
            made -= len(turn)
        return ModelResponse([assistant_message(self._says)], Usage(1), None)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


class Witness:
    """A file outside of everything that Placet keeps: what happened, happened here."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, line: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def refund(self, **options: Any) -> FunctionTool:
        @function_tool(name_override="refund", **({"needs_approval": True} | options))
        async def refund(ctx: ToolContext[Any], order: int) -> str:
            self.write(f"refund {order}")
            return f"refunded {order}"

        return refund


def refunds(*orders: int) -> list[JsonObject]:
    return [function_call("refund", {"order": order}, call_id=f"c{order}") for order in orders]


def support(witness: Witness, *turns: Sequence[JsonObject], **options: Any) -> Agent[Any]:
    return Agent("Support", tools=[witness.refund(**options)], model=Planned(*(turns or (refunds(7),))))


@asynccontextmanager
async def paused(desk: Desk, agent: str = "Support", **options: Any) -> AsyncIterator[tuple[DeskRun, DeskRequest]]:
    """A run that waits, and the first thing that it asks."""
    async with desk:
        run = await desk.start(agent, "Refund order 7", **options)
        run = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        asked = await desk.pending(run_id=run.id)
        yield run, asked[0]


async def outputs(desk: Desk, run_id: str) -> list[object]:
    """What the calls of a run gave to the model, in the order in which they ended."""
    stored = await desk.store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    facts = [fact for line in stored.log.lines for fact in read_line(line).facts]
    return [fact.output for fact in facts if isinstance(fact, CallEnded)]
