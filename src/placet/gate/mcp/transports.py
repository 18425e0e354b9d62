"""The way to one server: a process of ours, an address, or an object in this process, as a pair of streams."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_client_server_memory_streams

from placet.facts.errors import UserError
from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.stdio import process_streams
from placet.mcp.http import make_http_client

READ_SECONDS = 86_400.0
"""Of silence on a stream over HTTP: calls that wait are silent for long."""


@asynccontextmanager
async def streams_to(name: str, config: ServerConfig) -> AsyncIterator[Any]:  # Any: the SDK's pair of streams
    if config.command is not None:
        async with process_streams(name, config) as streams:
            yield streams
    elif config.url is not None:
        async with (
            make_http_client(config.headers, config.connect_timeout, READ_SECONDS, None) as client,
            streamable_http_client(config.url, http_client=client) as streams,
        ):
            yield streams
    else:
        async with _in_process(server_object(config.python or "")) as streams:
            yield streams


@asynccontextmanager
async def _in_process(server: Any) -> AsyncIterator[Any]:  # Any: the SDK's servers, of both kinds
    low = getattr(server, "_lowlevel_server", server)
    async with (
        create_client_server_memory_streams() as (client, (read, write)),
        anyio.create_task_group() as group,
    ):
        group.start_soon(low.run, read, write, low.create_initialization_options())
        yield client
        group.cancel_scope.cancel()


def server_object(place: str) -> Any:  # Any: as above
    """What stands at `module:name`."""
    found = object_at(place)
    if not hasattr(getattr(found, "_lowlevel_server", found), "create_initialization_options"):
        raise UserError(f"{place!r} is no server of the mcp package (MCPServer, or the low-level Server).")
    return found


def object_at(place: str) -> Any:  # Any: whatever stands there
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{place!r} leads to nothing: write module:name of something that can be imported.") from error
