"""How commands ask a desk: over HTTP (`--desk URL`), or straight on a store. Either way it is the same API: on a store,
the desk's application answers in this process, and whoever is logged in to this system is who asks.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlencode, urlsplit

from placet.cli.exit_codes import CommandFailed, UsageError
from placet.cli.loading import DEFAULT_STORE, add_store, agents_of, refuse_if_missing, store_url
from placet.cli.terminal import shown, this_user
from placet.facts.addresses import without_credentials
from placet.facts.codec import JsonObject
from placet.stores.opening import open_store

TIMEOUT = 30.0
PAGE = 200
Query = Mapping[str, object]


class DeskRefused(CommandFailed):
    """The desk said no: what it said, and the decision that stands, if one does."""

    def __init__(self, status: int, problem: JsonObject) -> None:
        self.status = status
        self.problem = problem
        super().__init__(_problem_text(status, problem))


def _problem_text(status: int, problem: JsonObject) -> str:
    text = shown(str(problem.get("detail") or problem.get("title") or f"the desk answered {status}"), keep_lines=True)
    errors = problem.get("errors")
    for each in errors if isinstance(errors, list) else ():
        if str(each.get("message")) not in text:  # some details say it already
            text += f"\n  {shown(str(each.get('field')))}: {shown(str(each.get('message')))}"
    if status == 401:
        text += "\nSet PLACET_TOKEN to a token of yours (an admin makes one: placet tokens add)."
    return text


class Client(Protocol):
    """Asks a desk."""

    def ask(self, method: str, path: str, query: Query | None = None, body: JsonObject | None = None) -> Any:
        """What the desk answers (Any: as its description says); Refused when it says no."""
        ...

    def listen(self, path: str, query: Query) -> Iterator[JsonObject]:
        """The events of a live stream, one by one, for ever."""
        ...


def add_desk(parser: argparse.ArgumentParser, *, with_agents: bool = False) -> None:
    parser.add_argument(
        "--desk",
        metavar="URL",
        help="ask the desk that is served there, with the token in $PLACET_TOKEN\n(default: $PLACET_DESK, or straight "
        "on the store)",
    )
    parser.add_argument("--token-file", metavar="FILE", help="a file that holds the token, instead of $PLACET_TOKEN")
    add_store(parser)
    parser.set_defaults(store=None)  # so that a store that was named is told from the usual one
    if with_agents:
        parser.add_argument("--agents", metavar="MODULE:NAME", help="on a store: where the agents' code is")


@contextmanager
def client_of(options: argparse.Namespace, *, begins: bool = False) -> Iterator[Client]:
    """The desk that the options name; what is written beats what the environment says.

    A store that is not there is made only by what `begins` something in it: a slip in its address must not look like an
    empty store.
    """
    settle_place(options)
    if options.desk:
        yield OverHttp(str(options.desk), token_of(options))
        return
    place = getattr(options, "agents", None)
    if not begins:
        refuse_if_missing(str(options.store))
    on_store = OnStore(str(options.store), agents_of(place) if place else [], begins=begins)
    try:
        yield on_store
    finally:
        on_store.close()


def settle_place(options: argparse.Namespace) -> None:
    """Afterwards either `desk` or `store` is set: what is written beats what the environment says."""
    if options.desk and options.store:
        raise UsageError("--desk asks a desk and --store goes straight to a store: write one of them.")
    if not options.store:
        options.desk = options.desk or os.environ.get("PLACET_DESK")
    if not options.desk:
        options.store = options.store or store_url(os.environ.get("PLACET_STORE") or DEFAULT_STORE)


def token_of(options: argparse.Namespace) -> str | None:
    found, place = os.environ.get("PLACET_TOKEN"), "$PLACET_TOKEN"
    if options.token_file is not None:
        place = repr(options.token_file)
        try:
            found = Path(options.token_file).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"the token in {place} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"what {place} holds is no token.") from error
    found = found.strip() if found is not None else None
    if found and not (found.isascii() and found.isprintable()):
        raise UsageError(f"what {place} holds is no token: one is a line that begins with «placet_».")
    return found


def target_of(path: str, query: Query | None) -> str:
    given = {name: str(value) for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def part(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


def all_pages(client: Client, path: str, query: Query, most: int | None) -> Iterator[JsonObject]:
    """The rows of a list, page after page."""
    cursor: object = None
    left = most
    while left is None or left > 0:
        page = client.ask("GET", path, {**query, "cursor": cursor, "limit": min(PAGE, left or PAGE)})
        yield from page["data"]
        left = None if left is None else left - len(page["data"])
        cursor = page.get("next")
        if cursor is None:
            return


def read_events(lines: Iterator[str]) -> Iterator[JsonObject]:
    """The data of server-sent events."""
    for line in lines:
        if line.startswith("data:"):
            found = json.loads(line.removeprefix("data:"))
            if isinstance(found, dict):
                yield found


# -- over HTTP --------------------------------------------------------------------------------------------------------


class OverHttp:
    def __init__(self, url: str, token: str | None) -> None:
        try:
            self._url = urlsplit(url if "://" in url else f"http://{url}")
            is_address = self._url.scheme in ("http", "https") and bool(self._url.hostname) and self._url.port != 0
        except ValueError:
            is_address = False
        if not is_address:
            raise UsageError(
                f"{without_credentials(url)!r} is not the address of a desk, such as http://127.0.0.1:8700."
            )
        self._token = token

    def ask(self, method: str, path: str, query: Query | None = None, body: JsonObject | None = None) -> Any:
        with self._answer(method, target_of(path, query), body, TIMEOUT) as answer:
            return _read(answer.status, answer.read())

    def listen(self, path: str, query: Query) -> Iterator[JsonObject]:
        with self._answer("GET", target_of(path, query), None, None) as answer:
            if answer.status != 200:
                _read(answer.status, answer.read())
            yield from read_events(line.decode().rstrip("\n") for line in answer)
        raise CommandFailed("the desk ended the stream: it was stopped, or the token is not valid any more.")

    @contextmanager
    def _answer(
        self, method: str, target: str, body: JsonObject | None, timeout: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection(timeout)
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            where = without_credentials(f"{self._url.scheme}://{self._url.netloc}")
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CommandFailed(f"no desk answers at {where}: {why}. Is «placet serve» running there?") from error
        finally:
            connection.close()

    def _connection(self, timeout: float | None) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout)


def _read(status: int, text: bytes) -> Any:  # Any: as the API's description says
    try:
        found = json.loads(text) if text else None
    except ValueError:
        raise CommandFailed(f"what answered ({status}) is no desk: it did not say JSON.") from None
    if status >= 400:
        raise DeskRefused(status, found if isinstance(found, dict) else {})
    return found


# -- straight on a store ----------------------------------------------------------------------------------------------


class OnStore:
    """Asks the desk's own application in this process; nobody listens on a port."""

    def __init__(self, store: str, agents: list[Any], *, begins: bool) -> None:
        if find_spec("starlette") is None:
            raise UsageError("this command needs an extra that is not installed: pip install 'placet[desk]'.")
        from placet.desk import Desk
        from placet.desk.app import create_app
        from placet.desk.web.settings import WebSettings

        self._runner = asyncio.Runner()
        self._store = open_store(store, create=begins)
        self._desk = Desk(self._store, agents=agents, run=False)
        settings = WebSettings(
            is_open=True, open_name=this_user(), requests_per_second=1e9, burst=10**9, hosts=("placet",)
        )
        self._app = create_app(self._desk, settings)
        self._runner.run(self._desk.__aenter__())

    def close(self) -> None:
        try:
            self._runner.run(self._shut())
        finally:
            self._runner.close()

    async def _shut(self) -> None:
        await self._app.state.web.feed.close()
        await self._desk.__aexit__(None, None, None)
        await self._store.close()

    def ask(self, method: str, path: str, query: Query | None = None, body: JsonObject | None = None) -> Any:
        text = b"" if body is None else json.dumps(body).encode()
        status, parts = 0, list[bytes]()

        def on_message(message: Mapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        self._runner.run(self._call(method, target_of(path, query), text, on_message))
        return _read(status, b"".join(parts))

    def listen(self, path: str, query: Query) -> Iterator[JsonObject]:
        chunks: asyncio.Queue[bytes] = asyncio.Queue()

        status = 200

        def on_message(message: Mapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            if "body" in message:
                chunks.put_nowait(message["body"])

        async def start() -> asyncio.Task[None]:
            return asyncio.create_task(self._call("GET", target_of(path, query), b"", on_message))

        task = self._runner.run(start())
        try:
            first = self._runner.run(chunks.get())
            if status != 200:  # it says why there is no stream, and ends
                _read(status, first)
            yield from read_events(self._lines(first, chunks))
        finally:
            task.cancel()

    def _lines(self, first: bytes, chunks: asyncio.Queue[bytes]) -> Iterator[str]:
        rest = first.decode()
        while True:
            *whole, rest = rest.split("\n")
            yield from whole
            rest += self._runner.run(chunks.get()).decode()

    async def _call(
        self, method: str, target: str, body: bytes, on_message: Callable[[Mapping[str, Any]], None]
    ) -> None:
        path, _, query = target.partition("?")
        headers = [(b"host", b"placet"), (b"accept", b"application/json")]
        if body:
            headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": headers,
            "client": ("127.0.0.1", 0),
            "server": ("placet", 80),
        }
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if unread:
                return unread.pop()
            await asyncio.Event().wait()  # whoever asks here does not hang up
            return None

        async def send(message: Any) -> None:
            on_message(message)

        await self._app(scope, receive, send)
