"""Calls of one guest: proposed, waited for, claimed, forwarded once, reported.

Rule of this file: nothing is sent to a server but under a permit, with the permit's arguments, by `_forward`. Whoever
asked for the call may come and go; a call that was approved is executed once, and its outcome is kept at the gate.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError

from placet.core.guest import GateCall, Permit
from placet.facts.errors import (
    CallClaimed,
    CallNotClaimable,
    GateError,
    PlacetError,
    ToolOutcomeUnknown,
    TooManyWaiting,
    UserError,
)
from placet.facts.ids import mint
from placet.gate.hosting import Bubbled
from placet.gate.mcp import results
from placet.gate.mcp.asking import Tool, Verdict
from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.inputs import Inputs, through_rounds
from placet.gate.mcp.line import Line
from placet.gate.mcp.pins import fingerprint
from placet.gate.mcp.waiting import Waiting
from placet.gate.port import Gate
from placet.mcp.calling import fate_of

logger = logging.getLogger("placet.gate.mcp")

KEY = "placet/idempotency-key"
"""In the `_meta` of a forwarded call: the same for every attempt, so a server that heeds it does nothing twice."""
TRIES = 3
REMEMBERED = 200
"""Calls of this process of which `placet_check` tells without a handle."""


def now_in_words() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Pending(msgspec.Struct, eq=False):
    """A call between its proposal and its end, as long as this process knows of it."""

    call: GateCall
    tool: Tool | None
    """None: it was proposed by a process that is gone."""
    inputs: Inputs
    """What its server asks meanwhile."""
    line: Line | None = None
    """The session that asked for it, while it is open."""
    meta: dict[str, Any] | None = None
    done: asyncio.Future[dict[str, Any]] | None = None
    """Made for whoever waits for the result in this process."""
    task: asyncio.Task[None] | None = None
    """Executes it, from the claim on."""
    asks: bool = True
    known_since: str = msgspec.field(default_factory=now_in_words)


Elsewhere = Callable[[], Awaitable[Line]]
"""A line to the servers for calls whose session is gone."""


class Calls:
    """All calls of one guest through this gateway."""

    def __init__(self, gate: Gate, elsewhere: Elsewhere, servers: Mapping[str, ServerConfig]) -> None:
        self.gate = gate
        self._elsewhere = elsewhere
        self._servers = servers
        self._known: dict[str, Pending] = {}
        self._waiting = Waiting(gate, self._on_settled)

    # -- proposing ----------------------------------------------------------------------------------------------------

    async def propose(
        self, tool: Tool, arguments: dict[str, Any], verdict: Verdict, *, session: str, context: str, **more: Any
    ) -> Pending:
        """A call of its own, whatever the client's request was numbered: those numbers come again. Any: the keywords
        of `Gate.propose`. UserError and its kind for what can be no call."""
        reasons = "\n".join(verdict.reasons)
        call = await self.gate.propose(
            tool.gate_name,
            arguments,
            session=session,
            call_id=_named_after(tool),
            schema=tool.schema,
            description=tool.description[:4000] or None,
            context=f"{context}\n{reasons}".strip()[:7500] or None,
            needs_approval=verdict.asks,
            **more,
        )
        pending = Pending(call=call, tool=tool, inputs=self._inputs(tool.server), asks=verdict.asks)
        self._remember(pending)
        return pending

    def _inputs(self, server: str) -> Inputs:
        config = self._servers.get(server)
        return Inputs(config.answer_within if config is not None else 0.0)

    def _remember(self, pending: Pending) -> None:
        self._known[pending.call.id] = pending
        if len(self._known) > REMEMBERED:
            over = [name for name, each in self._known.items() if each.call.is_over]
            for name in over[: len(self._known) - REMEMBERED]:
                del self._known[name]

    def start(self, pending: Pending) -> None:
        """Execute it when it may be; from here on it needs nobody who waits for it."""
        if pending.call.status == "claimable":
            self._begin(pending)
        elif pending.call.is_over:
            self._end(pending)
        else:
            self._waiting.add(pending.call.id)

    def result_of(self, pending: Pending) -> asyncio.Future[dict[str, Any]]:
        """What the call comes to. Many may wait for it; that one of them goes is nothing to the call."""
        if pending.done is None:
            pending.done = asyncio.get_running_loop().create_future()
            if pending.call.is_over:
                self._end(pending)
        return pending.done

    async def find(self, handle: str) -> Pending:
        """A call by its handle, as it stands now: also one of a process that is gone. CallNotFound for what is no call
        of this guest: a handle is a name, not a right."""
        call = await self.gate.look(handle)
        pending = self._known.get(call.id)
        if pending is None:
            pending = Pending(call=call, tool=None, inputs=self._inputs(call.tool.partition("/")[0]))
            self._remember(pending)
            self.start(pending)
        elif pending.task is None:
            pending.call = call
            if not call.is_over:
                self.start(pending)
        return pending

    def remembered(self) -> list[Pending]:
        return list(self._known.values())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def cancel(self, pending: Pending) -> None:
        """Before the claim the question is withdrawn; after it, the server is told."""
        if pending.task is not None:
            pending.task.cancel()
            return
        pending.call = await self.gate.withdraw(pending.call)
        if pending.call.is_over:
            self._waiting.discard(pending.call.id)
            self._end(pending)

    def leave(self, line: Line) -> None:
        """A session is over: its questions stay."""
        for pending in self._known.values():
            if pending.line is line and pending.task is None:
                pending.line = None

    def busy(self, line: Line | None = None) -> list[asyncio.Task[None]]:
        return [
            each.task
            for each in self._known.values()
            if each.task is not None and not each.task.done() and (line is None or each.line is line)
        ]

    async def close(self, grace: float) -> None:
        """What has been sent gets some time; then it is unknown what became of it, and people are asked."""
        await self._waiting.close()
        tasks = self.busy()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- executing ----------------------------------------------------------------------------------------------------

    def _on_settled(self, call: GateCall) -> None:
        pending = self._known.get(call.id)
        if pending is None:
            return
        pending.call = call
        if call.status == "claimable":
            self._begin(pending)
        else:
            self._end(pending)

    def _begin(self, pending: Pending) -> None:
        if pending.task is None:
            pending.task = asyncio.create_task(self._run(pending))

    async def _run(self, pending: Pending) -> None:
        try:
            result = await self._claimed(pending)
        except MCPError as error:
            self._settle(pending, error)
        except (PlacetError, asyncio.CancelledError) as error:
            self._settle(pending, results.refusal(str(error) or "The call was broken off."))
            if isinstance(error, asyncio.CancelledError):
                raise
        except Exception as error:  # a bug of ours: whoever waits is told, and the call is in doubt at the gate
            logger.exception("call failed", extra={"action": "mcp_call_failed", "call_id": pending.call.id})
            self._settle(pending, results.refusal(f"The gateway failed: {type(error).__name__}."))
        else:
            if result is not None:
                self._settle(pending, result)
        finally:
            pending.task = None
            with contextlib.suppress(PlacetError, asyncio.CancelledError):
                pending.call = await self.gate.look(pending.call)
            if not pending.call.is_over:
                if pending.done is not None and pending.done.done():
                    pending.done = None  # whoever waited has been told; who asks from now on waits anew
                self.start(pending)

    async def _claimed(self, pending: Pending) -> dict[str, Any] | None:
        """The result; None where the call waits again."""
        server, _, name = pending.call.tool.partition("/")
        line = pending.line or await self._elsewhere()
        if server not in line.servers:
            return results.refusal(f"There is no server '{server}' behind this gateway any more: the call did not run.")
        stale = await self._changed(pending, line, server, name)
        if stale is not None:
            await self.gate.withdraw(pending.call)
            return results.refusal(stale)
        try:
            permit = await self.gate.claim(pending.call, lease=line.servers[server].lease)
        except (CallNotClaimable, CallClaimed):  # held back, revoked, or of another process: see how it stands
            pending.call = await self.gate.look(pending.call)
            return results.of_call(pending.call)
        return await self._executed(pending, permit, line, server, name)

    async def _changed(self, pending: Pending, line: Line, server: str, name: str) -> str | None:
        """Why it must not run although it was approved: the tool is not the one that was looked at."""
        _, _, seen = pending.call.call_id.partition(".")
        if not seen:
            return None
        offer = (await line.catalog("tools")).of(server, name)
        if offer is not None and fingerprint(offer.raw) == seen:
            return None
        return (
            f"'{pending.call.tool}' has changed or gone since the call was proposed: it did not run. Call it again, "
            "and a person is asked about it as it is now."
        )

    async def _executed(self, pending: Pending, permit: Permit, line: Line, server: str, name: str) -> dict[str, Any]:
        try:
            async with self.gate.executing(permit):
                try:
                    result = await self._forward(pending, permit, line, server, name)
                except MCPError as error:
                    if fate_of(error) != "unknown":
                        permit.output = results.kept_error(error.code, error.message, error.data)
                        raise _Refused(error) from error
                    raise Bubbled(error) from error
                except asyncio.CancelledError:
                    if pending.asks:
                        raise
                    raise _BrokenOff from None
                permit.output = results.kept(result)
                if result.get("isError") is True:
                    raise _Failed(result)  # reported as failed, with what the server said
        except Bubbled as unknown:
            raise ToolOutcomeUnknown(
                f"It is unknown whether '{pending.call.tool}' happened: the connection to its server broke while it "
                f"ran. A person is asked. Do not call it again; placet_check with the handle {pending.call.id} tells "
                "what they say."
            ) from unknown.signal
        except _Failed as failed:
            result = failed.result
        except _Refused as refused:
            raise refused.error from None
        return results.edited(result, permit.arguments) if permit.call.is_edited else result

    async def _forward(self, pending: Pending, permit: Permit, line: Line, server: str, name: str) -> dict[str, Any]:
        """Send it: once, but for what certainly did not leave, and for servers where repeating is said to be safe."""
        meta = {**(pending.meta or {}), KEY: permit.idempotency_key}
        params = {"name": name, "arguments": permit.arguments, "_meta": meta}
        config, inputs = line.servers[server], pending.inputs

        async def send(more: dict[str, Any]) -> dict[str, Any]:
            return await line.ask(server, "tools/call", {**params, **more}, inputs, timeout=config.timeout, tries=TRIES)

        for left in range(TRIES - 1, -1, -1):
            try:
                return await through_rounds(send, lambda method, what: line.answer_of(server, method, what, inputs))
            except MCPError as error:
                if not (left and config.recovery == "retry" and fate_of(error) == "unknown"):
                    raise
        raise AssertionError("the last try returns or raises")

    # -- telling ------------------------------------------------------------------------------------------------------

    def _end(self, pending: Pending) -> None:
        result = results.of_call(pending.call)
        if result is None:
            result = results.refusal(results.standing(pending.call, None))
        self._settle(pending, result)

    def _settle(self, pending: Pending, outcome: dict[str, Any] | MCPError) -> None:
        if pending.done is None or pending.done.done():
            return
        if isinstance(outcome, MCPError):
            pending.done.set_exception(outcome)
            pending.done.exception()  # whoever waited may be gone: that is no error of ours
        else:
            pending.done.set_result(outcome)


def _named_after(tool: Tool) -> str:
    """A new call's id, which carries what the tool was: another process, too, sees then that it has changed."""
    return mint("call") + (f".{fingerprint(tool.raw)}" if tool.raw is not None else "")


class _Failed(Exception):  # no error: what a server said
    """The server says that its tool failed. Reported as such; the client reads the server's words."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("the server says that it failed")
        self.result = result


class _Refused(Exception):  # as above
    def __init__(self, error: MCPError) -> None:
        super().__init__(error.message)
        self.error = error


class _BrokenOff(Exception):  # as above
    """The client broke off a call about which nobody was asked: nobody is asked about its outcome either."""


def why_no_call(error: Exception) -> dict[str, Any] | None:
    """What the model reads about a call that could not be proposed; None for an error of another kind."""
    if isinstance(error, TooManyWaiting | GateError | UserError):
        return results.refusal(f"The call did not run: {error}")
    return None
