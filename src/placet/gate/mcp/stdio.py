"""A server's process, spoken to line by line. Its lines are bounded: one that never ends, or that is too large, costs
its own call and keeps nobody else waiting. The SDK's reader would put such a line together again with every piece."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import Process
from mcp import types
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError

from placet.gate.mcp.config import ServerConfig

logger = logging.getLogger("placet.gate.mcp")

PATIENCE_TO_EXIT = 2.0
"""Seconds for a server to end by itself when its input is closed; then it is stopped, with all that it started."""
KEPT = 300
"""Bytes of each end of a line that is too large: its id stands in one of them."""
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb"[,}]")
_LAST = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
"""The message's own id, at its beginning or its end. In the middle stand ids of others."""


class Lines:
    """Pieces of bytes in, whole lines out. A line that is too large comes out as its two ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, int]]:
        """Each line with the size that it had."""
        *ended, rest = piece.split(b"\n")
        for each in ended:
            self._add(each)
            yield b"".join(self._parts), self._size
            self._parts, self._size = [], 0
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        self._parts.append(piece)
        if self._size > self._limit:
            whole = b"".join(self._parts)
            self._parts = [whole[:KEPT], whole[KEPT:][-KEPT:]]

    def is_too_large(self, size: int) -> bool:
        return size > self._limit


def refused(line: bytes, size: int, limit: int) -> SessionMessage | None:
    """An error in the place of an answer that is too large; None, where it cannot be told what it answers."""
    found = _FIRST.match(line) or _LAST.search(line)
    if found is None:
        return None
    number = found[1].decode("utf-8", "replace")
    words = f"The server answered with {size} bytes; up to {limit} are passed on (max_answer)."
    error = ErrorData(code=types.INTERNAL_ERROR, message=words)
    given: int | str = number.strip('"') if number.startswith('"') else int(number)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=given, error=error))


@asynccontextmanager
async def process_streams(name: str, config: ServerConfig) -> AsyncIterator[Any]:  # Any: the SDK's pair of streams
    assert config.command is not None, "it is a program"
    process = await anyio.open_process(
        [config.command, *config.args],
        env={**get_default_environment(), **config.env},
        cwd=config.cwd,
        stderr=sys.stderr,
        start_new_session=True,
    )
    heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, told = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_hear, process, heard, name, config.max_answer)
            group.start_soon(_tell, process, told, heard)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    read.close()
                    write.close()
                    await _stop(process)
                group.cancel_scope.cancel()
    finally:
        for stream in (heard, read, write, told):
            stream.close()


async def _hear(process: Process, heard: Any, name: str, limit: int) -> None:  # Any: the stream's sending end
    assert process.stdout is not None, "it was started with pipes"
    lines = Lines(limit + 4096)  # what stands around the answer counts, too
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
        async with heard:
            async for piece in process.stdout:
                for line, size in lines.feed(piece):
                    message = refused(line, size, limit) if lines.is_too_large(size) else _read(line, name)
                    if message is not None:
                        await heard.send(message)


def _read(line: bytes, name: str) -> SessionMessage | None:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        if line.strip():
            logger.warning("no message", extra={"action": "mcp_no_message", "server": name, "bytes": len(line)})
        return None


async def _tell(process: Process, told: Any, heard: Any) -> None:  # Any: ends of streams
    assert process.stdin is not None, "it was started with pipes"
    try:
        async with told:
            async for message in told:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await heard.aclose()  # it takes nothing more: whoever waits for an answer is told


async def _stop(process: Process) -> None:
    assert process.stdin is not None, "it was started with pipes"
    with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    with anyio.move_on_after(PATIENCE_TO_EXIT):
        while process.returncode is None:  # noqa: ASYNC110  # `wait` also waits for whoever else holds the pipe
            await anyio.sleep(0.01)
    await terminate_posix_process_tree(process, PATIENCE_TO_EXIT)
    if process.stdout is not None:
        with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdout.aclose()
