"""The provider in the same process: a transport for the HTTP library of the official clients."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator

import httpx2

from placet.testing.provider.reply import Reply
from placet.testing.provider.server import Answering


class ProviderTransport(httpx2.AsyncBaseTransport, httpx2.BaseTransport):
    """Give it to `httpx2.AsyncClient(transport=…)` or `httpx2.Client(transport=…)`."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = self._asked(request, await request.aread())
        try:
            if not reply.has_head:
                raise await _nothing_came(reply, request)
            if reply.gate is not None and reply.gate_before == 0:
                await reply.gate.pass_through()
                reply.gate = None
        except BaseException:
            reply.ended()
            raise
        return httpx2.Response(reply.status, headers=reply.headers, stream=_AsyncBody(reply, request))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = self._asked(request, request.read())
        try:
            if not reply.has_head:
                raise _nothing_came_blocking(reply, request)
            if reply.gate is not None and reply.gate_before == 0:
                reply.gate.pass_through_blocking()
                reply.gate = None
        except BaseException:
            reply.ended()
            raise
        return httpx2.Response(reply.status, headers=reply.headers, stream=_Body(reply, request))

    def _asked(self, request: httpx2.Request, body: bytes) -> Reply:
        target = request.url.raw_path.decode("ascii")
        return self._answering(request.method, target, dict(request.headers), body)


class _AsyncBody(httpx2.AsyncByteStream):
    def __init__(self, reply: Reply, request: httpx2.Request) -> None:
        self._reply = reply
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        reply = self._reply
        for index, piece in enumerate(reply.pieces):
            if reply.gate is not None and index == reply.gate_before:
                await reply.gate.pass_through()
            await asyncio.sleep(reply.pause)  # also without a pause: somebody else's turn, as on a real wire
            yield piece
        if reply.ending != "complete":
            raise await _nothing_came(reply, self._request)

    async def aclose(self) -> None:
        self._reply.ended()


class _Body(httpx2.SyncByteStream):
    def __init__(self, reply: Reply, request: httpx2.Request) -> None:
        self._reply = reply
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        reply = self._reply
        for index, piece in enumerate(reply.pieces):
            if reply.gate is not None and index == reply.gate_before:
                reply.gate.pass_through_blocking()
            if reply.pause:
                time.sleep(reply.pause)
            yield piece
        if reply.ending != "complete":
            raise _nothing_came_blocking(reply, self._request)

    def close(self) -> None:
        self._reply.ended()


def _patience(request: httpx2.Request) -> float | None:
    found = request.extensions.get("timeout", {}).get("read")
    return None if found is None else float(found)


def _disconnected(request: httpx2.Request) -> httpx2.RemoteProtocolError:
    return httpx2.RemoteProtocolError("Server disconnected in the middle of its answer.", request=request)


async def _nothing_came(reply: Reply, request: httpx2.Request) -> httpx2.TransportError:
    """The error that a client gets whose answer was cut; of a silent answer, after its timeout."""
    if reply.ending == "cut":
        return _disconnected(request)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), _patience(request))
    return httpx2.ReadTimeout("The answer did not come in time.", request=request)


def _nothing_came_blocking(reply: Reply, request: httpx2.Request) -> httpx2.TransportError:
    if reply.ending == "cut":
        return _disconnected(request)
    time.sleep(_patience(request) or 3600.0)
    return httpx2.ReadTimeout("The answer did not come in time.", request=request)
