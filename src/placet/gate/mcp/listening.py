"""A client of today's protocol that listens: one request whose answer is a stream of what changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from placet.gate.mcp.line import Line
from placet.gate.mcp.passing import server_of_resource
from placet.gate.mcp.raw import Params, invalid
from placet.gate.mcp.session import Exchange, Session

BACKLOG = 1000
"""Of a client that reads no more: then its stream ends, and it listens anew."""
MAX_URIS = 1000
_KINDS = {f"notifications/{kind}/list_changed": f"{kind}ListChanged" for kind in ("tools", "prompts", "resources")}


async def listen(exchange: Exchange, session: Session, line: Line) -> dict[str, Any]:
    """Until the client hangs up, or the gateway ends."""
    wanted, uris = _asked_for(exchange.params)
    honored: dict[str, Any] = {kind: True for kind in _KINDS.values() if wanted.get(kind) is True}
    meta = {SUBSCRIPTION_ID_META_KEY: exchange.ctx.request_id}
    heard: asyncio.Queue[tuple[str, Params | None] | None] = asyncio.Queue()

    def hear(method: str, params: Params | None) -> None:
        if _is_wanted(method, params, honored, watched) and heard.qsize() <= BACKLOG:
            heard.put_nowait((method, params) if heard.qsize() < BACKLOG else None)

    watched: list[tuple[str, str]] = []
    session.listeners.append(hear)
    session.on_close.append(lambda: heard.put_nowait(None))
    try:
        for uri in uris:
            watched += await _watched(line, uri, exchange)
        if watched:
            honored["resourceSubscriptions"] = [uri for _, uri in watched]
        told = {"notifications": honored, "_meta": meta}
        await exchange.notify("notifications/subscriptions/acknowledged", told)
        while (news := await heard.get()) is not None:
            method, params = news
            await exchange.notify(method, {**(params or {}), "_meta": {**((params or {}).get("_meta") or {}), **meta}})
    finally:
        session.listeners.remove(hear)
        for server, uri in watched:
            await asyncio.shield(line.unwatch(server, uri, None))
    return {"resultType": "complete", "_meta": meta}


def _asked_for(params: Params) -> tuple[Mapping[str, Any], list[str]]:
    """What the client wants to hear of, and the resources that it wants to be watched."""
    wanted = params.get("notifications")
    if not isinstance(wanted, Mapping):
        raise invalid("What is listened for stands under «notifications».")
    given = wanted.get("resourceSubscriptions") or []
    uris = list(dict.fromkeys(each for each in given if isinstance(each, str))) if isinstance(given, list) else []
    if len(uris) > MAX_URIS:
        raise invalid(f"At most {MAX_URIS} resources are watched with one request.")
    return wanted, uris


async def _watched(line: Line, uri: str, exchange: Exchange) -> list[tuple[str, str]]:
    """The resource's server and address; none, where no server lets it be watched."""
    try:
        server = await server_of_resource(line, uri)
        await line.watch(server, uri, {"uri": uri}, exchange)
    except MCPError as error:
        if error.code in (types.METHOD_NOT_FOUND, types.INVALID_PARAMS):
            return []
        raise
    return [(server, uri)]


def _is_wanted(method: str, params: Params | None, honored: Mapping[str, Any], watched: list[tuple[str, str]]) -> bool:
    if method == "notifications/resources/updated":
        uri = str((params or {}).get("uri"))
        return any(uri == each or uri.startswith(each.rstrip("/") + "/") for _, each in watched)
    return _KINDS.get(method) in honored
