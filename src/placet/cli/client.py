"""How commands ask a desk: over HTTP (`--desk URL`), or straight on a store. Either way it is the same API: on a store,
the desk's application answers in this process, and the user who is logged in to this system is who asks.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlsplit

from click import ClickException, UsageError

from placet.cli.loading import agents_of, refuse_if_missing
from placet.cli.options import IN_A_TERMINAL, Paging, Place
from placet.cli.output import Screen, complain, echo_json, shown, this_user
from placet.cli.tables import Row, print_table
from placet.facts.addresses import without_credentials
from placet.facts.codec import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import httpx2

TIMEOUT = 30.0
PAGE = 200
COUNTED = 1000
"""How far the rest of a list is counted."""
Query: TypeAlias = Mapping[str, object]


class Refused(ClickException):
    """The desk said no: what it said, and the decision that stands, if one does."""

    def __init__(self, status: int, problem: JsonObject) -> None:
        self.status = status
        self.problem = problem
        super().__init__(_explained(status, problem))


def _explained(status: int, problem: JsonObject) -> str:
    text = shown(str(problem.get("detail") or problem.get("title") or f"the desk answered {status}"), keep_lines=True)
    errors = problem.get("errors")
    for each in errors if isinstance(errors, list) else ():
        if str(each.get("message")) not in text:  # some details say it already
            text += f"\n  {shown(str(each.get('field')))}: {shown(str(each.get('message')))}"
    if status == 401:
        text += "\nSet PLACET_TOKEN to a token of yours (an admin makes one: placet tokens add)."
    return text


# -- asking -----------------------------------------------------------------------------------------------------------


class AsyncDesk:
    """A desk over HTTP."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def ask(self, method: str, path: str, query: Query | None = None, body: JsonObject | None = None) -> Any:
        """What the desk answers (Any: as its description says); Refused when it says no."""
        content = None if body is None else json.dumps(body)
        headers = None if body is None else {"Content-Type": "application/json"}
        with self._sentences():
            answer = await self._http.request(method, path, params=_given(query), content=content, headers=headers)
        return _read(answer.status_code, answer.content)

    async def events(self, path: str, query: Query) -> AsyncGenerator[JsonObject]:
        """The events of a live stream, one by one, for ever."""
        from httpx2 import EventSource

        with self._sentences():
            async with self._stream(path, query) as answer:
                if answer.status_code != 200:
                    _read(answer.status_code, await answer.aread())
                async for event in EventSource(answer, max_event_size=None):
                    if event.data:
                        yield json.loads(event.data)
        raise ClickException("the desk ended the stream: it was stopped, or the token is not valid any more.")

    @asynccontextmanager
    async def _stream(self, path: str, query: Query) -> AsyncIterator[httpx2.Response]:
        async with self._http.stream("GET", path, params=_given(query), timeout=None) as answer:
            yield answer

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """What goes wrong on the way, in a sentence."""
        from httpx2 import HTTPError

        try:
            yield
        except HTTPError as error:
            where = without_credentials(str(self._http.base_url).rstrip("/"))
            why = shown(str(error)) or type(error).__name__
            raise ClickException(f"no desk answers at {where}: {why}. Is «placet serve» running there?") from error


class DeskOnStore(AsyncDesk):
    """The desk's own application in this process; nothing listens on a port."""

    def __init__(self, http: httpx2.AsyncClient, app: Any) -> None:  # Any: typed where the extra is installed
        super().__init__(http)
        self._app = app

    @asynccontextmanager
    async def _stream(self, path: str, query: Query) -> AsyncIterator[httpx2.Response]:
        """The feed itself: httpx's transport for applications gives an answer only when it is whole."""
        import httpx2

        after, run_id = query.get("after"), query.get("run_id")
        feed = self._app.state.web.feed.stream(after, run_id)
        head = {"Content-Type": "text/event-stream"}
        try:
            yield httpx2.Response(
                200, headers=head, content=feed, request=httpx2.Request("GET", f"http://placet{path}")
            )
        finally:
            await feed.aclose()


class Client:
    """The same for commands, which are not asynchronous: a person may be asked in between."""

    def __init__(self, runner: asyncio.Runner, desk: AsyncDesk) -> None:
        self._runner = runner
        self._desk = desk

    def ask(self, method: str, path: str, query: Query | None = None, body: JsonObject | None = None) -> Any:
        return self._runner.run(self._desk.ask(method, path, query, body))

    def listen(self, path: str, query: Query) -> Generator[JsonObject]:
        events = self._desk.events(path, query)

        async def following() -> JsonObject:
            return await anext(events)

        try:
            while True:
                yield self._runner.run(following())
        finally:
            _close(self._runner, events.aclose())


def _close(runner: asyncio.Runner, closing: Coroutine[Any, Any, object]) -> None:
    """Close something. An impatient second Ctrl-C stops the loop on the way: the command is still only interrupted."""
    try:
        runner.run(closing)
    except RuntimeError as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt from error


@contextmanager
def client_of(place: Place, *, begins: bool = False, asks: bool = False) -> Iterator[Client]:
    """The desk that the options name.

    A store that is not there is made only by what `begins` something in it: a slip in its address must not look like an
    empty store. `asks`: on a store, what guests claimed and did not report in time is put before people first, as a
    desk does that is up.
    """
    with asyncio.Runner() as runner:
        opened = desk_at(place, begins=begins, asks=asks)
        desk = runner.run(opened.__aenter__())
        try:
            yield Client(runner, desk)
        finally:
            _close(runner, opened.__aexit__(None, None, None))


