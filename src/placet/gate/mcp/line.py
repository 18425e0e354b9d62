"""The servers as one client's session has them: connected when needed, listed, and heard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from mcp import types
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import LOG_LEVEL_META_KEY

from placet.facts.errors import UserError
from placet.gate.mcp.catalog import Catalog, catalog_of, resources_of
from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.raw import Params, is_modern
from placet.gate.mcp.upstream import Greeting, Upstream
from placet.mcp.calling import NOT_SENT, fate_of

logger = logging.getLogger("placet.gate.mcp")

MAX_PAGES = 1000
LISTS = {
    "tools": ("tools/list", "notifications/tools/list_changed"),
    "prompts": ("prompts/list", "notifications/prompts/list_changed"),
    "resources": ("resources/list", "notifications/resources/list_changed"),
    "resourceTemplates": ("resources/templates/list", "notifications/resources/list_changed"),
}
"""What is listed: under which key, by which method, and which notification says that it changed."""
_ADDRESSES = {"resources": "uri", "resourceTemplates": "uriTemplate"}
_OFFERED_BY = {"resourceTemplates": "resources"}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class Back(Protocol):
    """The way to whoever sent a request, while it is being answered."""

    async def notify(self, method: str, params: Params | None) -> None: ...

    async def ask(self, method: str, params: Params | None) -> dict[str, Any]: ...


class Client(Protocol):
    """The client behind a line, for what belongs to no request of it."""

    async def tell(self, method: str, params: Params | None) -> None: ...

    async def ask(self, server: str, method: str, params: Params | None) -> dict[str, Any]: ...

    async def ask_desk(self, server: str, params: Params | None, seconds: float) -> dict[str, Any]: ...


class Line:
    """Open until `close()`. A server that cannot be reached hinders none of the others."""

    def __init__(
        self, servers: Mapping[str, ServerConfig], greeting: Greeting, client: Client, reserved: tuple[str, ...] = ()
    ) -> None:
        self.servers = servers
        self._greeting = greeting
        self._client = client
        self._reserved = reserved
        self._upstreams: dict[str, Upstream] = {}
        self._locks = {name: asyncio.Lock() for name in servers}
        self._listed: dict[str, dict[str, list[dict[str, Any]]]] = {kind: {} for kind in LISTS}
        self._catalogs: dict[str, Catalog] = {}
        self._backs: dict[str, list[Back]] = {name: [] for name in servers}
        self._tokens: dict[str, tuple[Back, object]] = {}
        self._next_token = 0
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._watched: dict[str, Counter[str]] = {name: Counter() for name in servers}
        self.log_level: str | None = None
        """As the client of an older protocol set it."""
        self._is_closed = False

    # -- connecting ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect all that can be connected."""
        await asyncio.gather(*(self._opened(name) for name in self.servers))

    async def _opened(self, name: str) -> Upstream | None:
        try:
            return await self.upstream(name)
        except (MCPError, UserError) as error:
            logger.warning("no server", extra={"action": "mcp_no_server", "server": name, "error": str(error)})
            return None

    def reached(self) -> list[Upstream]:
        """The servers that answer at this moment."""
        return [each for name in self.servers if (each := self._upstreams.get(name)) is not None and each.is_open]

    async def upstream(self, name: str) -> Upstream:
        """The server, connected: anew, if it went away."""
        async with self._locks[name]:
            found = self._upstreams.get(name)
            if found is not None and found.is_open:
                return found
            if self._is_closed:
                raise MCPError(NOT_SENT, "The session is over.")
            self._forget(name)
            opened = Upstream(name, self.servers[name], self._greeting, self)
            await opened.open()
            self._upstreams[name] = opened
            await self._restore(opened)
            return opened

    async def _restore(self, upstream: Upstream) -> None:
        """What a server that was started anew does not know: which resources are watched, and the level of its log."""
        if upstream.is_modern:
            self._listening[upstream.name] = asyncio.create_task(self._listen(upstream))
            return
        asked: list[tuple[str, dict[str, Any]]] = [
            ("resources/subscribe", {"uri": uri}) for uri in self._watched[upstream.name]
        ]
        if self.log_level is not None and "logging" in upstream.capabilities:
            asked.append(("logging/setLevel", {"level": self.log_level}))
        for method, params in asked:
            with contextlib.suppress(MCPError):
                await upstream.request(method, params, timeout=upstream.config.connect_timeout)

    def _forget(self, name: str) -> None:
        for kind in LISTS:
            self._listed[kind].pop(name, None)
        self._catalogs.clear()
        listening = self._listening.pop(name, None)
        if listening is not None:
            listening.cancel()

    async def close(self) -> None:
        self._is_closed = True
        for task in self._listening.values():
            task.cancel()
        await asyncio.gather(*self._listening.values(), return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self._upstreams.values()), return_exceptions=True)

    # -- listing ------------------------------------------------------------------------------------------------------

    async def catalog(self, kind: str, *, fresh: bool = False) -> Catalog:
        """What all servers list of a kind. What has not changed is not asked for again, unless it shall be fresh."""
        names = [name for name in self.servers if fresh or name not in self._listed[kind]]
        if names or kind not in self._catalogs:
            await asyncio.gather(*(self._list(name, kind) for name in names))
            reserved = self._reserved if kind == "tools" else ()
            listed = {name: self._listed[kind][name] for name in self.servers if name in self._listed[kind]}
            address = _ADDRESSES.get(kind)
            self._catalogs[kind] = catalog_of(listed, reserved) if address is None else resources_of(listed, address)
        return self._catalogs[kind]

    async def _list(self, name: str, kind: str) -> None:
        try:
            upstream = await self.upstream(name)
            if _OFFERED_BY.get(kind, kind) not in upstream.capabilities:
                self._listed[kind][name] = []
                return
            found = await self._pages(upstream, kind)
        except (MCPError, UserError) as error:
            self._listed[kind].pop(name, None)
            self._catalogs.pop(kind, None)
            told = {"action": "mcp_not_listed", "server": name, "kind": kind, "error": str(error)}
            logger.warning("not listed", extra=told)
            if len(self.servers) == 1:
                raise
            return
        self._listed[kind][name] = found
        if kind == "tools":
            upstream.know_tools(found)

    async def _pages(self, upstream: Upstream, kind: str) -> list[dict[str, Any]]:
        method, _ = LISTS[kind]
        found: list[dict[str, Any]] = []
        cursor: object = None
        for _ in range(MAX_PAGES):
            params = {} if cursor is None else {"cursor": cursor}
            page = await upstream.request(method, params, timeout=upstream.config.connect_timeout)
            found += [each for each in page.get(kind) or [] if isinstance(each, dict)]
            if len(found) > upstream.config.max_tools:
                most = upstream.config.max_tools
                raise MCPError(
                    types.INTERNAL_ERROR,
                    f"The server '{upstream.name}' lists more than {most} {kind}: none of them is shown (max_tools).",
                )
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
        raise MCPError(types.INTERNAL_ERROR, f"The server '{upstream.name}' lists its {kind} without an end.")

    # -- asking -------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        name: str,
        method: str,
        params: Params | None,
        back: Back | None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # of the other side: it is told that nobody waits any more
        tries: int = 2,
    ) -> dict[str, Any]:
        """A server's answer. What certainly did not leave is asked again through a new connection."""
        for left in range(tries - 1, -1, -1):
            try:
                upstream = await self.upstream(name)
                return await self._asked(upstream, method, params, back, timeout)
            except MCPError as error:
                if error.code == types.HEADER_MISMATCH and left:
                    await self.catalog("tools", fresh=True)  # it has not been asked yet what it wants in headers
                elif fate_of(error) != "not_taken" or not left:
                    raise
                else:
                    await asyncio.sleep(_FIRST_PAUSE * (tries - 1 - left))
        raise AssertionError("the last try returns or raises")

    async def _asked(
        self, upstream: Upstream, method: str, params: Params | None, back: Back | None, seconds: float | None
    ) -> dict[str, Any]:
        if back is None:
            return await upstream.request(method, self._with_level(upstream, params), timeout=seconds)
        token, given = self._with_token(params, back)
        self._backs[upstream.name].append(back)
        try:
            return await upstream.request(method, self._with_level(upstream, given), timeout=seconds)
        finally:
            self._backs[upstream.name].remove(back)
            if token is not None:
                self._tokens.pop(token, None)

    def _with_level(self, upstream: Upstream, params: Params | None) -> Params | None:
        """Servers of today's protocol want to hear with each request what of their log is wanted. A client
        of the older one that says nothing hears what the server chooses."""
        if not upstream.is_modern or is_modern(self._greeting.version):
            return params
        level = {LOG_LEVEL_META_KEY: self.log_level or "info"}
        return {**(params or {}), "_meta": {**level, **((params or {}).get("_meta") or {})}}

    def _with_token(self, params: Params | None, back: Back) -> tuple[str | None, Params | None]:
        """Progress under a token of ours: those of several clients may be the same."""
        meta = (params or {}).get("_meta")
        if not isinstance(meta, Mapping) or not isinstance(meta.get("progressToken"), str | int):
            return None, params
        self._next_token += 1
        token = f"placet-{self._next_token}"
        self._tokens[token] = (back, meta["progressToken"])
        return token, {**(params or {}), "_meta": {**meta, "progressToken": token}}

    # -- watching -----------------------------------------------------------------------------------------------------

    async def watch(self, name: str, uri: str, params: Params, back: Back | None) -> dict[str, Any]:
        """Hear of changes of a resource, in the way that its server knows, also after that was started anew."""
        upstream = await self.upstream(name)
        if not upstream.is_modern:
            result = await self.ask(name, "resources/subscribe", params, back)
            self._watched[name][uri] += 1
            return result
        self._watched[name][uri] += 1
        self._listen_anew(upstream)
        return {}

    async def unwatch(self, name: str, uri: str, back: Back | None) -> dict[str, Any]:
        watched = self._watched[name]
        watched[uri] -= 1
        if watched[uri] > 0:
            return {}
        del watched[uri]
        upstream = self._upstreams.get(name)
        if upstream is None or not upstream.is_open:
            return {}
        if upstream.is_modern:
            self._listen_anew(upstream)
            return {}
        return await self.ask(name, "resources/unsubscribe", {"uri": uri}, back)

    def _listen_anew(self, upstream: Upstream) -> None:
        listening = self._listening.pop(upstream.name, None)
        if listening is not None:
            listening.cancel()
        self._listening[upstream.name] = asyncio.create_task(self._listen(upstream))

    # -- being told ---------------------------------------------------------------------------------------------------

    async def on_notification(self, server: str, method: str, params: Params | None) -> None:
        """What a server says by itself, on to the client, in the order in which it came."""
        if method == "notifications/cancelled":
            return  # of a request of the server's: whoever answers it has been stopped
        if method == "notifications/progress":
            found = self._tokens.get(str((params or {}).get("progressToken")))
            if found is not None:
                back, token = found
                await back.notify(method, {**(params or {}), "progressToken": token})
            return
        if method == "notifications/subscriptions/acknowledged":
            return
        for kind, (_, changed) in LISTS.items():
            if method == changed:
                self._listed[kind].pop(server, None)
                self._catalogs.pop(kind, None)
        if method == "notifications/message" and self._backs[server]:
            await self._backs[server][-1].notify(method, params)
            return
        await self._client.tell(method, _without_subscription(params))

    async def on_request(self, server: str, method: str, params: Params | None) -> dict[str, Any]:
        """What a server of the older protocol asks by itself."""
        return await self.answer_of(server, method, params, self._backs[server][-1] if self._backs[server] else None)

    async def answer_of(self, server: str, method: str, params: Params | None, back: Back | None) -> dict[str, Any]:
        """What a server asks: the desk where it shall, else whoever it is working for, else whoever is connected."""
        config = self.servers[server]
        if method == "elicitation/create" and config.elicitation == "desk":
            return await self._client.ask_desk(server, params, config.answer_within)
        if back is not None:
            return await back.ask(method, params)
        return await self._client.ask(server, method, params)

    async def _listen(self, upstream: Upstream) -> None:
        """Ask a server of today's protocol to say when its lists change. What was missed counts as a change."""
        wanted: dict[str, Any] = {
            f"{kind}ListChanged": True
            for kind in ("tools", "prompts", "resources")
            if isinstance(found := upstream.capabilities.get(kind), Mapping) and found.get("listChanged")
        }
        if self._watched[upstream.name]:
            wanted["resourceSubscriptions"] = list(self._watched[upstream.name])
        if not wanted:
            return
        pause = _FIRST_PAUSE
        while upstream.is_open:
            self._next_token += 1
            try:
                params = {"notifications": wanted}
                await upstream.request("subscriptions/listen", params, request_id=f"placet-listen-{self._next_token}")
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            for kind in LISTS:
                self._listed[kind].pop(upstream.name, None)
            self._catalogs.clear()


def _without_subscription(params: Params | None) -> Params | None:
    """The id of our own subscription is nothing to the client."""
    meta = (params or {}).get("_meta")
    if not isinstance(meta, Mapping) or SUBSCRIPTION_ID_META_KEY not in meta:
        return params
    kept = {key: value for key, value in meta.items() if key != SUBSCRIPTION_ID_META_KEY}
    rest = {key: value for key, value in (params or {}).items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else (rest or None)
