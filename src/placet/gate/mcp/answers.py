"""How a client waits for a person: as a task, at the card, with the call held open, or with a handle to ask again with.

Rule of this file: nothing that a client says here decides anything. An accepted elicitation means that somebody went to
the card, and a handle is a name: whoever uses it is checked at the gate.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from mcp.shared.exceptions import MCPError

from placet.core.guest import GateCall
from placet.facts.errors import CallNotFound, GateError
from placet.gate.mcp import results
from placet.gate.mcp.calls import Calls, Pending
from placet.gate.mcp.config import GatewayConfig
from placet.gate.mcp.raw import invalid
from placet.gate.mcp.results import link_of
from placet.gate.mcp.session import Exchange
from placet.gate.mcp.tasks import can_task, created, wants_task

logger = logging.getLogger("placet.gate.mcp")

CHECK = "placet_check"
MAX_WAIT = 45.0
"""Seconds that one `placet_check` waits at most: many clients give up after a minute."""
Done: TypeAlias = asyncio.Future[dict[str, Any]]
STATE = "placet:"
"""With this begins the state that a client of today's protocol brings back."""

CHECK_TOOL: dict[str, Any] = {
    "name": CHECK,
    "title": "Look at calls that wait for a person",
    "description": (
        "Some tools here run only when a person has approved the call. Their first answer then says that a person is "
        "asked, and gives a handle. Give the handle to this tool to learn what came of it: the call's own result, once "
        "it ran, or why it did not run. Without a handle it lists the calls that were made lately. It decides nothing."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "As the answer of the call gave it."},
            "wait_seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": MAX_WAIT,
                "default": 20,
                "description": "How long to wait for news.",
            },
        },
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


