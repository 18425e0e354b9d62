"""`placet doctor`: which waiting runs cannot go on with today's code, and why."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from placet.cli.exit_codes import FAILED, OK
from placet.cli.loading import add_json, add_store, agents_of, store_of
from placet.service.doctor import Examined, examine

DESCRIPTION = """\
Loads every run that has not ended against today's agents, and says which of
them cannot go on and why: a tool that is gone, an agent that was renamed,
arguments that no longer fit. Run it with the new code before it is deployed.
Nothing is changed.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = "It ends with 1 when a run cannot go on."
    parser.add_argument("agents", metavar="MODULE:NAME", help="where today's agents are: an Agent or a list")
    add_store(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    agents, store = agents_of(options.agents), store_of(options)
    looked_at = stopped = asked_anew = 0
    try:
        async for examined in examine(store, agents):
            looked_at += 1
            stopped += any(finding.stops for finding in examined.findings)
            asked_anew += any(not finding.stops for finding in examined.findings)
            _show(examined, as_json=options.json)
    finally:
        await store.close()
    if not options.json:
        print(f"{looked_at} runs looked at: {stopped} cannot go on, {asked_anew} will be asked about anew.")
    return FAILED if stopped else OK


def _show(examined: Examined, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(examined).decode())
        return
    for finding in examined.findings:
        print(f"{'✗' if finding.stops else '!'} {examined.run_id}  {examined.agent}  {finding.code}")
        print(f"    {finding.message}")
