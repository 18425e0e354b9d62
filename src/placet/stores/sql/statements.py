"""SQL lives in `.sql` files: named statements, and numbered migrations that state the oldest code that can work on
them.

A statement is written once for both dialects, with `:name` where a parameter goes, in the words of PostgreSQL. Where
SQLite needs other words, they stand in `_IN_SQLITE`. Only statements that really differ are in a dialect's own file.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from placet.facts.errors import StoreError

V = TypeVar("V")
Dialect: TypeAlias = Literal["sqlite", "postgres"]
Row: TypeAlias = tuple[Any, ...]  # Any: what the columns hold
Given: TypeAlias = Mapping[str, object]


class Statement(msgspec.Struct, frozen=True, gc=False):
    """A named statement and what it is given; with a list, it is executed for each of its members."""

    name: str
    given: Given | list[Given] = {}
    filters: str = ""
    """What stands for `{filters}` in its text, with `:name` for parameters."""


Steps: TypeAlias = Generator[Statement, list[Row], V]
"""Work on a database, without the database: it yields statements, receives their rows, and returns what came of it.

So the same work runs on SQLite's writer thread and on PostgreSQL's event loop. It holds no connection and awaits
nothing: whoever executes the statements decides about transactions, and may begin the work anew.
"""

_IN_SQLITE = {
    "placet_now()": ":now",  # PostgreSQL has one clock for all processes; a file has the one of its machine
    "placet_settled()": "9223372036854775807",  # there is one writer at a time: what can be read is settled
    " FOR UPDATE SKIP LOCKED": "",  # a transaction that writes is alone
    " FOR UPDATE": "",
    " FOR SHARE": "",
    "placet_search.words @@ CAST(:words AS tsquery)": "placet_search MATCH :words",  # each has a search of its own
    "array_to_tsvector(string_to_array(:words, ' '))": ":words",
    " ON CONFLICT (rowid) DO NOTHING": "",  # there is one writer at a time
}
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_OLDEST_CODE = re.compile(r"^-- oldest code: (\d+)$", re.MULTILINE)


def translate(dialect: Dialect, text: str) -> str:
    """A statement in the words of a dialect and of its driver."""
    if dialect == "postgres":
        return _PARAMETER.sub(r"%(\1)s", text)
    for word, other in _IN_SQLITE.items():
        text = text.replace(word, other)
    return text


@cache
def statements(dialect: Dialect) -> dict[str, str]:
    """All named statements of a dialect, without their comments, not translated yet."""
    found: dict[str, str] = {}
    for folder in ("sql", dialect):
        for file in _sql_files(resources.files("placet.stores") / folder):
            found |= read_statements(file.read_text("utf-8"))
    return found


def statement_text(dialect: Dialect, name: str, parts: Mapping[str, str]) -> str:
    """What the driver of a dialect is given for a statement; `parts` are what it names in braces."""
    return translate(dialect, statements(dialect)[name].format_map(parts))


def read_statements(text: str) -> dict[str, str]:
    _, *parts = _NAME.split(text)
    return {name: _without_comments(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _without_comments(sql: str) -> str:
    kept = [line for line in sql.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    return "\n".join(kept).rstrip(";")


def _sql_files(folder: Traversable) -> list[Traversable]:
    return sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)


def one(name: str, given: Given, filters: str = "") -> Steps[list[Row]]:
    """The rows of one statement."""
    return (yield Statement(name, given, filters))


# -- migrations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    oldest_code: int
    """Code that knows the migrations up to this number, and none after it, can work on a database with this one."""
    name: str
    sql: str


@cache
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """All migrations that this code knows, in order."""
    return read_migrations(resources.files("placet.stores") / dialect / "migrations")


def read_migrations(folder: Traversable) -> tuple[Migration, ...]:
    return tuple(read_migration(entry.name, entry.read_text("utf-8")) for entry in _sql_files(folder))


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
