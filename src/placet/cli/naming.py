"""Which request is meant: its whole id, or the end (or beginning) of one, if that fits only one."""

from __future__ import annotations

from collections.abc import Iterator

from placet.cli.asking import Client, Refused, all_pages, part
from placet.cli.exit_codes import CommandFailed
from placet.facts.codec import JsonObject

LISTED = 5
LOOKED_THROUGH = 200
"""Runs that are looked through for a request that was decided."""


class NoSuchRequest(CommandFailed):
    """Nothing has this id, or an id with this part."""


def request_named(client: Client, name: str) -> JsonObject:
    """The request with all its details; the part of an id means one that waits."""
    found = _by_id(client, name)
    if found is not None:
        return found
    waiting = [str(row["id"]) for row in all_pages(client, "/v1/approvals", {"status": "pending"}, None)]
    return _only(client, name, waiting, "that waits", "«placet pending» lists them")


def decided_request_named(client: Client, name: str) -> JsonObject:
    """The same for a request that was decided: the part of an id means one of a run that has not ended."""
    found = _by_id(client, name)
    if found is not None:
        return found
    hint = "«placet show RUN» shows what was decided in a run"
    return _only(client, name, list(_approved(client)), "that was approved", hint)


def _by_id(client: Client, name: str) -> JsonObject | None:
    try:
        found: JsonObject = client.ask("GET", f"/v1/approvals/{part(name)}")
    except Refused as error:
        if error.status != 404:
            raise
        return None
    return found


def _approved(client: Client) -> Iterator[str]:
    for status in ("running", "waiting"):
        for run in all_pages(client, "/v1/runs", {"status": status}, LOOKED_THROUGH):
            query = {"run_id": run["id"], "status": "all"}
            for row in all_pages(client, "/v1/approvals", query, None):
                if row["status"] in ("approved", "edited"):
                    yield str(row["id"])


def _only(client: Client, name: str, ids: list[str], which: str, hint: str) -> JsonObject:
    fits = [each for each in ids if each.endswith(name) or each.startswith(name)]
    if len(fits) == 1:
        found: JsonObject = client.ask("GET", f"/v1/approvals/{part(fits[0])}")
        return found
    if not fits:
        raise NoSuchRequest(f"there is no request {name!r} {which}; {hint}.")
    listed = "\n".join(f"  {each}" for each in fits[:LISTED])
    raise CommandFailed(f"{name!r} fits {len(fits)} requests: write more of it.\n{listed}")
