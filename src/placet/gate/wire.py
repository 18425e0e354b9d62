"""A small HTTP/1.1 client over asyncio: guests live in programs with pins of their own, so it needs no package.

It speaks to one desk, keeps connections for the next request, and reads answers with a length or in chunks. Whatever
else comes is an error: an answer that is not understood opens nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from placet.facts.errors import UserError

MAX_ANSWER = 8 * 2**20
MAX_HEAD = 64 * 1024
MAX_IDLE = 64
"""Connections that are kept for the next request."""


class NotUnderstood(Exception):
    """The answer is not HTTP as it is spoken here."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class HttpClient:
    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UserError(f"{url!r} is not the address of a desk, as in https://desk.example.com.")
        if parts.username or parts.password:
            raise UserError("The address of a desk holds no password: give the token as token=….")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._head = {"Host": parts.netloc, "Accept": "application/json", **headers}
        self._idle: list[_Connection] = []

    async def ask(self, method: str, path: str, body: bytes | None, seconds: float, **headers: str) -> Answer:
        """One request and its answer. OSError, TimeoutError or NotUnderstood where none came; whether the desk has seen
        the request is unknown then."""
        async with asyncio.timeout(seconds):
            kept = self._idle.pop() if self._idle else None
            if kept is not None:
                with contextlib.suppress(OSError, EOFError):  # the desk let go of it meanwhile: it has seen nothing
                    return await self._exchange(kept, method, path, body, headers)
            fresh = _Connection(*await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=MAX_HEAD))
            try:
                return await self._exchange(fresh, method, path, body, headers)
            except EOFError as error:
                raise ConnectionError("the connection ended before the answer did") from error

    async def _exchange(
        self, connection: _Connection, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        is_good = False
        try:
            lines = {**self._head, **headers}
            if body is not None:
                lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
            elif method in ("POST", "DELETE"):
                lines["Content-Length"] = "0"
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            connection.writer.write(f"{method} {self._path}{path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))
            await connection.writer.drain()
            answer, is_good = await _read_answer(connection.reader)
            return answer
        finally:
            if is_good and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.writer.close()

    async def close(self) -> None:
        kept, self._idle = self._idle, []
        for connection in kept:
            connection.writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await connection.writer.wait_closed()


async def _read_answer(reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    """The answer, and whether the connection can be used again."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise NotUnderstood("the head of the answer is too long") from error
    first, *rest = raw.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdigit():
        raise NotUnderstood(f"it begins with {first[:60]!r}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
    number = int(status[:3])
    if number < 200:
        return await _read_answer(reader)
    body = await _read_body(reader, number, headers)
    return Answer(number, headers, body), headers.get("connection", "").lower() != "close"


async def _read_body(reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]) -> bytes:
    if status in (204, 304):
        return b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > MAX_ANSWER:
        raise NotUnderstood("the answer does not say how long it is, or is too long")
    return await reader.readexactly(int(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while True:
        text = (await reader.readline()).split(b";")[0].strip()
        try:
            size = int(text, 16)
        except ValueError as error:
            raise NotUnderstood("a chunk of the answer has no length") from error
        if len(found) + size > MAX_ANSWER:
            raise NotUnderstood("the answer is too long")
        found += await reader.readexactly(size)
        await reader.readline()
        if size == 0:
            return bytes(found)