class Pulse:
    """One timer for all calls that are held open: it tells their clients that they are still waited for."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._held: dict[Exchange, Pending] = {}
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def holding(self, exchange: Exchange, pending: Pending) -> Iterator[None]:
        self._held[exchange] = pending
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            self._held.pop(exchange, None)

    async def _beat(self) -> None:
        number = 0
        while self._held:
            number += 1
            for exchange, pending in list(self._held.items()):
                if pending.task is None:  # from the claim on, the server tells of its progress itself
                    # The handle, since the client may lose its call; a number below whatever the server will say.
                    standing = f"{results.standing(pending.call, None)} (handle {pending.call.id})"
                    await exchange.progress(number * 1e-6, standing)
            await asyncio.sleep(self._every)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class Answers:
    """The answer to a call that was proposed, in the best way that its client declares."""

    def __init__(self, config: GatewayConfig, pulse: Pulse) -> None:
        self._config = config
        self._pulse = pulse

    async def answer(self, exchange: Exchange, pending: Pending) -> dict[str, Any]:
        calls = exchange.session.calls
        if wants_task(exchange):
            calls.start(pending)
            return created(self._config, exchange, pending)
        if pending.call.status == "claimable" or pending.call.is_over:
            done = calls.result_of(pending)
            calls.start(pending)
            return await self._outcome(exchange, pending, done, None)
        can = [way for way in self._config.wait if _CAN[way](exchange)]
        if "task" in can and exchange.session.is_modern:
            calls.start(pending)
            return created(self._config, exchange, pending)
        done = calls.result_of(pending)
        calls.start(pending)
        if "url" in can and link_of(self._config, pending.call):
            return await self._at_the_card(exchange, pending, done)
        if "open" in can or not can:
            return await self._held_open(exchange, pending, done)
        return await self._outcome(exchange, pending, done, self._config.hold)

    async def _held_open(self, exchange: Exchange, pending: Pending, done: Done) -> dict[str, Any]:
        with self._pulse.holding(exchange, pending):
            return await self._outcome(exchange, pending, done, None)

    async def _outcome(self, exchange: Exchange, pending: Pending, done: Done, seconds: float | None) -> dict[str, Any]:
        """What the call came to, or what its server asks the client, or how it stands when the time is over."""
        found = await pending.inputs.next_of(done, exchange, seconds)
        if found is not None:
            return found
        wanted = pending.inputs.open
        return _input_required(pending, wanted) if wanted and exchange.is_modern else self.told(pending)

    def told(self, pending: Pending) -> dict[str, Any]:
        """An ordinary result that says how the call stands, with the handle."""
        call, link = pending.call, link_of(self._config, pending.call)
        text = (
            f"{results.standing(call, link)}\nHandle: {call.id}\n"
            f"Call the tool {CHECK} with this handle for the result. Do not call '{call.tool.partition('/')[2]}' again "
            "for it: that would be another call, about which a person is asked again."
        )
        # A tool with an output schema owes a structured result, which there is none of yet.
        owes = bool(pending.tool and (pending.tool.raw or {}).get("outputSchema"))
        meta = {"handle": call.id, "status": call.status} | ({"link": link} if link else {})
        return results.text_result(text, is_error=owes, **meta)

    # -- at the card --------------------------------------------------------------------------------------------------

    async def _at_the_card(self, exchange: Exchange, pending: Pending, done: Done) -> dict[str, Any]:
        asked = self._elicitation(pending.call)
        if exchange.is_modern:  # go to the card, and come back with the state
            return _input_required(pending, {"placet": {"method": "elicitation/create", "params": asked}})
        try:
            await exchange.ask("elicitation/create", asked)  # whatever comes of it: it is no decision
        except MCPError as error:
            logger.info("not elicited", extra={"action": "mcp_not_elicited", "error": error.message})
        if _may_stay_open(exchange):
            return await self._held_open(exchange, pending, done)
        return await self._outcome(exchange, pending, done, self._config.hold)

    def _elicitation(self, call: GateCall) -> dict[str, Any]:
        return {
            "mode": "url",
            "message": f"'{call.tool}' waits for a person's decision. Look at the call and decide there.",
            "url": link_of(self._config, call) or "",
            "elicitationId": call.id,
        }

    async def come_back(self, exchange: Exchange, state: str) -> dict[str, Any]:
        """A client comes back: from the card, which is no decision, or with answers to what the server asked."""
        calls = exchange.session.calls
        try:
            pending = await calls.find(state.removeprefix(STATE))
        except GateError as error:
            raise invalid("There is no such call of yours: call the tool again without the state.") from error
        if pending.tool is not None and pending.tool.raw is not None:
            shown, given = pending.tool.raw.get("name"), str(exchange.params.get("name"))
            if not given.endswith(str(shown)):
                raise invalid("This state is another tool's.")
        answers = exchange.params.get("inputResponses")
        is_answered = bool(pending.inputs.open)
        pending.inputs.give(answers)
        done = calls.result_of(pending)
        if is_answered or pending.task is not None:
            return await self._outcome(exchange, pending, done, None)
        if "open" in self._config.wait and _may_stay_open(exchange):
            return await self._held_open(exchange, pending, done)
        return await self._outcome(exchange, pending, done, max(self._config.hold, 1.0))

    # -- by handle ----------------------------------------------------------------------------------------------------

    async def check(self, exchange: Exchange, arguments: Mapping[str, Any]) -> dict[str, Any]:
        calls = exchange.session.calls
        handle, wait = arguments.get("handle"), arguments.get("wait_seconds", 20)
        if handle is None:
            return self._overview(calls)
        if not isinstance(handle, str) or isinstance(wait, bool) or not isinstance(wait, int | float):
            return results.refusal("The handle is a text, and wait_seconds a number.")
        try:
            pending = await calls.find(handle.strip())
        except GateError as error:
            words = "There is no such call of yours." if isinstance(error, CallNotFound) else str(error)
            return results.refusal(words)
        pending.inputs.give(exchange.params.get("inputResponses"))
        found = results.of_call(pending.call)
        if found is not None:
            return found
        done = calls.result_of(pending)
        with self._pulse.holding(exchange, pending):
            return await self._outcome(exchange, pending, done, max(0.0, min(float(wait), MAX_WAIT)))

    def _overview(self, calls: Calls) -> dict[str, Any]:
        known = [each.call for each in calls.remembered()][-30:]
        lines = [f"{call.id}  {call.tool}  {call.status.replace('_', ' ')}" for call in reversed(known)]
        return results.text_result("\n".join(lines) or "No calls are known of this gateway's time.")


def _input_required(pending: Pending, wanted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """For clients of today's protocol, which are asked nothing: they come back with answers, and with this state."""
    return {
        "resultType": "input_required",
        "inputRequests": wanted,
        "requestState": f"{STATE}{pending.call.id}",
    }


# -- what a client can ------------------------------------------------------------------------------------------------


def _can_url(exchange: Exchange) -> bool:
    elicitation = exchange.capabilities.get("elicitation")
    return isinstance(elicitation, Mapping) and isinstance(elicitation.get("url"), Mapping)


def _may_stay_open(exchange: Exchange) -> bool:
    """A client that wants to hear of progress waits as long as it hears of some."""
    return exchange.progress_token is not None


def _always(_exchange: Exchange) -> bool:
    return True


_CAN = {"task": can_task, "url": _can_url, "open": _may_stay_open, "handle": _always}
