"""SQL lives in `.sql` files: named statements, and numbered migrations that state the oldest code that can work on
them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal, TypeAlias

from placet.facts.errors import StoreError

Dialect: TypeAlias = Literal["sqlite", "postgres"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_OLDEST_CODE = re.compile(r"^-- oldest code: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    oldest_code: int
    """Code that knows the migrations up to this number, and none after it, can work on a database with this one."""
    name: str
    sql: str


@cache
def statements(dialect: Dialect) -> dict[str, str]:
    """The named statements of `sql/{dialect}.sql`, without their comments."""
    return read_statements((resources.files("placet.stores") / "sql" / f"{dialect}.sql").read_text("utf-8"))


def read_statements(text: str) -> dict[str, str]:
    _, *parts = _NAME.split(text)
    return {name: _without_comments(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _without_comments(sql: str) -> str:
    kept = [line for line in sql.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    return "\n".join(kept).rstrip(";")


@cache
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """All migrations that this code knows, in order."""
    return read_migrations(resources.files("placet.stores") / "migrations" / dialect)


def read_migrations(folder: Traversable) -> tuple[Migration, ...]:
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return tuple(read_migration(entry.name, entry.read_text("utf-8")) for entry in files)


def read_migration(name: str, sql: str) -> Migration:
    oldest = _OLDEST_CODE.search(sql)
    if oldest is None:
        raise StoreError(f"The migration {name} does not say which code can work on it: '-- oldest code: N'.")
    return Migration(int(name.partition("_")[0]), int(oldest[1]), name, sql)


def check_code(known: tuple[Migration, ...], oldest_code: int, where: str) -> None:
    """Refuse a database that needs newer code than this; anything else is fine, newer or not."""
    code = known[-1].number
    if oldest_code > code:
        raise StoreError(
            f"{where} was migrated by a newer version of Placet and can only be used by code of generation "
            f"{oldest_code} or later; this is generation {code}: upgrade placet."
        )


def no_store_in(where: str) -> StoreError:
    """For whoever only looks: nothing is made there."""
    return StoreError(f"{where} holds no store: check its address. «placet migrate» makes one.")
