"""How many files of the package one gated call and one decision over HTTP pass: `python -m tests.bench.walks`.

A file counts when one of its functions runs, imports apart. Both walks are made once before they are counted, so that
what happens once per process (schemas, SQL, routes) does not count.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import placet
from placet import Agent, Runner, function_tool
from placet.testing import ScriptedModel, assistant_message, function_call
from placet.testing.desk_contracts import RunWriter
from tests.support.desk_server import running_desk

PACKAGE = Path(placet.__file__).parent


@contextmanager
def watched() -> Iterator[dict[str, set[str]]]:
    """The files of the package whose functions run here, in all threads, and which functions."""
    passed: dict[str, set[str]] = {}
    prefix = f"{PACKAGE}/"

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and code.co_flags & inspect.CO_OPTIMIZED:
            passed.setdefault(code.co_filename.removeprefix(prefix), set()).add(code.co_qualname)

    threading.setprofile_all_threads(note) if hasattr(threading, "setprofile_all_threads") else threading.setprofile(
        note
    )
    sys.setprofile(note)
    try:
        yield passed
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def gated_call() -> dict[str, set[str]]:
    """From `Runner.run` over a pause and an approval to the final answer."""

    @function_tool(needs_approval=True)
    async def refund(order_id: str, cents: int) -> str:
        """Pay money back."""
        return "paid"

    async def walk() -> None:
        call = function_call("refund", {"order_id": "7", "cents": 4200}, call_id="c1")
        agent = Agent(name="Support", tools=[refund], model=ScriptedModel([[call], [assistant_message("Done.")]]))
        state = (await Runner.run(agent, "Refund order 7.")).to_state()
        state.approve("c1", by="ana")
        await Runner.run(agent, state)

    await walk()
    with watched() as passed:
        await walk()
    return passed


async def decision_over_http() -> dict[str, set[str]]:
    """From the request to `POST /v1/approvals/ID/decisions` to its answer."""
    with tempfile.TemporaryDirectory() as folder:
        async with running_desk(Path(folder), run=False) as server:
            client = await server.person("ana")
            first, second = [(await RunWriter().ask(server.desk.store, "pay"))[0] for _ in range(2)]
            await client.post(f"/v1/approvals/{first}/decisions", json={"decision": "approve"})
            with watched() as passed:
                answer = await client.post(f"/v1/approvals/{second}/decisions", json={"decision": "approve"})
            assert answer.status_code == 200, answer.text
    return passed


async def main() -> None:
    for name, walk in (("A gated call", gated_call), ("A decision over HTTP", decision_over_http)):
        passed = await walk()
        print(f"{name} passes {len(passed)} files:")
        for file in sorted(passed):
            print(f"  {file}  {', '.join(sorted(passed[file]))}")


if __name__ == "__main__":
    asyncio.run(main())
