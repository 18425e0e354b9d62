"""`placet inbox`: the inbox as a full screen in a terminal."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec

import click

from placet.cli.client import desk_at
from placet.cli.options import Place, agents_option, command, desk_options
from placet.cli.output import is_interactive
from placet.facts.codec import JsonObject


@command("inbox")
@desk_options
@agents_option
def inbox(place: Place, *, as_json: bool) -> None:
    """Decide about what waits, in a full screen: decks, cards, and the keys of the page.

    What waits stands on the left and appears by itself; what is open stands on the right. «?» shows the keys. It needs
    the extra «inbox» (Textual). What one key approves, because it is usual, begins a few seconds later: «u» takes it
    back.
    """
    if as_json or not is_interactive():
        raise click.UsageError("the inbox needs a terminal: «placet pending --json» lists what waits for programs.")
    if find_spec("textual") is None:
        raise click.UsageError("this command needs an extra that is not installed: pip install 'placet[inbox]'.")
    asyncio.run(_show(place))


async def _show(place: Place) -> None:
    from placet.cli.inbox.app import InboxApp
    from placet.cli.inbox.queue import Queue

    async with desk_at(place) as desk:
        await desk.ask("GET", "/v1/numbers")  # a desk that cannot be used says so before the screen is taken
        await InboxApp(Queue(desk), edit=_edited).run_async()


def _edited(arguments: JsonObject) -> JsonObject | None:
    text = click.edit(json.dumps(arguments, indent=2, ensure_ascii=False) + "\n", extension=".json")
    if text is None:
        return None
    found = json.loads(text)
    if not isinstance(found, dict):
        raise click.ClickException("Arguments are one JSON object: nothing was decided.")
    return found
