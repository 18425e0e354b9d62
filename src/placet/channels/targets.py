"""Where messages go: how an address begins says by which channel they go there."""

from __future__ import annotations

from typing import Literal, TypeAlias

ChannelName: TypeAlias = Literal["webhook", "slack", "mail", "push", "apprise"]

_BEGINNINGS: dict[str, ChannelName] = {
    "mailto": "mail",
    "slack": "slack",
    "push": "push",
    "apprise": "apprise",
}
BEGINNINGS = ("https", *_BEGINNINGS)
"""How the addresses begin that this version knows."""

ADDRESSES = "https://…, slack:#channel, mailto:… or apprise:NAME"
"""The kinds of addresses that a person types, as they are named to them."""


def channel_of(url: str) -> ChannelName:
    """By which channel messages go to an address. What nothing else fits is taken for a webhook's."""
    return _BEGINNINGS.get(url.partition(":")[0].lower(), "webhook")


def rest_of(url: str) -> str:
    """The address without its beginning: `mailto:ana@example.com` is `ana@example.com`."""
    return url.partition(":")[2].removeprefix("//").strip()
