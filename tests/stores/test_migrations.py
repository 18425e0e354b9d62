"""Schemas that change while older code still runs: only code that cannot work on them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.facts.errors import StoreError
from placet.stores.postgres import PostgresStore
from placet.stores.sql.statements import (
    Dialect,
    Migration,
    migrations,
    read_migration,
    read_statements,
    statements,
    translate,
)
from placet.stores.sqlite import SQLiteStore
from placet.testing.desk_contracts import RunWriter

KNOWN = len(migrations("sqlite"))
"""How many migrations there are today; both dialects go in step."""
NEXT, AFTER_NEXT = KNOWN + 1, KNOWN + 2
HARMLESS = "ALTER TABLE placet_runs ADD COLUMN colour text;\n"


@pytest.fixture(params=["sqlite", "postgres"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


@pytest.fixture
def place(dialect: Dialect, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if dialect == "sqlite":
        return str(tmp_path / "placet.db")
    url: str = request.getfixturevalue("postgres").new_database()
    return url


def code(place: str, dialect: Dialect, *later: Migration) -> SQLiteStore | PostgresStore:
    """The store as code that knows these later migrations would open it."""
    kind = SQLiteStore if dialect == "sqlite" else PostgresStore
    return kind(place, migrations=(*migrations(dialect), *later))


def later(number: int, oldest: int, sql: str = HARMLESS) -> Migration:
    return read_migration(f"{number:04}_later.sql", f"-- Something new.\n-- oldest code: {oldest}\n{sql}")


async def test_older_code_goes_on_working_where_a_migration_allows_it(place: str, dialect: Dialect) -> None:
    story = RunWriter()
    async with code(place, dialect) as old:
        async with code(place, dialect, later(NEXT, oldest=1)) as new:
            await story.begin(new)
        await story.end(old)
        async with code(place, dialect) as old_again:
            stored = await old_again.load(story.id)

    assert stored is not None
    assert stored.length == 2


async def test_only_code_that_is_too_old_is_refused_and_told_what_to_do(place: str, dialect: Dialect) -> None:
    add_size = later(AFTER_NEXT, oldest=NEXT, sql="ALTER TABLE placet_runs ADD COLUMN size text;\n")
    async with code(place, dialect, later(NEXT, oldest=1), add_size):
        pass

    with pytest.raises(StoreError, match=f"generation {NEXT} or later; this is generation {KNOWN}: upgrade placet"):
        await RunWriter().begin(code(place, dialect))
    async with code(place, dialect, later(NEXT, oldest=1)) as middle:
        await RunWriter().begin(middle)


async def test_data_of_the_first_schema_is_there_after_the_next(place: str, dialect: Dialect) -> None:
    story = RunWriter()
    async with code(place, dialect) as old:
        await story.ask(old, "pay")
    async with code(place, dialect, later(NEXT, oldest=1)) as new:
        stored = await new.load(story.id)

    assert stored is not None
    assert stored.log is not None
    assert stored.log.lines == story.log.lines


async def test_a_migration_that_fails_leaves_the_schema_as_it_was(place: str, dialect: Dialect) -> None:
    async with code(place, dialect):
        pass
    broken = later(NEXT, oldest=1, sql=HARMLESS + "ALTER TABLE placet_nonsense ADD COLUMN colour text;\n")
    with pytest.raises(StoreError):
        await RunWriter().begin(code(place, dialect, broken))

    async with code(place, dialect, later(NEXT, oldest=1)) as mended:
        await RunWriter().begin(mended)


def test_every_migration_says_the_oldest_code_and_they_are_numbered_without_gaps(dialect: Dialect) -> None:
    assert [migration.number for migration in migrations(dialect)] == list(range(1, len(migrations(dialect)) + 1))
    with pytest.raises(StoreError, match="oldest code"):
        read_migration("0002_silent.sql", HARMLESS)


def test_every_statement_has_a_sentence_and_a_name_of_its_own(dialect: Dialect) -> None:
    lines = [line for file in [*_files("sql"), *_files(dialect)] for line in file.read_text().splitlines()]
    named = [number for number, line in enumerate(lines) if line.startswith("-- name: ")]

    assert len(named) == len(statements(dialect)) > 20
    for number in named:
        assert lines[number + 1].startswith("-- "), lines[number]


def test_a_dialect_has_a_statement_of_its_own_only_where_the_two_differ() -> None:
    sqlite, postgres = (read_statements("".join(map(Path.read_text, _files(each)))) for each in ("sqlite", "postgres"))
    twice = sqlite.keys() & postgres.keys()

    assert twice == {"create_schema_table", "record_migration", "has_schema"}  # the catalogue is the dialect's


def test_a_statement_is_translated_and_nothing_else_in_it_is_taken_for_a_parameter() -> None:
    text = "SELECT a::text, placet_now() FROM t WHERE b = :b AND c < placet_settled() FOR UPDATE"

    assert translate("postgres", text) == text.replace(":b", "%(b)s")
    assert translate("sqlite", text) == "SELECT a::text, :now FROM t WHERE b = :b AND c < 9223372036854775807"


def _files(folder: str) -> list[Path]:
    return sorted((Path(__file__).resolve().parents[2] / "src" / "placet" / "stores" / folder).glob("*.sql"))
