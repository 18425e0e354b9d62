"""Everything else, one way: what `apprise` can reach. Where it leads is in the environment of desks and workers, by a
name: such addresses are passwords, and the store holds none."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping

from placet.channels.words import DECIDES_NOTHING, words_of
from placet.facts.errors import UserError
from placet.ports import Delivered, OutgoingMessage

PREFIX = "PLACET_APPRISE_"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}")


def checked_name(text: str) -> str:
    """The name of a place; UserError for an address, which would be a secret in the store."""
    if not _NAME.fullmatch(text):
        raise UserError(
            f"Name it, as in apprise:oncall, and put its address into the environment: {PREFIX}ONCALL=…. The store "
            "holds no such address, since it is a password."
        )
    return text


class AppriseChannel:
    """One place of the environment: an address of apprise, or several with spaces between them."""

    def __init__(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        variable = PREFIX + checked_name(name).upper()
        self._urls = (os.environ if environment is None else environment).get(variable, "").split()
        if not self._urls:
            raise UserError(f"Nobody said here what {name!r} is: set {variable} to an address of apprise.")

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        import apprise

        words = words_of(message)
        told = apprise.Apprise()
        if not await asyncio.to_thread(lambda: all(told.add(url) for url in self._urls)):  # it loads all it knows
            return Delivered(error="apprise does not know such an address")
        link = [f"To look and decide: {words.url}"] if words.url is not None else []
        body = "\n".join([*words.lines, *link, DECIDES_NOTHING])
        is_told = await told.async_notify(title=words.title, body=body, body_format=apprise.NotifyFormat.TEXT)
        return (
            Delivered() if is_told else Delivered(error="apprise could not tell it: the log of this process says why")
        )
