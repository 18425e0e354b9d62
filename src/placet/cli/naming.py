"""Which request is meant: its whole id, or a short name for one.

A decision must never reach a request that came to bear a name after somebody looked. So a short name decides only
together with the digest of what was shown, or after the card was shown here and confirmed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from placet.cli.asking import Client, DeskRefused, all_pages, part
from placet.cli.exit_codes import CommandFailed
from placet.facts.codec import JsonObject

LISTED = 5
_SIGNS = "0123456789abcdefghjkmnpqrstvwxyz"
"""No i, l, o and u: people read them aloud, and type them again."""
_LENGTH = 8


class NoSuchRequest(CommandFailed):
    """Nothing has this id, or an id with this part."""


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


def is_whole_id(name: str) -> bool:
    return name.startswith("run_") and ":" in name and "#" in name


def request_named(client: Client, name: str, digest: str | None = None) -> Found:
    """The request with all its details; a short name means one that waits."""
    waiting = all_pages(client, "/v1/approvals", {"status": "pending"}, None)
    return _named(client, name, digest, waiting, "that waits", "«placet pending» lists them")


def decided_request_named(client: Client, name: str, digest: str | None = None) -> Found:
    """The same for a request that was decided: a short name means one of a run that has not ended."""
    hint = "«placet show RUN» shows what was decided in a run"
    return _named(client, name, digest, approved_requests(client), "that was approved", hint)


def approved_requests(client: Client) -> Iterator[JsonObject]:
    """The approved requests of all runs that have not ended."""
    for status in ("running", "waiting", "stopped"):
        for run in all_pages(client, "/v1/runs", {"status": status}, None):
            for row in all_pages(client, "/v1/approvals", {"run_id": run["id"], "status": "all"}, None):
                if row["status"] in ("approved", "edited"):
                    yield row


def _named(client: Client, name: str, digest: str | None, rows: Iterable[JsonObject], which: str, hint: str) -> Found:
    by_id = _by_id(client, name)
    if by_id is not None:
        return Found(by_id, is_certain=True)
    fits = [row for row in rows if _fits(row, name) and digest in (None, row["digest"])]
    if len(fits) == 1:
        return Found(client.ask("GET", f"/v1/approvals/{part(str(fits[0]['id']))}"), is_certain=digest is not None)
    if not fits:
        raise NoSuchRequest(f"there is no request {name!r} {which}; {hint}.")
    listed = "\n".join(f"  {each['id']}" for each in fits[:LISTED])
    raise CommandFailed(f"{name!r} fits {len(fits)} requests: write more of it.\n{listed}")


def _fits(row: JsonObject, name: str) -> bool:
    """Nothing fits an empty name: it is what a script writes whose variable is not set."""
    request_id = str(row["id"])
    is_part = bool(name) and (request_id.endswith(name) or request_id.startswith(name))
    return is_part or short_name(row) == name.lower()


def _by_id(client: Client, name: str) -> JsonObject | None:
    if not name:
        return None
    try:
        found: JsonObject = client.ask("GET", f"/v1/approvals/{part(name)}")
    except DeskRefused as error:
        if error.status != 404:
            raise
        return None
    return found