@asynccontextmanager
async def desk_at(place: Place, *, begins: bool = False, asks: bool = False) -> AsyncIterator[AsyncDesk]:
    opened = _over_http(place.desk, token_of(place)) if place.desk else _on_store(place, begins=begins, asks=asks)
    async with opened as desk:
        yield desk


@asynccontextmanager
async def _over_http(url: str, token: str | None) -> AsyncIterator[AsyncDesk]:
    import httpx2

    address = _address(url)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    # The environment's proxies and .netrc are not for a desk: its address and its token are what we were given.
    verify: ssl.SSLContext | bool = ssl.create_default_context() if address.startswith("https") else False
    async with httpx2.AsyncClient(
        base_url=address, headers=headers, timeout=TIMEOUT, trust_env=False, verify=verify
    ) as http:
        yield AsyncDesk(http)


def _address(url: str) -> str:
    """Scheme, host and port: a name and a password in it are not sent."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        pass
    raise UsageError(f"{without_credentials(url)!r} is not the address of a desk, such as http://127.0.0.1:8700.")


@asynccontextmanager
async def _on_store(place: Place, *, begins: bool, asks: bool) -> AsyncIterator[AsyncDesk]:
    if any(find_spec(name) is None for name in ("starlette", "httpx2")):
        raise UsageError("this command needs an extra that is not installed: pip install 'placet[desk]'.")
    import httpx2

    from placet.desk import Desk
    from placet.desk.app import create_app
    from placet.desk.web.settings import WebSettings
    from placet.stores.opening import open_store

    agents = agents_of(place.agents) if place.agents else []
    if not begins:
        refuse_if_missing(place.store)
    settings = WebSettings(is_open=True, open_name=this_user(), requests_per_second=1e9, burst=10**9, hosts=("placet",))
    async with (
        open_store(place.store, create=begins) as store,
        Desk(store, agents=agents, run=False) as desk,
    ):
        if asks:
            await desk.guests.end_leases()
        app = create_app(desk, settings)
        try:
            async with httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app), base_url="http://placet", headers={"Accept": "application/json"}
            ) as http:
                yield DeskOnStore(http, app)
        finally:
            await app.state.web.feed.close()


def token_of(place: Place) -> str | None:
    found, where = os.environ.get("PLACET_TOKEN"), "$PLACET_TOKEN"
    if place.token_file is not None:
        where = repr(place.token_file)
        try:
            found = Path(place.token_file).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"the token in {where} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"what {where} holds is no token.") from error
    found = found.strip() if found is not None else None
    if found and not (found.isascii() and found.isprintable()):
        raise UsageError(f"what {where} holds is no token: one is a line that begins with «placet_».")
    return found


def part(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


def _given(query: Query | None) -> dict[str, str]:
    return {name: str(value) for name, value in (query or {}).items() if value is not None}


def _read(status: int, text: bytes) -> Any:  # Any: as the API's description says
    try:
        found = json.loads(text) if text else None
    except ValueError:
        raise ClickException(f"what answered ({status}) is no desk: it did not say JSON.") from None
    if status >= 400:
        raise Refused(status, found if isinstance(found, dict) else {})
    return found


# -- lists ------------------------------------------------------------------------------------------------------------


def all_pages(client: Client, path: str, query: Query, most: int | None = None) -> Iterator[JsonObject]:
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


def show_rows(
    rows: Sequence[JsonObject],
    head: Sequence[str],
    row: Callable[[JsonObject, Screen], Row],
    nothing: str,
    *,
    as_json: bool = False,
) -> None:
    if as_json:
        for each in rows:
            echo_json(each)
        return
    screen = Screen()
    if rows:
        print_table(screen, head, [row(each, screen) for each in rows])
    else:
        screen.show(nothing)


def show_pages(
    client: Client,
    path: str,
    query: Query,
    paging: Paging,
    head: Sequence[str],
    row: Callable[[JsonObject, Screen], Row],
    nothing: str,
    *,
    as_json: bool,
) -> None:
    """The list as far as it is wanted; what is left out is counted, and how to get it is said."""
    is_for_people = not (as_json or Screen().is_piped)
    most = None if paging.is_whole else paging.limit or (IN_A_TERMINAL if is_for_people else None)
    found: list[JsonObject] = []
    cursor: object = paging.cursor
    while most is None or len(found) < most:
        wanted = PAGE if most is None else min(PAGE, most - len(found))
        page = client.ask("GET", path, {**query, "cursor": cursor, "limit": wanted})
        found += page["data"]
        if as_json:  # at once: whoever reads them need not wait for all
            show_rows(page["data"], head, row, nothing, as_json=True)
        cursor = page["next"]
        if cursor is None:
            break
    if not as_json:
        show_rows(found, head, row, nothing)
    if cursor is not None:
        complain(f"{_rest(client, path, query, cursor)} more: --all shows all, --cursor {cursor} the next ones.")


def _rest(client: Client, path: str, query: Query, cursor: object) -> str:
    count = 0
    while cursor is not None:
        if count >= COUNTED:
            return f"more than {count:,}"
        page = client.ask("GET", path, {**query, "cursor": cursor, "limit": PAGE})
        count += len(page["data"])
        cursor = page["next"]
    return f"{count:,}"


def warn(found: JsonObject) -> None:
    """Say on standard error what the desk wants to be known about what it has done."""
    warnings = found.get("warnings")
    for each in warnings if isinstance(warnings, list) else ():
        complain(str(each))
