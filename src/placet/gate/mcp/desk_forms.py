"""What a server asks in the middle of a call, put before people at the desk instead of the client.

An answer in the place of the question is the answer; a rejection declines; anything else cancels.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError

from placet.core.guest import GateCall
from placet.core.json_schema import problem_with_schema, problems
from placet.facts.errors import PlacetError
from placet.facts.ids import mint
from placet.gate.mcp.raw import Params
from placet.gate.port import Gate

CANCELLED: dict[str, Any] = {"action": "cancel"}
DECLINED: dict[str, Any] = {"action": "decline"}


async def asked_at_desk(gate: Gate, server: str, params: Params | None, session: str, seconds: float) -> dict[str, Any]:
    """The result of `elicitation/create`, from a person. Each question that does not fit its form is asked anew."""
    given = params or {}
    schema = given.get("requestedSchema")
    wanted = schema if isinstance(schema, dict) and problem_with_schema(schema) is None else None
    again = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                call = await _decided(gate, server, given, session, again)
                if call.status != "answered":
                    return DECLINED if call.status in ("rejected", "denied") else CANCELLED
                if given.get("mode") == "url":
                    return {"action": "accept"}
                content = _content(call)
                wrong = "an object" if content is None else "; ".join(map(str, problems(wanted or {}, content)))
                if content is not None and not wrong:
                    return {"action": "accept", "content": content}
                again = f"\nThe last answer did not fit: {wrong}"[:1000]
    except TimeoutError:
        return CANCELLED
    except PlacetError as error:
        raise MCPError(types.INTERNAL_ERROR, f"The desk could not be asked: {error}"[:400]) from error


async def _decided(gate: Gate, server: str, given: Params, session: str, again: str) -> GateCall:
    """Asked as a call that never runs. Whoever approves it has answered nothing, so it is withdrawn then."""
    call = await gate.propose(
        f"{server}/asks",
        {key: given[key] for key in ("message", "url", "requestedSchema") if key in given},
        session=session,
        call_id=mint("call"),
        description="The server asks this in the middle of a call. Answer in its place: with JSON that fits the form "
        "(«requestedSchema»), or with any word once you have been at the page. Rejecting declines." + again,
        needs_approval=True,
    )
    try:
        found = await gate.wait(call)
    except asyncio.CancelledError:  # the call is over, or the time is
        with contextlib.suppress(PlacetError):
            await asyncio.shield(gate.withdraw(call))
        raise
    return await gate.withdraw(found) if found.status == "claimable" else found


def _content(call: GateCall) -> dict[str, Any] | None:
    found = call.output
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return None
    return found if isinstance(found, dict) else None
