"""A call at the gate as an MCP task, in both forms: that of 2025-11-25, and the extension of 2026-07-28.

The task is the call: it is durable before it is announced, it outlives the gateway, and its name is the call's.
Rule of this file: what is answered to a task answers the server's questions. It never decides about the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError

from placet.core.guest import GateCall
from placet.facts.errors import GateError
from placet.gate.mcp import results
from placet.gate.mcp.calls import Pending, now_in_words
from placet.gate.mcp.config import GatewayConfig
from placet.gate.mcp.raw import TASKS, Params, invalid
from placet.gate.mcp.results import link_of
from placet.gate.mcp.session import Exchange

POLL_MS = 3000
_RELATED = "io.modelcontextprotocol/related-task"
_MISSING_CAPABILITY = -32021
METHODS = {
    True: frozenset({"tasks/get", "tasks/update", "tasks/cancel"}),
    False: frozenset({"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"}),
}
"""By whether the client speaks today's protocol."""


def wants_task(exchange: Exchange) -> bool:
    """Whether the request itself asks to be a task, as the older protocol has it."""
    return not exchange.is_modern and isinstance(exchange.params.get("task"), Mapping)


def can_task(exchange: Exchange) -> bool:
    """Whether the client declares today's extension: then the gateway chooses."""
    extensions = exchange.capabilities.get("extensions")
    return exchange.is_modern and isinstance(extensions, Mapping) and TASKS in extensions


def created(config: GatewayConfig, exchange: Exchange, pending: Pending) -> dict[str, Any]:
    task = task_of(config, exchange, pending)
    if exchange.is_modern:
        return {**task, "resultType": "task"}
    said = results.standing(pending.call, link_of(config, pending.call))
    return {"task": task, "_meta": {"io.modelcontextprotocol/model-immediate-response": said}}


def task_of(config: GatewayConfig, exchange: Exchange, pending: Pending) -> dict[str, Any]:
    call, ttl = pending.call, round(config.task_ttl * 1000)
    is_modern = exchange.is_modern
    standing = call.message or f"The call is {call.status.replace('_', ' ')}."
    return {
        "taskId": call.id,
        "status": _status_of(pending, is_modern=is_modern),
        "statusMessage": standing if call.is_over else results.standing(call, link_of(config, call)),
        "createdAt": pending.known_since,
        "lastUpdatedAt": now_in_words(),
        **({"ttlMs": ttl, "pollIntervalMs": POLL_MS} if is_modern else {"ttl": ttl, "pollInterval": POLL_MS}),
    }


def _status_of(pending: Pending, *, is_modern: bool) -> str:
    call = pending.call
    if call.status == "cancelled":
        return "cancelled"
    if call.is_over:
        # In today's form a failed task is an error of the protocol; that a tool failed, or did not run, is a result.
        good = is_modern or _is_good(call)
        return "completed" if good else "failed"
    return "input_required" if pending.inputs.open else "working"


def _is_good(call: GateCall) -> bool:
    return call.status in ("finished", "answered", "released")


class Tasks:
    """The requests `tasks/…`: each about a call of the guest that sends it."""

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config

    async def answer(self, exchange: Exchange, method: str) -> dict[str, Any]:
        self._check(exchange, method)
        calls = exchange.session.calls
        if method == "tasks/list":
            return {"tasks": [task_of(self._config, exchange, each) for each in calls.remembered()]}
        pending = await self._found(exchange, exchange.params)
        match method:
            case "tasks/get":
                return self._shown(exchange, pending)
            case "tasks/result":
                return await self._result(exchange, pending)
            case "tasks/cancel":
                await calls.cancel(pending)
                if exchange.is_modern:
                    return {"resultType": "complete"}
                return {**task_of(self._config, exchange, pending), "status": "cancelled"}
            case _:
                pending.inputs.give(exchange.params.get("inputResponses"))
                return {"resultType": "complete"}

    def _check(self, exchange: Exchange, method: str) -> None:
        if method not in METHODS[exchange.is_modern] or "task" not in self._config.wait:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        if exchange.is_modern and not can_task(exchange):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(_MISSING_CAPABILITY, "Missing required client capability", needed)

    async def _found(self, exchange: Exchange, params: Params) -> Pending:
        name = params.get("taskId")
        if not isinstance(name, str):
            raise invalid("A task is named by its «taskId».")
        try:
            return await exchange.session.calls.find(name)
        except GateError as error:
            raise invalid(f"Unknown task: {name[:100]}") from error

    async def _result(self, exchange: Exchange, pending: Pending) -> dict[str, Any]:
        """As soon as there is one. Meanwhile the client is asked what the server asks."""
        found = results.of_call(pending.call)
        if found is None:
            found = await pending.inputs.next_of(exchange.session.calls.result_of(pending), exchange, None)
        assert found is not None, "a client of the older protocol waits until there is a result"
        return {**found, "_meta": {**(found.get("_meta") or {}), _RELATED: {"taskId": pending.call.id}}}

    def _shown(self, exchange: Exchange, pending: Pending) -> dict[str, Any]:
        pending.inputs.refuse_what(exchange)
        task = task_of(self._config, exchange, pending)
        if not exchange.is_modern:
            return task
        if task["status"] == "input_required":
            task["inputRequests"] = pending.inputs.open
        if task["status"] == "completed":
            task["result"] = {"resultType": "complete", **(results.of_call(pending.call) or {"content": []})}
        return {**task, "resultType": "complete"}
