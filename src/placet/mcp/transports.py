"""The kinds of servers: a process of ours, one behind a URL, and one in this very process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TextIO, TypedDict, Unpack
from urllib.parse import urlsplit

from placet.facts.addresses import without_credentials
from placet.facts.errors import UserError
from placet.mcp.http import make_http_client
from placet.mcp.server import MCPServer, ServerOptions

if TYPE_CHECKING:
    import httpx2
    from mcp.server import MCPServer as SdkServer
    from mcp.server import Server as LowLevelServer


class MCPServerStdioParams(TypedDict, total=False):
    """How the server's process is started."""

    command: Required[str]
    args: list[str]
    env: dict[str, str]
    """Beside the few variables that it inherits (PATH, HOME and the like): no secret of ours reaches it by itself."""
    cwd: str | Path
    encoding: str
    encoding_error_handler: Literal["strict", "ignore", "replace"]


class MCPServerStreamableHttpParams(TypedDict, total=False):
    url: Required[str]
    headers: dict[str, str]
    timeout: float
    """Seconds for connecting and sending."""
    sse_read_timeout: float
    """Seconds of silence after which a stream counts as broken."""
    terminate_on_close: bool
    httpx_client_factory: Callable[..., httpx2.AsyncClient]
    """Makes the HTTP client (`headers=`, `timeout=`, `auth=`). A failing request then ends the session."""
    auth: httpx2.Auth | None


class MCPServerSseParams(TypedDict, total=False):
    url: Required[str]
    headers: dict[str, str]
    timeout: float
    sse_read_timeout: float
    httpx_client_factory: Callable[..., httpx2.AsyncClient]
    auth: httpx2.Auth | None


def _checked(kind: type, params: object, shape: type, needed: str) -> None:
    known = shape.__annotations__
    if not isinstance(params, Mapping) or not isinstance(params.get(needed), str) or not params[needed]:
        message = f"params is a dict with {needed!r} (and {', '.join(known)}), not {_kind_of(params)}"
        raise UserError(f"{kind.__name__}: {message}.")
    unknown = set(params) - set(known)
    if unknown:
        raise UserError(f"{kind.__name__}: params has {sorted(unknown)}, which nothing knows: use {', '.join(known)}.")


def _kind_of(params: object) -> str:
    """What was given, without its values: headers hold tokens."""
    if not isinstance(params, Mapping):
        return f"of type {type(params).__name__}"
    return f"one with {', '.join(map(str, params)) or 'nothing'}"


def _public(url: str) -> str:
    """The URL without what may be a secret: names are written into logs."""
    shown = without_credentials(url)
    try:
        parts = urlsplit(shown)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise UserError(f"{shown!r} is not the address of an MCP server: {error}.") from error
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


class MCPServerStdio(MCPServer):
    """A server that is a process of ours: started when connected, stopped when let go."""

    def __init__(
        self, params: MCPServerStdioParams, *, errlog: TextIO | None = None, **options: Unpack[ServerOptions]
    ) -> None:
        _checked(type(self), params, MCPServerStdioParams, "command")
        super().__init__(f"stdio: {Path(params['command']).name}", **options)
        self._params = params
        self._errlog = errlog
        """Where the process writes what it complains about; by default where this one does."""

    def _target(self) -> Any:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        return stdio_client(StdioServerParameters(**self._params), errlog=self._errlog or sys.stderr)


class MCPServerStreamableHttp(MCPServer):
    """A server behind a URL."""

    def __init__(self, params: MCPServerStreamableHttpParams, **options: Unpack[ServerOptions]) -> None:
        _checked(type(self), params, MCPServerStreamableHttpParams, "url")
        super().__init__(f"streamable_http: {_public(params['url'])}", **options)
        self._params = params

    def _target(self) -> Any:
        return self._transport()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        from mcp.client.streamable_http import streamable_http_client

        given = self._params
        async with (
            _http_client(given) as client,
            streamable_http_client(
                given["url"], http_client=client, terminate_on_close=given.get("terminate_on_close", True)
            ) as streams,
        ):
            yield streams


class MCPServerSse(MCPServer):
    """A server behind a URL that still speaks the older transport, HTTP with server-sent events."""

    def __init__(self, params: MCPServerSseParams, **options: Unpack[ServerOptions]) -> None:
        _checked(type(self), params, MCPServerSseParams, "url")
        super().__init__(f"sse: {_public(params['url'])}", **options)
        self._params = params

    def _mode(self) -> str:
        return "legacy"  # nothing newer was ever spoken over it

    def _target(self) -> Any:
        from mcp.client.sse import sse_client

        given = self._params
        extra: dict[str, Any] = {}
        if "httpx_client_factory" in given:
            extra["httpx_client_factory"] = given["httpx_client_factory"]
        return sse_client(
            given["url"],
            headers=dict(given.get("headers") or {}),
            timeout=given.get("timeout", 30.0),
            sse_read_timeout=given.get("sse_read_timeout", 300.0),
            auth=given.get("auth"),
            **extra,
        )


def _http_client(given: MCPServerStreamableHttpParams) -> httpx2.AsyncClient:
    import httpx2

    timeout, read_timeout = given.get("timeout", 30.0), given.get("sse_read_timeout", 300.0)
    factory = given.get("httpx_client_factory")
    if factory is None:
        return make_http_client(given.get("headers"), timeout, read_timeout, given.get("auth"))
    return factory(
        headers=dict(given.get("headers") or {}),
        timeout=httpx2.Timeout(timeout, read=read_timeout),
        auth=given.get("auth"),
    )


class MCPServerInProcess(MCPServer):
    """A server object of the SDK (`mcp.server.MCPServer`, or a low-level `Server`) in this process: no transport."""

    def __init__(self, server: SdkServer | LowLevelServer[Any], **options: Unpack[ServerOptions]) -> None:
        if not hasattr(server, "list_tools") and not hasattr(server, "lifespan"):
            raise UserError(f"MCPServerInProcess takes an MCPServer or a Server of the mcp package, not {server!r}.")
        super().__init__(str(getattr(server, "name", None) or "in-process"), **options)
        self._server = server

    def _target(self) -> Any:
        return self._server
