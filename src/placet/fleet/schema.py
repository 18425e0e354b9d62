"""The fleet's part of the database: the queue's library and the doorbell, created and migrated together.

Procrastinate ships migrations and keeps no record of them; we do. Its `pre` migrations are safe while older workers
run; a `post` one is applied when no worker that lives was started with an older version of the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import metadata, resources
from pathlib import Path

import msgspec

from placet.facts.errors import StoreError
from placet.stores.postgres import PostgresStore
from placet.stores.postgres.connections import Connection
from placet.stores.postgres.connections import sql as store_sql
from placet.stores.sql.statements import Migration, read_migrations, read_statements, translate

FIRST_POST = 50
"""Of the migrations of one version of the library, those with a number from here on are for later."""


class Migrated(msgspec.Struct, frozen=True):
    """What a migration did."""

    applied: list[str]
    postponed: list[str]
    """Migrations of the queue's library that older workers, which still run, could not bear."""


@cache
def fleet_sql() -> dict[str, bytes]:
    text = (resources.files("placet.fleet") / "sql" / "fleet.sql").read_text("utf-8")
    return {name: translate("postgres", statement).encode() for name, statement in read_statements(text).items()}


@cache
def own_migrations() -> tuple[Migration, ...]:
    return read_migrations(resources.files("placet.fleet") / "migrations")


def library_version() -> str:
    return metadata.version("procrastinate")


async def migrate(store: PostgresStore) -> Migrated:
    """Bring the whole schema up to date: the store's at its first use, then the queue's and the doorbell's.

    Any number of processes may do this at the same moment: one does it, the others wait.
    """

    async def work(db: Connection, _tried: bool) -> Migrated:
        applied = await _applied(db)
        if applied is not None and _is_complete(applied):
            return Migrated([], [])
        async with db.transaction():
            await db.execute(store_sql("lock_schema"))
            await db.execute(fleet_sql()["create_record"])
            return await _apply_missing(db, await _applied(db) or set())

    return await store.connections.do(work)


async def _applied(db: Connection) -> set[str] | None:
    row = await (await db.execute(fleet_sql()["has_record"])).fetchone()
    if row is None or not row[0]:
        return None
    rows = await (await db.execute(fleet_sql()["recorded"])).fetchall()
    _check_code(max((oldest for _, oldest in rows), default=0))
    return {name for name, _ in rows}


def _check_code(oldest_code: int) -> None:
    code = own_migrations()[-1].number
    if oldest_code > code:
        raise StoreError(
            "The fleet's part of the database was migrated by a newer version of Placet and can only be used by code "
            f"of generation {oldest_code} or later; this is generation {code}: upgrade placet."
        )


def _is_complete(applied: set[str]) -> bool:
    return applied.issuperset(file.name for file in _library_migrations()) and applied.issuperset(
        migration.name for migration in own_migrations()
    )


async def _apply_missing(db: Connection, applied: set[str]) -> Migrated:
    done = await _apply_library(db, applied)
    for migration in own_migrations():
        if migration.name not in applied:
            await db.execute(migration.sql.encode())
            await _record(db, migration.name, migration.oldest_code)
            done.applied.append(migration.name)
    return done


async def _apply_library(db: Connection, applied: set[str]) -> Migrated:
    files = _library_migrations()
    if not any(file.name in applied for file in files):
        made = await _create_or_adopt(db)
        for file in files:
            await _record(db, file.name, 0)
        return Migrated([made] if made else [], [])
    must_wait = await _older_workers_live(db)
    done = Migrated([], [])
    for file in files:
        if file.name in applied:
            continue
        if must_wait and _is_post(file.name):
            done.postponed.append(file.name)
            continue
        await db.execute(file.read_bytes())
        await _record(db, file.name, 0)
        done.applied.append(file.name)
    return done


async def _create_or_adopt(db: Connection) -> str | None:
    """The library's whole schema at once; or take over what the database's owner made of it, if it is what we need."""
    schema = (resources.files("procrastinate.sql") / "schema.sql").read_text("utf-8")
    row = await (await db.execute(fleet_sql()["has_queue"])).fetchone()
    if row is None or not row[0]:
        await db.execute(schema.encode())
        return f"procrastinate {library_version()}"
    rows = await (await db.execute(fleet_sql()["functions"])).fetchall()
    missing = set(re.findall(r"CREATE FUNCTION (\w+)", schema)) - {name for (name,) in rows}
    if missing:
        raise StoreError(
            "The database holds tables of Procrastinate that Placet did not make, and they are not those of version "
            f"{library_version()}, which is installed (there is no {min(missing)}): apply Procrastinate's migrations, "
            "or give Placet a database of its own."
        )
    return None


async def _older_workers_live(db: Connection) -> bool:
    rows = await (await db.execute(fleet_sql()["live_libraries"])).fetchall()
    return any(_numbers(version) < _numbers(library_version()) for (version,) in rows)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


async def _record(db: Connection, name: str, oldest_code: int) -> None:
    await db.execute(fleet_sql()["record"], {"name": name, "oldest_code": oldest_code})


def _library_migrations() -> list[Path]:
    return sorted(_files(), key=lambda file: file.name)


def _files() -> Iterable[Path]:
    from procrastinate.schema import migrations_path

    return migrations_path.glob("*.sql")


def _is_post(name: str) -> bool:
    """`03.02.00_50_post_batch_defer_jobs.sql`: the number in the middle says when."""
    number = name.split("_")[1]
    return number.isdigit() and int(number) >= FIRST_POST
