"""Everything that is no call of a tool: passed through to the server that it is about, or gathered from all."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError

from placet.gate.mcp.catalog import Offer
from placet.gate.mcp.inputs import through_rounds
from placet.gate.mcp.line import Line
from placet.gate.mcp.raw import TASKS, Params, invalid, translated
from placet.gate.mcp.session import Exchange
from placet.gate.mcp.upstream import Upstream


async def pass_on(exchange: Exchange, line: Line, method: str, params: Params | None) -> dict[str, Any]:
    """A server's answer to a request of any method."""
    if method in _LISTS:
        return await listed(exchange, line, method, params)
    match method:
        case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
            return await _about_resource(exchange, line, method, params)
        case "prompts/get":
            offer = await _prompt(line, (params or {}).get("name"))
            return await asked_of(exchange, line, offer.server, method, {**(params or {}), "name": offer.name})
        case "completion/complete":
            return await _complete(exchange, line, params)
        case "logging/setLevel":
            return await _set_level(exchange, line, method, params)
        case "ping":
            return {}
        case _:
            return await _anywhere(exchange, line, method, params)


async def asked_of(exchange: Exchange, line: Line, server: str, method: str, params: Params | None) -> dict[str, Any]:
    async def send(more: dict[str, Any]) -> dict[str, Any]:
        return await line.ask(server, method, {**(params or {}), **more} if more else params, exchange)

    if exchange.is_modern:  # it comes back with answers itself
        result = await send({})
    else:
        result = await through_rounds(send, lambda asked, what: line.answer_of(server, asked, what, exchange))
    spoken = (await line.upstream(server)).version
    return translated(method, result, spoken, exchange.version)


# -- lists ------------------------------------------------------------------------------------------------------------

_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


async def listed(exchange: Exchange, line: Line, method: str, params: Params | None) -> dict[str, Any]:
    """Of one server its own pages; of several all that they have, on one page."""
    kind = _LISTS[method]
    if len(line.servers) == 1 and kind != "tools":
        return await asked_of(exchange, line, next(iter(line.servers)), method, params)
    if (params or {}).get("cursor") is not None:
        raise invalid("Everything stands on one page here: there is no such cursor.")
    catalog = await line.catalog(kind, fresh=True)
    offers = [offer.as_shown() if kind in ("tools", "prompts") else offer.raw for offer in catalog.by_name.values()]
    result: dict[str, Any] = {kind: offers}
    if exchange.session.is_modern:
        result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return result


# -- one server's -----------------------------------------------------------------------------------------------------


async def _prompt(line: Line, name: object) -> Offer:
    if len(line.servers) == 1:
        return Offer(server=next(iter(line.servers)), name=str(name), shown=str(name), raw={})
    found = (await line.catalog("prompts")).by_name.get(str(name))
    if found is None:
        raise invalid(f"Unknown prompt: {str(name)[:100]}")
    return found


async def _about_resource(exchange: Exchange, line: Line, method: str, params: Params | None) -> dict[str, Any]:
    uri = (params or {}).get("uri")
    server = await server_of_resource(line, uri)
    if method == "resources/subscribe":
        return await line.watch(server, str(uri), params or {}, exchange)
    if method == "resources/unsubscribe":
        return await line.unwatch(server, str(uri), exchange)
    return await asked_of(exchange, line, server, method, params)


async def server_of_resource(line: Line, uri: object) -> str:
    """Whose resource it is: whoever lists it, or has a template that fits, or alone has resources."""
    names = list(line.servers)
    if len(names) == 1:
        return names[0]
    for offer in (await line.catalog("resources")).by_name.values():
        if offer.raw.get("uri") == uri:
            return offer.server
    for offer in (await line.catalog("resourceTemplates")).by_name.values():
        if isinstance(uri, str) and fits_template(str(offer.raw.get("uriTemplate")), uri):
            return offer.server
    having = [each.name for each in line.reached() if "resources" in each.capabilities]
    if len(having) == 1:
        return having[0]
    raise MCPError(types.INVALID_PARAMS, f"Unknown resource: {str(uri)[:200]}", {"uri": str(uri)[:200]})


def fits_template(template: str, uri: str) -> bool:
    """Whether a URI may have come of a template: what stands between its variables is there, in order."""
    parts = re.split(r"\{[^{}]*\}", template)
    return re.fullmatch(".*".join(re.escape(part) for part in parts), uri, re.DOTALL) is not None


async def _complete(exchange: Exchange, line: Line, params: Params | None) -> dict[str, Any]:
    given = dict(params or {})
    ref = given.get("ref")
    if not isinstance(ref, Mapping):
        raise invalid("A completion is about a prompt or a resource: it has a «ref».")
    if ref.get("type") == "ref/prompt":
        offer = await _prompt(line, ref.get("name"))
        given["ref"] = {**ref, "name": offer.name}
        server = offer.server
    else:
        server = await _server_of_template(line, ref.get("uri"))
    return await asked_of(exchange, line, server, "completion/complete", given)


async def _server_of_template(line: Line, uri: object) -> str:
    if len(line.servers) > 1:
        for offer in (await line.catalog("resourceTemplates")).by_name.values():
            if offer.raw.get("uriTemplate") == uri:
                return offer.server
    return await server_of_resource(line, uri)


# -- all servers ------------------------------------------------------------------------------------------------------


async def _set_level(exchange: Exchange, line: Line, method: str, params: Params | None) -> dict[str, Any]:
    line.log_level = str((params or {}).get("level"))
    reached = [each for each in line.reached() if "logging" in each.capabilities]
    having = [each for each in reached if not each.is_modern]
    if reached and not having:
        return {}  # those of today's protocol are told with each request
    if not having:
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
    found = await asyncio.gather(
        *(line.ask(each.name, method, params, exchange) for each in having), return_exceptions=True
    )
    good = [each for each in found if isinstance(each, dict)]
    if not good:
        raise next(each for each in found if isinstance(each, BaseException))
    return good[0]


async def _anywhere(exchange: Exchange, line: Line, method: str, params: Params | None) -> dict[str, Any]:
    """A method that is not known here: of an extension, perhaps. One server knows it, or none does."""
    for upstream in line.reached():
        try:
            return await asked_of(exchange, line, upstream.name, method, params)
        except MCPError as error:
            if error.code != types.METHOD_NOT_FOUND:
                raise
    raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)


# -- what all of them can ---------------------------------------------------------------------------------------------


def merged_capabilities(upstreams: list[Upstream]) -> dict[str, Any]:
    """What the client is told that can be done: whatever any of the servers can. Tasks are the gateway's own."""
    found: dict[str, Any] = {}
    for upstream in upstreams:
        for name, settings in upstream.capabilities.items():
            if name == "tasks":
                continue
            known = found.get(name)
            if isinstance(known, dict) and isinstance(settings, Mapping):
                found[name] = {**known, **{key: value for key, value in settings.items() if not known.get(key)}}
            else:
                found[name] = dict(settings) if isinstance(settings, Mapping) else settings
    extensions = found.get("extensions")
    if isinstance(extensions, dict):
        extensions.pop(TASKS, None)
    return found


def merged_instructions(upstreams: list[Upstream]) -> str | None:
    told = [(each.name, each.instructions) for each in upstreams if each.instructions]
    if len(told) < 2:
        return told[0][1] if told else None
    return "\n\n".join(f"# {name}\n{text}" for name, text in told)
