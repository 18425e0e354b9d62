"""What is meant by an id as it was typed: all of it, a unique beginning or end of it, or a request's short name.

A decision must never reach a request that came to bear a name after somebody looked. So a short form decides only
together with the digest of what was shown, or after the card was shown here and confirmed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import click
from click import ClickException, UsageError

from placet.cli.client import Client, Refused, all_pages, part
from placet.cli.output import is_interactive
from placet.core.short_ids import is_part, matching
from placet.facts.codec import JsonObject
from placet.facts.ids import split_request_id
from placet.ports import DeskStore
from placet.service.audit import run_ids

LISTED = 5
_SIGNS = "0123456789abcdefghjkmnpqrstvwxyz"
"""No i, l, o and u: people read them aloud, and type them again."""
_LENGTH = 8


class NothingNamed(ClickException):
    """Nothing has this id, or an id with this beginning or end."""


@dataclass(frozen=True, slots=True)
class Found:
    """A request, and whether what was written can mean no other, now or later."""

    request: JsonObject
    is_certain: bool


def short_name(row: JsonObject) -> str:
    """Eight signs for a request with this digest: made of both, so that they never come to mean anything else."""
    text = f"{row['id']}\n{row['digest']}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:5])
    return "".join(_SIGNS[number >> shift & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))


def the_one(ids: Iterable[str], typed: str, what: str, hint: str) -> str:
    """The id that is meant: that very one, or the only one that begins or ends so."""
    return _only(matching(typed, ids), typed, what, hint)


def _only(found: list[str], typed: str, what: str, hint: str) -> str:
    if len(found) == 1:
        return found[0]
    if not found:
        raise NothingNamed(f"there is no {what} {typed!r}{hint}.")
    listed = "\n".join(f"  {each}" for each in found[:LISTED])
    raise ClickException(f"{typed!r} fits {len(found)} {what}s: write more of it.\n{listed}")


# -- runs and other things --------------------------------------------------------------------------------------------

RUNS = ": «placet runs» lists them"


def run_named(client: Client, typed: str) -> str:
    """The id of the run that is meant."""
    found = _asked(client, f"/v1/runs/{part(typed)}") if typed else None
    if found is not None:
        return str(found["id"])
    return the_one((str(row["id"]) for row in all_pages(client, "/v1/runs", {})), typed, "run", RUNS)


async def run_in_store(store: DeskStore, typed: str) -> str:
    """The same straight in a store."""
    if typed and await store.run(typed) is not None:
        return typed
    return the_one([each async for each in run_ids(store)], typed, "run", RUNS)


def refuse_unconfirmed(typed: str, whole: str, question: str, *, can_ask: bool = True) -> None:
    """What cannot be taken back is done to a run by its whole id, or after somebody has confirmed which one it is."""
    if typed == whole:
        return
    if not (can_ask and is_interactive()):
        raise UsageError(f"{typed!r} is short for {whole}, and nobody is here to confirm it: write the whole id.")
    if not click.confirm(question, prompt_suffix=" "):
        raise ClickException("nothing was done.")


def listed_id(client: Client, path: str, typed: str, what: str, hint: str) -> str:
    """The id in a list that is short."""
    return the_one((str(row["id"]) for row in all_pages(client, path, {})), typed, what, hint)


# -- requests ---------------------------------------------------------------------------------------------------------


def request_named(client: Client, typed: str, digest: str | None = None) -> Found:
    """The request with all its details; a short form means one that waits."""
    waiting = all_pages(client, "/v1/approvals", {"status": "pending"})
    return _named(client, typed, digest, waiting, " that waits; «placet pending» lists them")


def decided_request_named(client: Client, typed: str, digest: str | None = None) -> Found:
    """The same for a request that was decided: a short form means one of a run that has not ended."""
    hint = " that was approved; «placet show RUN» shows what was decided in a run"
    return _named(client, typed, digest, approved_requests(client), hint)


def any_request_named(client: Client, typed: str) -> JsonObject:
    """The same for looking: one that waits, or one that was ever decided."""
    rows = all_pages(client, "/v1/approvals", {"status": "all"})
    return _named(client, typed, None, rows, ": «placet show RUN» shows those of a run").request


def approved_requests(client: Client) -> Iterator[JsonObject]:
    """The approved requests of all runs that have not ended."""
    for status in ("running", "waiting", "stopped"):
        for run in all_pages(client, "/v1/runs", {"status": status}):
            for row in all_pages(client, "/v1/approvals", {"run_id": run["id"], "status": "all"}):
                if row["status"] in ("approved", "edited"):
                    yield row


def _named(client: Client, typed: str, digest: str | None, rows: Iterable[JsonObject], hint: str) -> Found:
    # the desk finds requests by a part of their ids, too: then it would not be certain what is meant
    by_id = _asked(client, f"/v1/approvals/{part(typed)}") if split_request_id(typed) is not None else None
    if by_id is not None:
        return Found(by_id, is_certain=True)
    meant = [str(row["id"]) for row in rows if _is_meant(row, typed) and digest in (None, row["digest"])]
    request = _only(meant, typed, "request", hint)
    return Found(client.ask("GET", f"/v1/approvals/{part(request)}"), is_certain=digest is not None)


def _is_meant(row: JsonObject, typed: str) -> bool:
    return is_part(typed, str(row["id"])) or short_name(row) == typed.lower()


def _asked(client: Client, path: str) -> JsonObject | None:
    try:
        found: JsonObject = client.ask("GET", path)
    except Refused as error:
        if error.status != 404:
            raise
        return None
    return found
