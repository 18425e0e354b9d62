"""A desk that serves until somebody stops it: what `placet serve` and `placet demo` share."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import time
import webbrowser
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from click import ClickException, UsageError

from placet.cli.exit_codes import INTERRUPTED, OK
from placet.cli.loading import warn_if_pooled
from placet.cli.output import complain
from placet.declare.agent import Agent
from placet.declare.run_config import RunConfig
from placet.desk.desk import Desk
from placet.desk.web.sockets import listen
from placet.facts.addresses import without_credentials
from placet.facts.errors import UserError
from placet.facts.events import Pattern
from placet.service.guest_limits import GuestLimits

DEFAULT_PORT = 8700
_NOT_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a desk is served with."""

    store: str
    agents: list[Agent[Any]]
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    host_names: tuple[str, ...] = ()
    public_url: str | None = None
    is_open: bool = False
    open_name: str = "local"
    four_eyes: tuple[Pattern, ...] = ()
    """Demanded from now on in the store, besides what it demands already."""
    policy: str | None = None
    """The file of rules about every call."""
    pass_through: tuple[Pattern, ...] = ()
    """Guests' calls that nobody has to be asked about."""
    trusted_proxies: tuple[str, ...] = ()
    tls: tuple[str, str] | None = None
    drives: bool = True
    max_concurrent: int = 16
    grace: float = 30.0
    opens_browser: bool = False
    receipt_keys: str | None = None
    """The file of keys that sign receipts; None: the environment may say."""
    sso: str | None = None
    """The file of identity providers."""


Announce = Callable[[str, str | None], None]
"""Told where the desk is, and the key for the first admin where there is nobody yet."""


def receipts_of(file: str | None, issuer: str | None) -> Any:  # Any: typed where the extra is installed
    """Who signs receipts: by a file that is named, or as the environment says; None: nobody."""
    if not file and not any(os.environ.get(name) for name in ("PLACET_RECEIPT_KEYS_FILE", "PLACET_RECEIPT_KEYS")):
        return None
    if find_spec("joserfc") is None:
        raise ClickException("receipts need an extra that is not installed: pip install 'placet[receipts]'.")
    from placet.receipts import receipts_from_environment

    try:
        return receipts_from_environment(file=file, issuer=issuer)
    except UserError as error:
        raise UsageError(error.message) from error


def need_the_extra() -> None:
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "jinja2")):
        raise ClickException("the desk on the web needs an extra that is not installed: pip install 'placet[desk]'.")


def refuse_if_public_and_open(given: Serving) -> None:
    """Before anything is said or made: a desk that asks nobody who they are is for one machine alone."""
    need_the_extra()
    from placet.desk.server import check_bind

    try:
        check_bind(given.host, _settings(given))
    except UserError as error:
        raise UsageError(error.message) from error


async def serve_until_stopped(
    given: Serving, announce: Announce, meanwhile: Callable[[Desk], Awaitable[None]] | None = None
) -> int:
    """Serve; `meanwhile` runs beside it. Ends on SIGTERM (0) or Ctrl-C (130)."""
    refuse_if_public_and_open(given)
    from placet.desk.app import create_app
    from placet.desk.server import new_server

    settings = _settings(given)
    listening = bind(given.host, given.port)
    async with Desk(
        given.store,
        agents=given.agents,
        run=given.drives,
        max_concurrent=given.max_concurrent,
        grace=given.grace,
        policy=given.policy,
        guest_limits=GuestLimits(pass_through=given.pass_through),
        run_config=RunConfig(receipts=receipts_of(given.receipt_keys, given.public_url)),
    ) as desk:
        app = create_app(desk, settings, sso=_providers(given))
        await desk.store.latest_sequence()  # a store that cannot be used says so before anybody connects
        if given.four_eyes:
            await desk.demand_four_eyes(given.four_eyes, by=given.open_name, reason="placet serve --four-eyes")
        warn_if_pooled(desk.store)
        server = new_server(
            app,
            trusted_proxies=given.trusted_proxies,
            tls_certificate=given.tls[0] if given.tls is not None else None,
            tls_key=given.tls[1] if given.tls is not None else None,
        )
        key = None if given.is_open else await app.state.web.accounts.first_admin_key()
        if not given.is_open and key is None and await app.state.web.accounts.lacks_an_admin():
            complain(
                "nobody at this desk is an admin: «placet users change NAME --role admin», on its store, makes one."
            )
        url = desk.outbox.base_url = given.public_url or _url(listening, given)
        if given.public_url is not None:
            await desk.outbox.publish(given.public_url)
        stopped_by = _obey_signals(server)
        beside = asyncio.create_task(_beside(server, desk, url, key, announce, given, meanwhile))
        await server._serve([listening])  # with signal handlers of our own: uvicorn's would raise the signal again
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
    return INTERRUPTED if stopped_by == [signal.SIGINT] else OK


