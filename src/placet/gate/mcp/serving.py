"""The gateway's one endpoint: on standard input and output, or over streamable HTTP with a token."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from placet.facts.errors import AccessDenied, CallNotFound, GateError
from placet.gate.mcp.config import GatewayConfig
from placet.gate.mcp.gateway import Gateway
from placet.gate.port import Gate
from placet.service.guest_limits import GuestLimits

logger = logging.getLogger("placet.gate.mcp")

Who = Callable[[str], Awaitable[str | None]]
"""The guest to whom a token belongs; None: to nobody."""
PATH = "/mcp"
REMEMBER_SECONDS = 60.0
"""How long a desk's word about a token counts."""
SOURCE = "mcp"


def gate_on_store(config: GatewayConfig, store: str, guest: str) -> Gate:
    limits = GuestLimits(max_waiting=config.max_waiting, asks_per_second=50.0, burst=max(config.max_waiting, 200))
    return Gate(store, guest=guest, source=SOURCE, limits=limits, policy=config.policy)


def gate_at_desk(desk: str, token: str | None) -> Gate:
    return Gate(desk, token=token, source=SOURCE)


def who_at_desk(desk: str) -> Who:
    """A desk says of a token whether it is a guest's. The token itself is the name by which its gate is kept."""
    known: dict[str, float] = {}

    async def who(token: str) -> str | None:
        if known.get(token, 0.0) > time.monotonic():
            return token
        async with Gate(desk, token=token, source=SOURCE, patience=5.0) as gate:
            try:
                await gate.look("call_0_0")
            except CallNotFound:
                known[token] = time.monotonic() + REMEMBER_SECONDS
                return token
            except (AccessDenied, GateError):
                return None
        return None

    return who


async def serve_stdio(gateway: Gateway) -> None:
    """Until the client closes our standard input, or is gone while it is still to be told something."""
    try:
        async with stdio_server() as (read, write):
            await gateway.server.run(read, write, gateway.server.create_initialization_options())
    except* (BrokenPipeError, ConnectionResetError):
        logger.info("the client is gone", extra={"action": "mcp_client_gone"})
    finally:
        await gateway.close()


def http_app(gateway: Gateway, who: Who, hosts: Sequence[str], origins: Sequence[str]) -> Any:  # Any: an ASGI app
    """The endpoint over HTTP. Whoever has no token of a guest learns nothing."""
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=list(hosts), allowed_origins=list(origins)
    )
    inner = gateway.server.streamable_http_app(streamable_http_path=PATH, transport_security=security)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        token = _token_of(scope)
        guest = await who(token) if token else None
        if guest is None:
            await _refused(send)
            return
        scope["placet.guest"] = guest
        scope["user"] = AuthenticatedUser(AccessToken(token=token, client_id=guest, scopes=[]))
        await inner(scope, receive, send)

    return app


def _token_of(scope: Any) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if kind.lower() == "bearer" else ""
    return ""


async def _refused(send: Any) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"www-authenticate", b'Bearer realm="placet"')]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    words = b"This gateway needs the token of a guest: Authorization: Bearer placet_...\n"
    await send({"type": "http.response.body", "body": words})


@contextlib.asynccontextmanager
async def closing(gateway: Gateway) -> AsyncIterator[Gateway]:
    try:
        yield gateway
    finally:
        await gateway.close()
