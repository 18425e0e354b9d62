"""`placet audit`: check the chains of all logs, print their heads to keep elsewhere, list who did what."""

from __future__ import annotations

import argparse
import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from placet.cli.exit_codes import FAILED, OK, UsageError
from placet.cli.loading import add_json, add_store, store_of
from placet.cli.terminal import shown, this_user
from placet.facts.codec import JsonObject
from placet.ports import OPERATORS
from placet.service.audit import Head, heads, parse_heads, verify
from placet.service.records import AuditEntry, records, records_in_time

DESCRIPTION = """\
placet audit verify   checks every log: a changed, added or reordered line is
                      found by its chain
placet audit head     prints a line for each log, to be kept where nobody who
                      can write to the store can write
placet audit list     prints every decision, grant, hold, revocation and effect,
                      with who, when, why and the digest, oldest first: of all
                      runs and operators, of one RUN, or of «operators» (holds,
                      grants for all runs, which runs were erased or deleted)
placet audit erase    takes what an ended RUN said out of the store for good:
                      inputs, arguments, outputs, messages, names. Its chain
                      stays whole, and verify says who erased it and when

With --head FILE, verify also finds what the chain alone cannot: a tail that
was cut off, a log that was written anew, a run that is gone and that nobody
deleted.
"""

LONGEST_VALUE = 120
_NONE = object()
_ACTIONS = ("verify", "head", "list", "erase")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = "verify ends with 1 when something is not whole."
    parser.add_argument("action", choices=list(_ACTIONS), metavar="|".join(_ACTIONS))
    parser.add_argument("run", nargs="?", metavar="RUN", help="for list and erase: the id of a run")
    parser.add_argument("--head", metavar="FILE", help="heads that were printed and kept earlier")
    parser.add_argument("--by", metavar="NAME", help="who erases (default: the user of this system)")
    parser.add_argument("--reason", metavar="TEXT", help="why it is erased, for the record")
    add_store(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if options.run is not None and options.action in ("verify", "head"):
        raise UsageError(f"{options.action} is about all logs: it takes no run.")
    if options.action == "erase":
        if options.run is None:
            raise UsageError("which run? placet audit erase RUN.")
        return asyncio.run(_erase(options))
    if options.action == "head":
        return asyncio.run(_heads(options))
    if options.action == "list":
        return asyncio.run(_list(options))
    return asyncio.run(_verify(options, [] if options.head is None else _kept_heads(options.head)))


def _kept_heads(file: str) -> list[Head]:
    """The heads in the file. None at all is wrong usage: «compared» must not be said where nothing was."""
    try:
        kept = parse_heads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the heads in {file!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"what {file!r} holds is no text: «placet audit head» prints heads.") from error
    if not kept:
        raise UsageError(f"there is no head in {file!r}: nothing was compared. «placet audit head» prints them.")
    return kept


async def _heads(options: argparse.Namespace) -> int:
    store = store_of(options)
    try:
        async for head in heads(store):
            print(msgspec.json.encode(head).decode() if options.json else head.line())
    finally:
        await store.close()
    return OK


async def _erase(options: argparse.Namespace) -> int:
    store = store_of(options)
    try:
        is_new = await store.erase(options.run, by=options.by or this_user(), reason=options.reason)
    finally:
        await store.close()
    if options.json:
        print(msgspec.json.encode({"run_id": options.run, "erased": is_new}).decode())
    else:
        text = "is erased. Backups, sessions and forks of it are not" if is_new else "was erased before"
        print(f"Run {options.run} {text}.")
    return OK


async def _list(options: argparse.Namespace) -> int:
    store = store_of(options)
    try:
        found = records_in_time(store) if options.run is None else records(store, options.run)
        async for entry in found:
            print(msgspec.json.encode(entry).decode() if options.json else _entry_line(entry))
    finally:
        await store.close()
    return OK


def _entry_line(entry: AuditEntry) -> str:
    """One line for people: when, what, about what, by whom and why, what an edit changed, and the beginning of the
    digest."""
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    about = entry.subject + (f" ({entry.detail})" if entry.detail else "")
    whose = "a standing decision of " if entry.grant is not None else ""
    who = f"  by {whose}{entry.by or 'somebody unnamed'}" if whose or entry.by is not None else ""
    why = f": {entry.why}" if entry.why else ""
    digest = f"  [{entry.digest[:16]}]" if entry.digest else ""
    return f"{when}  {entry.what:<16}  {shown(about)}{shown(who)}{shown(why)}{shown(_edit(entry))}{digest}"


def _edit(entry: AuditEntry) -> str:
    """What was asked and what runs instead, for each value that somebody changed."""
    if entry.runs is None:
        return ""
    asked = entry.asked or {}
    names = [name for name in {**asked, **entry.runs} if asked.get(name, _NONE) != entry.runs.get(name, _NONE)]
    changes = [f"{name}: asked {_value(asked, name)}, runs {_value(entry.runs, name)}" for name in names]
    return f"  {'; '.join(changes) or 'nothing was changed'}"


def _value(arguments: JsonObject, name: str) -> str:
    if name not in arguments:
        return "nothing"
    text = json.dumps(arguments[name], ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({len(text)} characters, see --json)"


async def _verify(options: argparse.Namespace, kept: list[Head]) -> int:
    store = store_of(options)
    checked = operators = broken = 0
    try:
        async for verdict in verify(store, kept):
            operators += verdict.run_id == OPERATORS
            checked += verdict.run_id != OPERATORS
            broken += not verdict.is_whole
            if options.json:
                print(msgspec.json.encode(verdict).decode())
            elif not verdict.is_whole:
                print(f"✗ {verdict.run_id}  {verdict.verdict}: {shown(verdict.message)}")
            elif verdict.message:
                print(f"· {verdict.run_id}  {shown(verdict.message)}")
    finally:
        await store.close()
    if not options.json:
        and_operators = " and the operators' log" if operators else ""
        print(f"{checked} runs{and_operators} checked, {broken} not whole.")
    return FAILED if broken else OK
