"""HTTP for servers: a request that fails fails alone, and says whether it left this machine.

In the SDK's own transport an error of the network ends the whole session, and with it the calls beside it, without
saying which of them were sent. Here it becomes the answer to the one request that it befell.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from placet.facts.addresses import without_credentials
from placet.mcp.calling import NOT_SENT

if TYPE_CHECKING:
    import httpx2


def make_http_client(
    headers: Mapping[str, str] | None, timeout: float, read_timeout: float, auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    import httpx2

    class Steady(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            return await _answered(super().send, request, options)

    return Steady(
        headers=dict(headers) if headers is not None else None,
        timeout=httpx2.Timeout(timeout, read=read_timeout),
        auth=auth,
    )


async def _answered(
    send: Callable[..., Awaitable[httpx2.Response]], request: httpx2.Request, options: Mapping[str, Any]
) -> httpx2.Response:
    import httpx2
    from mcp.types import CONNECTION_CLOSED

    try:
        response = await send(request, **options)
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            await response.aclose()
            return _stand_in(request, NOT_SENT, "the server does not know the session any more")
        if request.method == "POST" and response.headers.get("content-type", "").startswith("application/json"):
            await response.aread()  # a body that breaks off breaks off here
        return response
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        return _stand_in(request, NOT_SENT, f"the server cannot be reached ({_text_of(error)})")
    except httpx2.TransportError as error:
        return _stand_in(request, CONNECTION_CLOSED, f"the connection broke ({_text_of(error)})")


def _text_of(error: Exception) -> str:
    return without_credentials(str(error)) or type(error).__name__


def _stand_in(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    """The error as if the server had answered it: 502, with an error of the protocol in it."""
    import httpx2

    if request.method != "POST":
        return httpx2.Response(502, request=request)
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(
        502, headers={"content-type": "application/json"}, content=json.dumps(body).encode(), request=request
    )