async def _beside(
    server: Any,  # Any: typed where the extra is installed
    desk: Desk,
    url: str,
    key: str | None,
    announce: Announce,
    given: Serving,
    meanwhile: Callable[[Desk], Awaitable[None]] | None,
) -> None:
    await server.is_ready.wait()
    announce(url, key)
    if given.opens_browser:
        await asyncio.to_thread(webbrowser.open, f"{url}/invitation?key={key}" if key is not None else url)
    if meanwhile is not None:
        await meanwhile(desk)


def _providers(given: Serving) -> Any:  # Any: typed where the extra is installed
    """Who vouches for people, by the file that was given."""
    if given.sso is None:
        return {}
    if find_spec("joserfc") is None:
        raise ClickException("single sign-on needs an extra that is not installed: pip install 'placet[sso]'.")
    from placet.sso.settings import clients_of, read_sso_file, web_wire

    try:
        return clients_of(read_sso_file(given.sso), web_wire())
    except UserError as error:
        raise ClickException(error.message) from error


def _passwords(given: Serving) -> tuple[str, ...] | None:
    if given.sso is None:
        return None
    from placet.sso.settings import read_sso_file

    return read_sso_file(given.sso).passwords


def _settings(given: Serving) -> Any:  # Any: typed where the extra is installed
    from placet.desk.web.settings import WebSettings

    names = WebSettings().hosts + ((given.host,) if given.host not in ("0.0.0.0", "::") else ())  # noqa: S104
    return WebSettings(
        hosts=(*names, *(name.lower() for name in given.host_names)),
        public_url=given.public_url,
        is_open=given.is_open,
        open_name=given.open_name,
        passwords=_passwords(given),
    )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or a sentence that says why not."""
    try:
        return listen(host, port)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        words = "another program has it: choose another with --port" if is_taken else error.strerror
        raise ClickException(f"port {port} on {host} cannot be used: {words}.") from error


def _url(listening: socket.socket, given: Serving) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if given.tls is not None else 'http'}://{shown}:{port}"


def _obey_signals(server: Any) -> list[signal.Signals]:  # Any: as above
    """The list tells, later, which signal came first. A second one ends the process at once."""
    seen: list[signal.Signals] = []
    loop = asyncio.get_running_loop()

    def stop(which: signal.Signals) -> None:
        seen.append(which)
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        server.handle_exit(which, None)

    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop, which)
    return seen


class EventLines(logging.Formatter):
    """Log lines as named events: when, how grave, what, and the words that go with it. Never arguments or secrets."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        words = {name: value for name, value in vars(record).items() if name not in _NOT_FIELDS}
        action = words.pop("action", None) or record.getMessage()
        text = " ".join(f"{name}={value!r}" for name, value in words.items())
        line = f"{when} {record.levelname.lower()} {action} {text}".rstrip()
        whole = f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
        return without_credentials(whole)  # a traceback of a library may quote the address that it was given


def log_to_stderr(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EventLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.captureWarnings(True)


def warn_if_open(given: Serving) -> None:
    if given.is_open:
        complain(f"nobody is asked who they are: whoever uses this machine decides as «{given.open_name}».")
