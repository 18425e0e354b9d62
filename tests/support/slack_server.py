"""Slack for tests: its Web API and its Socket Mode, on loopback, in the test's own event loop, and strict.

What Slack would refuse is refused here with Slack's own code, and kept in `refused`: a test that ends with something in
there has found a mistake. People are driven by `click`, `submit` and `command`: each goes to one open connection as an
envelope, and is confirmed within three seconds or shown to the person as failed.

    async with slack_server() as slack:
        message = await slack.written("C0FINANCE")          # waits for a message
        await slack.click("U0ANA", message, "Approve")
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.support.slack_rules import Wrong, check_arguments, check_blocks, check_view

PATIENCE = 60.0
CONFIRM_SECONDS = 3.0
BOT, APP = "xoxb-bot-of-tests", "xapp-app-of-tests"
TEAM, OTHER_TEAM = "T0OURS", "T0THEIRS"


@dataclass
class Message:
    channel: str
    ts: str
    text: str
    blocks: list[dict[str, Any]]
    thread: str | None = None
    edits: int = 0
    seen_by: str | None = None
    """Only this person sees it; None: the channel."""

    @property
    def words(self) -> str:
        """All that a reader sees, in one text."""
        return json.dumps([self.text, self.blocks], ensure_ascii=False)

    @property
    def buttons(self) -> list[str]:
        return [each["text"]["text"] for each in buttons_of(self.blocks)]

    def button(self, label: str) -> dict[str, Any]:
        return next(each for each in buttons_of(self.blocks) if each["text"]["text"].startswith(label))


@dataclass
class View:
    id: str
    user: str
    view: dict[str, Any]
    is_open: bool = True
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return json.dumps(self.view, ensure_ascii=False)

    @property
    def buttons(self) -> list[str]:
        return [each["text"]["text"] for each in buttons_of(self.view["blocks"])]


class NotConfirmed(Exception):
    """Slack shows whoever clicked that it did not work."""


def buttons_of(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for block in blocks if block["type"] == "actions" for each in block["elements"]]


class SlackServer:
    def __init__(self) -> None:
        self.channels = {"C0FINANCE": "#finance", "C0OPS": "#ops"}
        self.people = {"U0ANA": "ana", "U0BEN": "ben", "U0EVE": "eve"}
        self.messages: dict[tuple[str, str], Message] = {}
        self.private: list[Message] = []
        self.views: list[View] = []
        self.refused: list[str] = []
        self.envelopes: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.fails: list[str] = []
        """Codes with which the next writings are refused: `ratelimited`, or any other."""
        self.port = 0
        self._sockets: list[web.WebSocketResponse] = []
        self._tickets: set[str] = set()
        self._triggers: dict[str, tuple[str, float]] = {}
        self._confirmed: dict[str, asyncio.Future[dict[str, Any] | None]] = {}
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PLACET_SLACK_BOT_TOKEN": BOT,
            "PLACET_SLACK_APP_TOKEN": APP,
            "PLACET_SLACK_API_URL": self.api,
        }

    # -- what tests look at -------------------------------------------------------------------------------------------

    async def until(self, is_so: Callable[[], object]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := is_so()):
                self._changed.clear()
                try:
                    await asyncio.wait_for(self._changed.wait(), 0.2)
                except TimeoutError:
                    continue
        return found

    async def written(self, channel: str = "C0FINANCE", count: int = 1) -> Message:
        """The newest message of a channel, once there are so many."""
        await self.until(lambda: len(self.of(channel)) >= count)
        return self.of(channel)[-1]

    def of(self, channel: str) -> list[Message]:
        return [each for (place, _), each in sorted(self.messages.items()) if place == channel]

    @property
    def is_connected(self) -> bool:
        return bool(self._sockets)

    async def connected(self, count: int = 1) -> None:
        await self.until(lambda: len(self._sockets) >= count)

    async def cut(self) -> None:
        """All connections end without a word, as when a network breaks."""
        for each in self._sockets:
            await each.close()
        self._sockets.clear()

    # -- what people do -----------------------------------------------------------------------------------------------

    async def click(
        self, user: str, place: Message | View, label: str, *, team: str = TEAM, change: Any = None
    ) -> dict[str, Any] | None:
        """A click on a button; `change` alters what Slack sends, as nobody but Slack could."""
        found = next(
            each
            for each in buttons_of(place.view["blocks"] if isinstance(place, View) else place.blocks)
            if each["text"]["text"].startswith(label)
        )
        payload = self._payload("block_actions", user, team)
        payload["actions"] = [{**found, "block_id": "b1", "action_ts": f"{time.time():.6f}"}]
        if isinstance(place, View):
            payload["container"] = {"type": "view", "view_id": place.id}
            payload["view"] = place.view
        else:
            payload["container"] = {
                "type": "message",
                "message_ts": place.ts,
                "channel_id": place.channel,
                "is_ephemeral": place.seen_by is not None,
            }
            payload["channel"] = {"id": place.channel, "name": "a-channel"}
            payload["message"] = {"ts": place.ts, "blocks": place.blocks}
        if change is not None:
            change(payload)
        return await self.deliver("interactive", payload)

    async def submit(
        self, view: View, said: dict[str, str | None] | None = None, *, user: str | None = None, team: str = TEAM
    ) -> dict[str, Any] | None:
        """Press the dialogue's button, after writing into its inputs. It shows what the answer says."""
        values: dict[str, dict[str, Any]] = {}
        for block in view.view["blocks"]:
            if block["type"] == "input":
                values[block["block_id"]] = {
                    block["element"]["action_id"]: _state(block["element"], (said or {}).get(block["block_id"], ...))
                }
        assert set(said or {}) <= set(values), "there is no such input"
        payload = self._payload("view_submission", user or view.user, team)
        payload["view"] = view.view | {"id": view.id, "state": {"values": values}}
        answer = await self.deliver("interactive", payload, takes_answer=True)
        self._show(view, answer)
        return answer

    def _show(self, view: View, answer: dict[str, Any] | None) -> None:
        action = (answer or {}).get("response_action")
        view.errors = {}
        if action == "errors":
            assert answer is not None
            view.errors = answer["errors"]
            inputs = {each["block_id"] for each in view.view["blocks"] if each["type"] == "input"}
            if not view.errors or not set(view.errors) <= inputs:
                self.refused.append(f"errors about {sorted(view.errors)}, inputs are {sorted(inputs)}")
        elif action == "update":
            assert answer is not None
            try:
                check_view(answer["view"])
            except Wrong as wrong:
                self.refused.append(str(wrong))
            view.view = answer["view"]
        else:
            view.is_open = False

    async def command(self, user: str, text: str, *, team: str = TEAM) -> Message:
        """`/placet …`; what only this person sees of it."""
        payload = {
            "command": "/placet",
            "text": text,
            "team_id": team,
            "user_id": user,
            "user_name": self.people.get(user, "someone"),
            "channel_id": "C0FINANCE",
            "trigger_id": self._trigger(user),
            "api_app_id": "A0",
        }
        answer = await self.deliver("slash_commands", payload, takes_answer=True) or {}
        blocks = answer.get("blocks", [])
        check_blocks(blocks)
        made = Message("C0FINANCE", f"{time.time():.6f}", answer.get("text", ""), blocks, seen_by=user)
        self.private.append(made)
        return made

    def _payload(self, kind: str, user: str, team: str) -> dict[str, Any]:
        return {
            "type": kind,
            "team": {"id": team, "domain": "tests"},
            "user": {"id": user, "username": self.people.get(user, "x"), "team_id": team},
            "api_app_id": "A0",
            "token": "an old thing",
            "trigger_id": self._trigger(user),
            "enterprise": None,
            "is_enterprise_install": False,
        }

    def _trigger(self, user: str) -> str:
        made = f"{next(self._numbers)}.{user}.trigger"
        self._triggers[made] = (user, time.monotonic() + CONFIRM_SECONDS)
        return made

    async def deliver(self, kind: str, payload: dict[str, Any], *, takes_answer: bool = False) -> dict[str, Any] | None:
        """One envelope to one connection; what it was confirmed with. NotConfirmed after three seconds."""
        envelope = {
            "type": kind,
            "envelope_id": f"envelope-{next(self._numbers)}",
            "payload": copy.deepcopy(payload),
            "accepts_response_payload": takes_answer,
        }
        self.envelopes.append(envelope)
        return await self.send(envelope)

    async def send(self, envelope: dict[str, Any]) -> dict[str, Any] | None:
        """The same once more is what Slack does with what was not confirmed."""
        await self.connected()
        confirmed: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._confirmed[envelope["envelope_id"]] = confirmed
        socket = self._sockets[next(self._numbers) % len(self._sockets)]
        await socket.send_json(envelope)
        try:
            return await asyncio.wait_for(confirmed, CONFIRM_SECONDS * 10)  # a busy machine is not Slack's clock
        except TimeoutError as error:
            raise NotConfirmed(envelope["envelope_id"]) from error

    # -- the socket ---------------------------------------------------------------------------------------------------

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden
        self._tickets.remove(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A0"}})
        self._sockets.append(socket)
        self._changed.set()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                self._take(json.loads(message.data))
        if socket in self._sockets:
            self._sockets.remove(socket)
        self._changed.set()
        return socket

    def _take(self, said: dict[str, Any]) -> None:
        envelope = next((each for each in self.envelopes if each["envelope_id"] == said.get("envelope_id")), None)
        if envelope is None or not set(said) <= {"envelope_id", "payload"}:
            self.refused.append(f"a confirmation of nothing: {said}")
            return
        if said.get("payload") and not envelope["accepts_response_payload"]:
            self.refused.append(f"an answer that is not taken: {said}")
        confirmed = self._confirmed.pop(said["envelope_id"], None)
        if confirmed is not None and not confirmed.done():
            confirmed.set_result(said.get("payload"))

    # -- the Web API --------------------------------------------------------------------------------------------------

    async def call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        self.calls.append(method)
        wanted = APP if method == "apps.connections.open" else BOT
        if request.headers.get("authorization") != f"Bearer {wanted}":
            return self._no(method, "invalid_auth")
        given = await request.json() if "json" in request.content_type else dict(await request.post())
        writes = method.startswith("chat.")
        if writes and self.fails:
            code = self.fails.pop(0)
            if code == "ratelimited":
                return web.json_response({"ok": False, "error": code}, status=429, headers={"Retry-After": "1"})
            return web.json_response({"ok": False, "error": code})
        try:
            check_arguments(method, given)
            answer = _METHODS[method](self, given)
        except Wrong as wrong:
            self.refused.append(f"{method}: {wrong}")
            return self._no(method, wrong.code)
        except KeyError:
            return self._no(method, "unknown_method")
        self._changed.set()
        return web.json_response({"ok": True, **answer})

    def _no(self, method: str, code: str) -> web.Response:
        if code in ("invalid_auth", "unknown_method"):
            self.refused.append(f"{method}: {code}")
        return web.json_response({"ok": False, "error": code})

    def _auth_test(self, _given: dict[str, Any]) -> dict[str, Any]:
        return {"team_id": TEAM, "team": "Tests", "user_id": "U0BOT", "bot_id": "B0", "url": "https://tests.slack.com/"}

    def _open_socket(self, _given: dict[str, Any]) -> dict[str, Any]:
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets.add(ticket)
        return {"url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}"}

    def _post(self, given: dict[str, Any]) -> dict[str, Any]:
        named = {name: place for place, name in self.channels.items()}
        wanted = given["channel"]
        place = named.get(wanted, wanted)
        if place in self.people:
            place = f"D{place[1:]}"
        elif place not in self.channels:
            raise Wrong("there is no such channel", "channel_not_found")
        ts = f"{time.time():.0f}.{next(self._numbers):06d}"
        made = Message(place, ts, given.get("text", ""), given.get("blocks", []), given.get("thread_ts"))
        self.messages[place, ts] = made
        return {"channel": place, "ts": ts, "message": {"text": made.text}}

    def _update(self, given: dict[str, Any]) -> dict[str, Any]:
        found = self.messages.get((given["channel"], given["ts"]))
        if found is None:
            return {"ok": False, "error": "message_not_found"}
        found.text, found.blocks, found.edits = given.get("text", ""), given.get("blocks", []), found.edits + 1
        return {"channel": found.channel, "ts": found.ts, "text": found.text}

    def _tell(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["channel"] not in self.channels or given["user"] not in self.people:
            raise Wrong("nobody there", "user_not_in_channel")
        ts = f"{time.time():.0f}.{next(self._numbers):06d}"
        blocks = given.get("blocks", [])
        self.private.append(Message(given["channel"], ts, given.get("text", ""), blocks, seen_by=given["user"]))
        return {"message_ts": ts}

    def _open_view(self, given: dict[str, Any]) -> dict[str, Any]:
        user, _until = self._triggers.pop(given["trigger_id"], ("", 0.0))
        if not user:
            raise Wrong("a trigger opens one view", "expired_trigger_id")
        view = given["view"] if isinstance(given["view"], dict) else json.loads(given["view"])
        check_view(view)
        made = View(f"V{next(self._numbers)}", user, view)
        self.views.append(made)
        return {"view": view | {"id": made.id}}


_METHODS: dict[str, Callable[[SlackServer, dict[str, Any]], dict[str, Any]]] = {
    "auth.test": SlackServer._auth_test,
    "apps.connections.open": SlackServer._open_socket,
    "chat.postMessage": SlackServer._post,
    "chat.update": SlackServer._update,
    "chat.postEphemeral": SlackServer._tell,
    "views.open": SlackServer._open_view,
}


def _state(element: dict[str, Any], said: Any) -> dict[str, Any]:
    """What stands in an input: what was written, or what it began with."""
    kind = element["type"]
    if kind == "static_select":
        begun = element.get("initial_option")
        found = next((each for each in element["options"] if each["text"]["text"] == said), None)
        return {"type": kind, "selected_option": begun if said is ... else found}
    return {"type": kind, "value": element.get("initial_value") if said is ... else (said or None)}


@asynccontextmanager
async def slack_server() -> AsyncIterator[SlackServer]:
    found = SlackServer()
    app = web.Application()
    app.router.add_post("/api/{method}", found.call)
    app.router.add_get("/link", found.socket)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    found.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        await found.cut()
        await runner.cleanup()
    assert found.refused == []
