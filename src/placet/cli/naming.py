"""Which request is meant: its whole id, or the end (or beginning) of one that waits, if it fits only one."""

from __future__ import annotations

from placet.cli.asking import Client, Refused, all_pages, part
from placet.cli.exit_codes import CommandFailed
from placet.codec import JsonObject

LISTED = 5


def request_named(client: Client, name: str) -> JsonObject:
    """The request with all its details."""
    try:
        found: JsonObject = client.ask("GET", f"/v1/approvals/{part(name)}")
    except Refused as error:
        if error.status != 404:
            raise
        return _by_part(client, name, error)
    return found


def _by_part(client: Client, name: str, error: Refused) -> JsonObject:
    waiting = [str(row["id"]) for row in all_pages(client, "/v1/approvals", {"status": "pending"}, None)]
    fits = [each for each in waiting if each.endswith(name) or each.startswith(name)]
    if len(fits) == 1:
        found: JsonObject = client.ask("GET", f"/v1/approvals/{part(fits[0])}")
        return found
    if not fits:
        raise CommandFailed(f"there is no request {name!r}; «placet pending» lists what waits.") from error
    listed = "\n".join(f"  {each}" for each in fits[:LISTED])
    raise CommandFailed(f"{name!r} fits {len(fits)} requests that wait: write more of it.\n{listed}") from error
