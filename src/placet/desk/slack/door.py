"""The connection on which Slack tells what people click: Socket Mode, so that no public address is needed.

Every desk with an app token opens one. Slack gives each click to one of them, and whichever it is finds all it needs in
the store. A click is confirmed to Slack when it is decided: if this process dies before, Slack shows whoever clicked
that it did not work, or gives the click to another desk.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
from typing import TYPE_CHECKING, Any

from placet.channels.slack_client import APP_TOKEN, SlackSettings, slack_settings, web_client
from placet.desk.slack.clicks import Clicks
from placet.desk.web.context import Web
from placet.facts.errors import UserError
from placet.stores.outages import Outage

if TYPE_CHECKING:
    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

logger = logging.getLogger("placet.desk.slack")

CONFIRM_SECONDS = 2.0
"""Slack waits three. What takes longer is confirmed before it is done."""
AGAIN_SECONDS = 5.0


def door_of(web: Web) -> Door | None:
    """The door, where the environment has the tokens; None where it has none."""
    if not os.environ.get(APP_TOKEN):
        return None
    try:
        settings = slack_settings()
        if importlib.util.find_spec("slack_sdk") is None:
            raise UserError("Clicks in Slack need an extra that is not installed: pip install 'placet[slack]'.")
    except UserError as error:
        logger.error("no clicks", extra={"action": "slack_not_set_up", "error": error.message})
        return None
    return Door(web, settings)


class Door:
    def __init__(self, web: Web, settings: SlackSettings) -> None:
        self._web = web
        self._settings = settings
        self._at_work: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Until cancelled. The client connects again by itself; what it gives up on is begun anew here."""
        outage = Outage(logger, "slack_away", "slack_back")
        while True:
            try:
                await self._listen(outage)
            except Exception as error:  # noqa: BLE001  # Slack, or the way to it, is away: there is another time
                outage.note(error)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self, outage: Outage) -> None:
        from slack_sdk.socket_mode.aiohttp import SocketModeClient

        web_api = web_client(self._settings)
        own = await web_api.auth_test()
        clicks = Clicks(self._web, web_api, str(own["team_id"]))

        async def take(client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
            task = asyncio.create_task(self._answer(clicks, client, request))
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)

        assert self._settings.app_token is not None
        client = SocketModeClient(app_token=self._settings.app_token, web_client=web_api)
        client.socket_mode_request_listeners.append(take)
        try:
            await client.connect()  # type: ignore[no-untyped-call]  # the library's
            outage.end()
            logger.info("slack connected", extra={"action": "slack_connected", "team": own["team_id"]})
            await asyncio.Event().wait()
        finally:
            await client.close()  # type: ignore[no-untyped-call]  # the library's
            await client.aiohttp_client_session.close()

    async def _answer(self, clicks: Clicks, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        import aiohttp
        from slack_sdk.socket_mode.response import SocketModeResponse

        work = asyncio.create_task(clicks.answer(request.type, request.payload))
        said: dict[str, Any] | None = None
        try:
            said = await asyncio.wait_for(asyncio.shield(work), CONFIRM_SECONDS)
        except TimeoutError:
            logger.warning("slow answer", extra={"action": "slack_answer_slow"})
        except Exception:  # the bug is ours; Slack need not send it again
            logger.exception("click failed", extra={"action": "slack_click_failed"})
        try:
            await client.send_socket_mode_response(SocketModeResponse(request.envelope_id, said))
        except (aiohttp.ClientError, OSError) as error:
            logger.warning("not confirmed", extra={"action": "slack_not_confirmed", "error": repr(error)})
        if not work.done():
            await asyncio.wait([work])
            if not work.cancelled() and work.exception() is None and (late := work.result()) is not None:
                await clicks.say_late(request.payload, late)
