"""What the contracts of stores share: runs that are written fact by fact, and checks of what is refused or comes
soon."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

from placet.core.fold import apply
from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.errors import PlacetError
from placet.facts.ids import mint, request_id
from placet.ports import DeskStore, Lease

E = TypeVar("E", bound=PlacetError)
V = TypeVar("V")

PATIENCE = 90.0
"""Seconds that a check waits for what happens at once, before it gives up."""
TTL = 30.0
"""Seconds that the leases of the checks last: longer than a busy machine stalls."""
SHORT_TTL = 1.5
"""… of the check that sees one renewed."""
SOON = 0.02


class Driver:
    """Stands for a drive: while it lives, its lease does."""


class RunWriter:
    """A run that is written fact by fact, with the fold that stores index from."""

    def __init__(
        self, agent: str = "Clerk", *, session: str | None = None, place: str | None = None, at: float = 1000.0
    ) -> None:
        self.log = Log(mint("run"), os.urandom(16))
        self.run = RunFold()
        self.at = at
        self.agent = agent
        self.session = session
        self.place = place

    @property
    def id(self) -> str:
        return self.log.run_id

    def line(self, *facts: e.AnyFact) -> Line:
        """The next line, with its facts in the fold but not yet in the log."""
        for fact in facts:
            apply(self.run, fact)
        self.at += 1
        return self.log.next_line(self.at, facts)

    async def append(self, store: DeskStore, *facts: e.AnyFact, lease: Lease | None = None) -> None:
        line = self.line(*facts)
        await store.append(lease, self.log, [line], self.run)
        self.log.append(line)

    async def begin(self, store: DeskStore, lease: Lease | None = None) -> None:
        started = e.RunStarted(self.agent, "hello", 10, session=self.session, session_place=self.place)
        await self.append(store, started, lease=lease)

    async def ask(
        self, store: DeskStore, *tools: str, lease: Lease | None = None, expires_at: float | None = None
    ) -> list[str]:
        """Begin, and let the model ask for these tools, all of which wait for a person. The ids of the questions."""
        await self.begin(store, lease)
        output: list[JsonObject] = [
            {"type": "function_call", "name": tool, "arguments": '{"n":1}', "call_id": f"c{index}"}
            for index, tool in enumerate(tools)
        ]
        held = [
            e.CallHeld(f"1.{index}", f"digest {index}", f"function:{tool}", "print", expires_at=expires_at)
            for index, tool in enumerate(tools)
        ]
        answer = e.ResponseReceived(f"response {self.id}", output, e.Usage())
        await self.append(store, e.RequestSent(), answer, *held, lease=lease)
        return [request_id(self.id, f"1.{index}", 1) for index in range(len(tools))]

    def decided(self, call: str = "1.0", verdict: e.Verdict = "approve") -> e.DecisionMade:
        return e.DecisionMade(call, 1, f"digest {call[-1]}", verdict, "ann", self.at, "checked")

    async def decide(self, store: DeskStore, call: str = "1.0", verdict: e.Verdict = "approve") -> None:
        await self.append(store, self.decided(call, verdict))

    def cancelled(self, *calls: str) -> list[e.AnyFact]:
        """What ends a run of which these calls wait."""
        ends: list[e.AnyFact] = [e.CallEnded(call, "cancelled", "no") for call in calls or ("1.0",)]
        return [*ends, e.CancelAsked("ann", self.at), e.RunCancelled()]

    async def end(self, store: DeskStore, lease: Lease | None = None) -> None:
        """End a run that has begun and asked nothing."""
        answer = e.ResponseReceived(None, [{"type": "message", "role": "assistant", "content": "bye"}], e.Usage())
        await self.append(store, e.RequestSent(), answer, e.RunEnded("bye"), lease=lease)


async def within(awaitable: Awaitable[V]) -> V:
    async with asyncio.timeout(PATIENCE):
        return await awaitable


async def refused(kind: type[E], awaitable: Awaitable[object]) -> E:
    """The error that this must end with."""
    try:
        await within(awaitable)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, and nothing was raised")


async def until(condition: Any, seconds: float = PATIENCE) -> None:  # Any: a function of no arguments, async
    give_up = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < give_up, "what was waited for did not happen"
        await asyncio.sleep(SOON)


def a_grant(grant_id: str, uses: int | None = None) -> e.GrantMade:
    return e.GrantMade(grant_id, "Clerk", "function:pay", "print", "approve", "ann", 5.0, scope="agent", uses=uses)


def lines_after(log: Log, count: int) -> list[Line]:
    """The next lines of a log, which itself stays as it is."""
    walker, found = log.copy(), []
    for number in range(count):
        line = walker.next_line(3000.0 + number, [e.TurnLimitSet(number)])
        walker.append(line)
        found.append(line)
    return found
