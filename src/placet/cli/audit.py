"""`placet audit`: check the chains of all logs, or print their heads to keep elsewhere."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import msgspec

from placet.cli.exit_codes import FAILED, OK, WrongUsage
from placet.cli.loading import add_json, add_store, store_of
from placet.fleet.audit import Head, heads, parse_heads, verify

DESCRIPTION = """\
placet audit verify   checks every log: a changed, added or reordered line is
                      found by its chain
placet audit head     prints a line for each run, to be kept where nobody who
                      can write to the store can write

With --head FILE, verify also finds what the chain alone cannot: a tail that
was cut off, a log that was written anew, a run that is gone.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = "verify ends with 1 when something is not whole."
    parser.add_argument("action", choices=["verify", "head"], metavar="verify|head")
    parser.add_argument("--head", metavar="FILE", help="heads that were printed and kept earlier")
    add_store(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "head":
        return asyncio.run(_heads(options))
    try:
        kept = parse_heads(Path(options.head).read_text(encoding="utf-8")) if options.head else []
    except OSError as error:
        raise WrongUsage(f"the heads in {options.head!r} cannot be read: {error.strerror}.") from error
    return asyncio.run(_verify(options, kept))


async def _heads(options: argparse.Namespace) -> int:
    store = store_of(options)
    try:
        async for head in heads(store):
            print(msgspec.json.encode(head).decode() if options.json else head.line())
    finally:
        await store.close()
    return OK


async def _verify(options: argparse.Namespace, kept: list[Head]) -> int:
    store = store_of(options)
    checked = broken = 0
    try:
        async for verdict in verify(store, kept):
            checked += 1
            broken += not verdict.is_whole
            if options.json:
                print(msgspec.json.encode(verdict).decode())
            elif not verdict.is_whole:
                print(f"✗ {verdict.run_id}  {verdict.verdict}: {verdict.message}")
    finally:
        await store.close()
    if not options.json:
        print(f"{checked} runs checked, {broken} not whole.")
    return FAILED if broken else OK
