"""`placet audit`: check the chains of all logs, print their heads to keep elsewhere, list who did what."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click import UsageError

from placet.cli.commands.signatures import print_trust, refuse_without_extra, trust_in, verify_signatures
from placet.cli.exit_codes import FAILED, OK
from placet.cli.loading import store_of
from placet.cli.naming import refuse_unconfirmed, run_in_store
from placet.cli.options import actions, json_option, reason_option, store_option
from placet.cli.output import Screen, print_result, shown, this_user
from placet.clock import SYSTEM_CLOCK
from placet.facts.codec import JsonObject
from placet.facts.requirements import SURE_BY
from placet.ports import OPERATORS, DeskStore
from placet.service.audit import Head, heads, parse_heads, verify
from placet.service.records import AuditEntry, records, records_in_time
from placet.service.subscriptions import Subscriptions

if TYPE_CHECKING:
    from placet.passkeys.trust import Trust

LONGEST_VALUE = 120
_NONE = object()


@actions("audit")
def audit() -> None:
    """Check the chains of all logs, print their heads, list who did what, and erase what a run said."""


@audit.command("verify", epilog="It ends with 1 when something is not whole.")
@click.option("--head", "heads_file", metavar="FILE", help="heads that were printed and kept earlier")
@click.option("--trust", "trust_file", metavar="FILE", help="whose passkeys are whose: «placet audit trust» writes it")
@store_option
@json_option
def verify_logs(heads_file: str | None, trust_file: str | None, store: str, *, as_json: bool) -> int:
    """Check every log: a changed, added or reordered line is found by its chain.

    With --head FILE it also finds what the chain alone cannot: a tail that was cut off, a log that was written anew, a
    run that is gone and that nobody deleted.

    With --trust FILE it also says of every decision whether its person signed it with their passkey: signed, not
    signed, erased, does not verify, or unanchored (by a key that the file does not lead to).
    """
    if trust_file is not None:
        refuse_without_extra()
    kept = [] if heads_file is None else _kept_heads(heads_file)
    trust = None if trust_file is None else trust_in(trust_file)
    return asyncio.run(_verify(store, kept, trust, as_json=as_json))


@audit.command("trust", epilog="Look at the keys with their people once, then keep the file elsewhere.")
@click.option(
    "--signed", multiple=True, metavar="AGENT:TOOL", help="calls that have to be signed, with * and ? (repeatable)"
)
@store_option
def print_trust_file(signed: tuple[str, ...], store: str) -> None:
    """Print a trust file, to be kept where nobody who can write to the store can write: everybody's passkeys, and where
    the operators' log stands."""
    refuse_without_extra()
    asyncio.run(print_trust(store, signed))


@audit.command("head")
@store_option
@json_option
def print_heads(store: str, *, as_json: bool) -> None:
    """Print a line for each log, to be kept where nobody who can write to the store can write."""
    asyncio.run(_heads(store, as_json=as_json))


@audit.command("list")
@click.argument(
    "run_id", metavar="[RUN]", required=False, help="of one run, by its id, or «operators»: what holds for all runs"
)
@store_option
@json_option
def list_acts(run_id: str | None, store: str, *, as_json: bool) -> None:
    """Print every decision, grant, hold, revocation and effect, with who, when, why and the digest, oldest first.

    Of all runs and operators, of one RUN, or of «operators» (holds, grants for all runs, which runs were erased or
    deleted).
    """
    asyncio.run(_list(store, run_id, as_json=as_json))


@audit.command("erase")
@click.argument("run_id", metavar="RUN", help="the id of a run that has ended")
@click.option("--by", metavar="NAME", help="who erases (default: the user of this system)")
@reason_option
@store_option
@json_option
def erase(run_id: str, by: str | None, reason: str | None, store: str, *, as_json: bool) -> None:
    """Take what an ended run said out of the store for good: inputs, arguments, outputs, messages, names.

    Its chain stays whole, and «placet audit verify» says who erased it and when. A short form of the id is confirmed in
    a terminal; elsewhere the whole id is needed.
    """
    with asyncio.Runner() as runner:  # a person may be asked in between
        opened = store_of(store)
        try:
            whole = runner.run(run_in_store(opened, run_id))
            refuse_unconfirmed(run_id, whole, f"Erase {whole}?", can_ask=not as_json)
            is_new = runner.run(opened.erase(whole, by=by or this_user(), reason=reason))
            runner.run(Subscriptions(opened, SYSTEM_CLOCK).forget_run(whole))
        finally:
            runner.run(opened.close())
    done = "is erased. Backups, sessions and forks of it are not" if is_new else "was erased before"
    print_result({"run_id": whole, "erased": is_new}, f"Run {whole} {done}.", as_json=as_json)


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


async def _heads(url: str, *, as_json: bool) -> None:
    store = store_of(url)
    try:
        async for head in heads(store):
            print(msgspec.json.encode(head).decode() if as_json else head.line())
    finally:
        await store.close()


async def _list(url: str, run_id: str | None, *, as_json: bool) -> None:
    store = store_of(url)
    try:
        is_run = run_id not in (None, OPERATORS)
        run = await run_in_store(store, run_id) if is_run and run_id is not None else run_id
        async for entry in records_in_time(store) if run is None else records(store, run):
            print(msgspec.json.encode(entry).decode() if as_json else line_of(entry))
    finally:
        await store.close()


def line_of(entry: AuditEntry) -> str:
    """One line for people: when, what, about what, by whom and why, what an edit changed, and the beginning of the
    digest."""
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    about = entry.subject + (f" ({entry.detail})" if entry.detail else "")
    whose = "a standing decision of " if entry.grant is not None else ""
    who = f"  by {whose}{entry.by or 'somebody unnamed'}" if whose or entry.by is not None else ""
    who += f" ({SURE_BY[entry.assurance]})" if who and entry.assurance not in (None, "none") else ""
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


async def _verify(url: str, kept: list[Head], trust: Trust | None, *, as_json: bool) -> int:
    store = store_of(url)
    try:
        chains = await _verify_chains(store, kept, as_json=as_json)
        is_signed = trust is None or await verify_signatures(store, trust, as_json=as_json)
    finally:
        await store.close()
    return OK if chains and is_signed else FAILED


async def _verify_chains(store: DeskStore, kept: list[Head], *, as_json: bool) -> bool:
    checked = operators = broken = 0
    signs = Screen().signs
    async for verdict in verify(store, kept):
        operators += verdict.run_id == OPERATORS
        checked += verdict.run_id != OPERATORS
        broken += not verdict.is_whole
        if as_json:
            print(msgspec.json.encode(verdict).decode())
        elif not verdict.is_whole:
            print(f"{signs.refused} {verdict.run_id}  {verdict.verdict}: {shown(verdict.message)}")
        elif verdict.message:
            print(f"{signs.dot} {verdict.run_id}  {shown(verdict.message)}")
    if not as_json:
        and_operators = " and the operators' log" if operators else ""
        print(f"{checked} runs{and_operators} checked, {broken} not whole.")
    return not broken
