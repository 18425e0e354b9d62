"""The provider over real HTTP, with nothing but the standard library: for clients in any process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import TypeAlias

from placet.testing.provider.reply import Reply

Answering: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Reply]
MAX_BODY = 64 * 1024 * 1024


class Served:
    """`async with` serves on the running event loop, `with` on a thread of its own. Both give the address."""

    def __init__(self, answering: Answering, host: str, port: int) -> None:
        self._answering = answering
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._connected, self._host, self._port)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def __enter__(self) -> str:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="fake-provider", daemon=True)
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        asyncio.run_coroutine_threadsafe(self.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        connection = _Connection(reader, writer, self._answering)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await connection.one_request():
                    pass
        finally:
            self._connections.discard(task)
            writer.close()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: Answering) -> None:
        self._reader = reader
        self._writer = writer
        self._answering = answering
        self._ahead = b""
        """A byte of the next request, read while a reply was being sent."""

    async def one_request(self) -> bool:
        """Answer the next request. Returns whether the connection can be used again."""
        head = await self._read_head()
        if head is None:
            return False
        method, target, headers = head
        body = await self._read_body(headers)
        reply = self._answering(method, target, headers, body)
        try:
            await self._send_unless_gone(reply)
        finally:
            reply.ended()
        return reply.ending == "complete" and headers.get("connection", "").lower() != "close"

    async def _read_head(self) -> tuple[str, str, dict[str, str]] | None:
        try:
            block = self._ahead + await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        self._ahead = b""
        first, *lines = block.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        fields = (line.partition(":") for line in lines if line)
        return method, target, {name.strip().lower(): value.strip() for name, _, value in fields}

    async def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(min(int(headers.get("content-length") or 0), MAX_BODY))
        body = b""
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        return body

    async def _send_unless_gone(self, reply: Reply) -> None:
        """Send the reply; a client that hangs up in the meantime ends it."""
        sending = asyncio.ensure_future(_send(reply, self._writer))
        watching = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done() and not watching.result():
                raise ConnectionResetError("the client hung up")
            await sending
        finally:
            for task in (sending, watching):
                task.cancel()
            _, ahead = await asyncio.gather(sending, watching, return_exceptions=True)
            self._ahead = ahead if isinstance(ahead, bytes) else b""


async def _send(reply: Reply, writer: asyncio.StreamWriter) -> None:
    for index, piece in enumerate(reply.pieces):
        if reply.gate is not None and index == reply.gate_before:
            await writer.drain()
            await reply.gate.pass_through()
        if index == 0:
            writer.write(_head_of(reply))
        if reply.pause:
            await asyncio.sleep(reply.pause)
        writer.write(_chunk(piece) if _is_chunked(reply) else piece)
        await writer.drain()
    if reply.ending == "silence":
        await asyncio.Event().wait()
    if reply.ending == "complete":
        if not reply.pieces:
            writer.write(_head_of(reply))
        if _is_chunked(reply):
            writer.write(b"0\r\n\r\n")
        await writer.drain()


def _is_chunked(reply: Reply) -> bool:
    """A stream has no length that could be announced."""
    return reply.is_stream


def _head_of(reply: Reply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {_phrase(reply.status)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    if _is_chunked(reply):
        lines.append("transfer-encoding: chunked")
    else:
        # A body that will be cut announces more than comes, so that the client can tell.
        lines.append(f"content-length: {sum(map(len, reply.pieces)) + (reply.ending != 'complete')}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded" if status == 529 else "Status"


def _chunk(piece: bytes) -> bytes:
    return f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if piece else b""
