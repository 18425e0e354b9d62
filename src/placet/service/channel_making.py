"""The channel of a subscription, made of what it says and of what this process's environment says: the credentials of
mail servers and chats are in no store."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from placet.channels.everything_else import AppriseChannel
from placet.channels.mail import MailChannel, mail_server
from placet.channels.slack_client import slack_settings, web_client
from placet.channels.targets import ChannelName, rest_of
from placet.channels.webhook import WebhookChannel
from placet.facts.errors import UserError
from placet.ports import Channel, DeskStore
from placet.service.browsers import push_channel
from placet.service.slack_messages import SlackChannel
from placet.service.subscriptions import Subscription

_PACKAGES: dict[ChannelName, str] = {
    "mail": "aiosmtplib",
    "slack": "slack_sdk",
    "push": "pywebpush",
    "apprise": "apprise",
}


async def make_channel(subscription: Subscription, now: float, allowed: Sequence[str], store: DeskStore) -> Channel:
    """UserError where this process cannot send on it."""
    _refuse_without_package(subscription.channel)
    match subscription.channel:
        case "mail":
            return MailChannel(rest_of(subscription.url), mail_server())
        case "slack":
            return SlackChannel(subscription, store, web_client(slack_settings()))
        case "push":
            return await push_channel(subscription, store, allowed)
        case "apprise":
            return AppriseChannel(rest_of(subscription.url))
        case _:
            keys = [each.key for each in subscription.secrets if each.until is None or each.until > now]
            return WebhookChannel(subscription.url, keys, allowed=allowed)


def _refuse_without_package(channel: ChannelName) -> None:
    package = _PACKAGES.get(channel)
    if package is not None and importlib.util.find_spec(package) is None:
        raise UserError(f"This process cannot send by {channel}: install placet[{channel}] beside it.")
