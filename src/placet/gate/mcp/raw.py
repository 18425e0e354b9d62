"""Messages as they are: what the SDK would parse into its types, and lose what those do not know, stays a dict here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError
from mcp.types import methods
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

TASKS = "io.modelcontextprotocol/tasks"
"""The extension of today's protocol. Towards clients it is the gateway's own; no server is told of it."""
Params = Mapping[str, Any]
"""Any: whatever stands in a message."""


class RawRequest(types.Request[dict[str, Any] | None, str]):
    """A request of any method."""


class RawNotification(types.Notification[dict[str, Any] | None, str]):
    """A notification of any method."""


class RawResult(RootModel[dict[str, Any]]):
    """A result of any shape."""


def is_modern(version: str) -> bool:
    """Whether requests carry all that is needed to answer them, and there is no handshake."""
    return version in MODERN_PROTOCOL_VERSIONS


def check_result(method: str, version: str, result: object, server: str) -> dict[str, Any]:
    """What a server answered, if it is an answer to this method; else an error that names the server."""
    if isinstance(result, dict):
        if result.get("resultType") not in (None, "complete", "input_required"):
            return result  # of an extension: its own affair
        try:
            methods.validate_server_result(method, version, result)
            return result
        except KeyError:
            return result  # a method of an extension
        except ValidationError as error:
            reason = "; ".join(f"{'.'.join(map(str, each['loc'][-3:]))}: {each['msg']}" for each in error.errors()[:3])
    else:
        reason = "it is no object"
    raise MCPError(
        code=types.INTERNAL_ERROR,
        message=f"The server '{server}' answered {method}, and the answer cannot be used: {reason}"[:600],
    )


_CACHEABLE = ("prompts/list", "resources/list", "resources/templates/list", "resources/read")
"""Today's protocol wants to know for how long they hold. What an older server tells holds now."""


def translated(method: str, result: dict[str, Any], spoken: str, wanted: str) -> dict[str, Any]:
    """A server's answer in the words of the client's era."""
    if is_modern(spoken) == is_modern(wanted):
        return result
    if is_modern(wanted):
        fresh = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
        return {"resultType": "complete", **fresh, **result}
    try:
        return methods.serialize_server_result(method, wanted, {k: v for k, v in result.items() if k != "resultType"})
    except (KeyError, ValidationError):
        return {key: value for key, value in result.items() if key != "resultType"}


def invalid(message: str, code: int = types.INVALID_PARAMS, data: object = None) -> MCPError:
    return MCPError(code=code, message=message, data=data)
