"""How Slack is reached: the tokens of our app there, out of the environment, and the client that speaks with it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from placet.channels.webhook import trust
from placet.facts.errors import UserError

if TYPE_CHECKING:
    from slack_sdk.errors import SlackApiError
    from slack_sdk.web.async_client import AsyncWebClient

BOT_TOKEN = "PLACET_SLACK_BOT_TOKEN"
APP_TOKEN = "PLACET_SLACK_APP_TOKEN"
API = "PLACET_SLACK_API_URL"
USUAL_API = "https://slack.com/api/"
SECONDS = 20
"""How long Slack may take for an answer."""
_PLACE = re.compile(r"#[\w.-]{1,80}|[CGDU][A-Z0-9]{2,20}")
_HERE = ("localhost", "127.0.0.1", "::1")


class SlackSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Our app in one workspace."""

    bot_token: str
    """`xoxb-…`: with it messages are written."""
    app_token: str | None
    """`xapp-…`: with it clicks are heard. Only desks need it."""
    api: str


def slack_settings(environment: Mapping[str, str] | None = None) -> SlackSettings:
    """As the environment says; UserError where it does not."""
    given = os.environ if environment is None else environment
    bot, app, api = given.get(BOT_TOKEN, ""), given.get(APP_TOKEN, ""), given.get(API, "") or USUAL_API
    if not bot.startswith("xoxb-"):
        raise UserError(f"No Slack app is known here: set {BOT_TOKEN} to its bot token, xoxb-….")
    if app and not app.startswith("xapp-"):
        raise UserError(f"{APP_TOKEN} is the app-level token of the Slack app, xapp-….")
    parts = urlsplit(api)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _HERE):
        raise UserError(f"{API} begins with https://.")
    return SlackSettings(bot_token=bot, app_token=app or None, api=api.rstrip("/") + "/")


def web_client(settings: SlackSettings) -> AsyncWebClient:
    from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
    from slack_sdk.web.async_client import AsyncWebClient

    is_tls = settings.api.startswith("https://")
    return AsyncWebClient(
        token=settings.bot_token,
        base_url=settings.api,
        timeout=SECONDS,
        ssl=trust(os.environ.get("SSL_CERT_FILE")) if is_tls else None,
        retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=2)],
    )


def checked_place(text: str) -> str:
    """A channel by its name or id, or a person by their id; UserError for anything else."""
    if not _PLACE.fullmatch(text):
        raise UserError(f"{text[:80]!r} is no Slack channel: write slack:#finance, or its id, slack:C0123456789.")
    return text


def error_code(error: SlackApiError) -> str:
    """What Slack calls the trouble, such as `channel_not_found`."""
    data = error.response.data if error.response is not None else None
    return str(data.get("error", "unknown")) if isinstance(data, dict) else f"HTTP {error.response.status_code}"
