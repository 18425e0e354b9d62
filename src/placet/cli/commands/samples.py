"""`placet samples`: what is remembered of people's decisions, by which cards say what is usual; and taking it anew."""

from __future__ import annotations

import asyncio

import click
import msgspec

from placet.cli.options import command, json_option, store_option
from placet.clock import SYSTEM_CLOCK
from placet.service.baselines import Baselines
from placet.stores.opening import open_store


@command("samples")
@click.option("--rebuild", is_flag=True, help="forget all samples first, and take them from the logs again")
@store_option
@json_option
def samples(store: str, *, rebuild: bool, as_json: bool) -> None:
    """What is remembered of people's decisions, by which a card says what is usual.

    A desk that serves takes its samples from the logs by itself. This command does it once, here and now: what is new,
    or, with --rebuild, all of it after all samples were forgotten. No decision rests on them.
    """
    asyncio.run(_take(store, rebuild=rebuild, as_json=as_json))


async def _take(url: str, *, rebuild: bool, as_json: bool) -> None:
    async with open_store(url) as store:
        baselines = Baselines(store, SYSTEM_CLOCK)
        if rebuild:
            count = await baselines.rebuild()
        else:
            await baselines.fill()
            count = await baselines.count()
    if as_json:
        print(msgspec.json.encode({"samples": count}).decode())
        return
    print(f"{count} {'decision is' if count == 1 else 'decisions are'} remembered.")
