"""What runs in processes of their own: desks that serve a store, and reviewers who decide."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from placet import Agent, PlacetError, ToolContext, function_tool
from placet.desk import Desk
from placet.facts.ids import key_of_request
from placet.stores.opening import open_store
from placet.testing import function_call
from tests.desk.scenes import Planned, Witness

TTL = 1.0


def crew(witness: Witness) -> Agent[Any]:
    """An agent whose tools recover in each of the ways that there are. The key of a call says which effect it is."""

    async def work(kind: str, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(0.01)
        witness.write(f"{kind} {ctx.idempotency_key}")
        await asyncio.sleep(0.01)
        return kind

    @function_tool(needs_approval=True)
    async def asks(ctx: ToolContext[Any]) -> str:
        return await work("asks", ctx)

    @function_tool
    async def free(ctx: ToolContext[Any]) -> str:
        return await work("free", ctx)

    def call(name: str, label: str) -> Any:
        return function_call(name, {}, call_id=label)

    turns = [[call("asks", "a"), call("free", "b")], [call("asks", "c")], [call("free", "d"), call("free", "e")]]
    return Agent("Crew", tools=[asks, free], model=Planned(*turns))


async def serve(url: str, witness: str) -> None:
    store = open_store(url, lease_ttl=TTL)
    async with Desk(store, agents=[crew(Witness(Path(witness)))]):
        say("serving")
        await asyncio.Event().wait()


async def review(url: str, witness: str) -> None:
    """Approve what is asked. What is in doubt is looked up in the witness: run it again only if it did not happen."""
    seen = Witness(Path(witness))
    async with Desk(open_store(url, lease_ttl=TTL), run=False) as desk:
        while True:
            for asked in await desk.pending():
                try:
                    if asked.kind == "approval":
                        await desk.decide(asked.id, "approve", by="reviewer")
                        continue
                    key = key_of_request(asked.id).partition("#")[0]
                    happened = any(line.endswith(f" {key}") for line in seen.lines())
                    say("doubt", asked.id)
                    await desk.decide(asked.id, "respond" if happened else "approve", by="reviewer", output="known")
                except PlacetError as error:
                    say("refused", type(error).__name__)
            await asyncio.sleep(0.02)


async def decide(url: str, request_id: str, verdict: str, by: str) -> None:
    """Say one word about a request at the moment at which everybody does."""
    async with Desk(url, run=False) as desk:
        await desk.request(request_id)
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        try:
            await desk.decide(request_id, verdict, by=by)  # type: ignore[arg-type]
        except PlacetError as error:
            say("lost", type(error).__name__, error)
        else:
            say("won")


async def follow(url: str) -> None:
    """Tell of everything that happens in the store."""
    async with Desk(url, run=False) as desk:
        seen = await desk.store.latest_sequence()
        say("following")
        async for event in desk.events(after=seen):
            say(event.run_id, event.sequence, type(event.fact).__name__)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run({"serve": serve, "review": review, "decide": decide, "follow": follow}[sys.argv[1]](*sys.argv[2:]))
