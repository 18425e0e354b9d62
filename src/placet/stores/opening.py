"""From a URL to a store: `sqlite:///file.db`, `sqlite:////absolute/file.db`, `sqlite://:memory:`, `postgresql://…`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote

from placet.clock import SYSTEM_CLOCK, Clock
from placet.facts.addresses import without_credentials
from placet.facts.checks import FLAG, SECONDS, check
from placet.facts.errors import UserError
from placet.stores.sql.leases import DEFAULT_TTL
from placet.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from placet.stores.postgres import PostgresStore

_KNOWN = "sqlite:///file.db, sqlite:////absolute/file.db, sqlite://:memory:, postgresql://user@host/database"


def open_store(
    url: str,
    *,
    lease_ttl: float = DEFAULT_TTL,
    clock: Clock = SYSTEM_CLOCK,
    listen: bool = True,
    create: bool = True,
) -> SQLiteStore | PostgresStore:
    """The store behind a URL, not yet connected: the first use does that, or `async with`.

    `create=False`: for whoever only looks. Where there is no store, none is made: the first use raises StoreError.
    `listen=False`: for PostgreSQL behind a pooler that cannot be told from the server; PgBouncer is found out.
    """
    if not isinstance(url, str):
        raise UserError(f"A store is named by the text of a URL, not by a {type(url).__name__}. There are: {_KNOWN}.")
    check("open_store: ", lease_ttl=(lease_ttl, SECONDS), listen=(listen, FLAG), create=(create, FLAG))
    scheme, separator, rest = url.partition("://")
    match scheme if separator else "":
        case "sqlite":
            return SQLiteStore(_path(url, rest), lease_ttl=lease_ttl, clock=clock, create=create)
        case "postgresql" | "postgres":
            return _postgres(url, lease_ttl, clock, listen=listen, create=create)
        case _:
            raise UserError(f"{without_credentials(url)!r} is not the URL of a store. There are: {_KNOWN}.")


def _path(url: str, rest: str) -> str:
    path = unquote(rest).removeprefix("/")
    if path == ":memory:":
        return path
    if not path or not rest.startswith("/"):
        shown = without_credentials(url)
        raise UserError(f"{shown!r} names no file: three slashes before a relative path, four before an absolute one.")
    return path


def _postgres(url: str, lease_ttl: float, clock: Clock, *, listen: bool, create: bool) -> PostgresStore:
    if find_spec("psycopg") is None:
        raise UserError("PostgreSQL needs an extra that is not installed: pip install 'placet[postgres]'.")
    from placet.stores.postgres import PostgresStore

    return PostgresStore(url, lease_ttl=lease_ttl, clock=clock, listen=listen, create=create)
