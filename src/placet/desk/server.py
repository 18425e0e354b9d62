"""The desk as a server: uvicorn, with what it needs against slow clients, and event streams that end when it does."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from starlette.applications import Starlette
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from placet.desk.web.context import Web
from placet.desk.web.problems import MEDIA_TYPE, Problem
from placet.desk.web.settings import WebSettings, is_loopback
from placet.facts.codec import encode
from placet.facts.errors import UserError

HEADER_SECONDS = 10.0
"""How long a client may take for the head of a request."""
HEADER_BYTES = 32 * 1024
IDLE_SECONDS = 30
"""How long a connection may stay open between two requests."""
STUCK_SECONDS = 60.0
"""How long a client may read nothing of what was sent, while there is more to send."""
MAX_CONNECTIONS = 4000
SHUTDOWN_SECONDS = 10


class PatientButFinite(H11Protocol):
    """HTTP as uvicorn speaks it, to clients that say what they want, and read what they get, within a time."""

    header_seconds = HEADER_SECONDS
    stuck_seconds = STUCK_SECONDS
    max_connections = MAX_CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the parent
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.abort()
        self._head_due: asyncio.TimerHandle | None = self.loop.call_later(self.header_seconds, self._give_up)
        self._stuck: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._forget_stuck()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """What was sent is not read: a client that would send more waits, but not forever."""
        super().pause_writing()
        self._stuck = self.loop.call_later(self.stuck_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_stuck()
        super().resume_writing()

    def _forget_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def data_received(self, data: bytes) -> None:
        if self._head_due is None and self._is_between_requests():
            self._head_due = self.loop.call_later(self.header_seconds, self._give_up)
        super().data_received(data)
        if not self._is_between_requests():
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets an error like all others."""
        problem = Problem(400, "bad_request", msg)
        body = encode(problem.body("/"))
        headers = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body))), ("Connection", "close")]
        answer = (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(body))
        for event in (*answer, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request, whatever the annotation says
        return cycle is None or cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _give_up(self) -> None:
        self._head_due = None
        if self._is_between_requests() and not self.transport.is_closing():
            self.transport.close()


class DeskServer(Server):
    """uvicorn's server, which ends the event streams first: it would wait for them."""

    def __init__(self, app: Starlette, config: Config) -> None:
        super().__init__(config)
        self._web: Web = app.state.web
        self.is_ready = asyncio.Event()
        """Set when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._web.desk.guests.watcher.end_waits()  # guests ask again, whoever answers then
        await self._web.feed.close()
        await super().shutdown(sockets)


def new_server(
    app: Starlette,
    *,
    host: str = "127.0.0.1",
    port: int = 8700,
    trusted_proxies: tuple[str, ...] = (),
    tls_certificate: str | None = None,
    tls_key: str | None = None,
    **options: Any,  # Any: further settings of uvicorn
) -> DeskServer:
    """A server for the application. Headers of proxies are believed only from the addresses that are named."""
    config = Config(
        app,
        host=host,
        port=port,
        http=PatientButFinite,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        ssl_certfile=tls_certificate,
        ssl_keyfile=tls_key,
        **options,
    )
    return DeskServer(app, config)


def check_bind(host: str, settings: WebSettings) -> None:
    """A desk that has no log-in is for one machine alone."""
    if settings.is_open and not is_loopback(host):
        raise UserError(
            f"A desk without authentication on {host} would let everybody who reaches it decide: "
            "leave out --no-auth, or bind it to 127.0.0.1."
        )
    if settings.is_open and "*" in settings.hosts:
        raise UserError("A desk without authentication answers only to names of this machine: leave out --host-name *.")
