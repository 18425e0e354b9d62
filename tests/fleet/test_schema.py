"""The schema of runs and queue together: made once, by whoever comes first, recorded, and safe to make again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psycopg
import pytest

from placet.facts.errors import StoreError
from placet.fleet import schema
from placet.fleet.schema import migrate
from placet.stores.postgres import PostgresStore
from placet.stores.sql.statements import read_migration
from tests.cli.running import placet
from tests.support.postgres import PostgresServer


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


def recorded(url: str) -> list[str]:
    with psycopg.connect(url) as db:
        return [name for (name,) in db.execute(b"SELECT name FROM placet_fleet_schema ORDER BY name").fetchall()]


async def test_many_that_begin_at_once_make_one_schema_and_a_second_time_there_is_nothing_to_do(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(6)]
    done = await asyncio.gather(*(migrate(store) for store in stores))
    again = await migrate(stores[0])
    for store in stores:
        await store.close()

    assert sum(bool(each.applied) for each in done) == 1
    assert again.applied == again.postponed == []
    assert recorded(url)[-1] == "03.04.00_50_post_add_retry_failed_job_procedure.sql"


def test_one_command_makes_everything_and_says_what_it_did(url: str, tmp_path: Path) -> None:
    first = placet("migrate", "--store", url, cwd=tmp_path)
    second = placet("migrate", "--store", url, "--json", cwd=tmp_path)

    assert first.returncode == 0, first.stderr
    assert "0001_doorbell.sql" in first.stdout
    assert json.loads(second.stdout) == {"applied": [], "postponed": []}


async def test_the_queue_of_a_program_that_uses_the_same_library_is_taken_over(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute(schema_of_the_library())
        db.execute(b"INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('theirs', 'their_task')")
    async with PostgresStore(url) as store:
        done = await migrate(store)
        ((kept,),) = await store.query(b"SELECT count(*) FROM procrastinate_jobs")

    assert done.applied == [migration.name for migration in schema.own_migrations()]
    assert kept == 1


async def test_a_queue_of_another_version_is_refused_with_what_to_do(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute(schema_of_the_library())
        db.execute(b"DROP FUNCTION procrastinate_retry_job_v2")
    async with PostgresStore(url) as store:
        with pytest.raises(StoreError, match=r"no procrastinate_retry_job_v2.*or give Placet a database of its own"):
            await migrate(store)


async def test_a_later_version_of_the_library_brings_its_new_migrations(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = with_later_migrations(tmp_path, monkeypatch)
    async with PostgresStore(url) as store:
        with monkeypatch.context() as before:
            before.setattr(schema, "_files", lambda: [file for file in later if "later" not in file.name])
            await migrate(store)
        done = await migrate(store)
        again = await migrate(store)

    assert done.applied == ["09.00.00_01_pre_later.sql", "09.00.00_50_post_later.sql"]
    assert again.applied == []


async def test_what_older_workers_could_not_bear_waits_until_they_have_ended(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = with_later_migrations(tmp_path, monkeypatch)
    async with PostgresStore(url) as store:
        with monkeypatch.context() as before:
            before.setattr(schema, "_files", lambda: [file for file in later if "later" not in file.name])
            await migrate(store)
        await store.query(
            b"INSERT INTO placet_workers (name, code, library, agents, capacity, started_at, seen_at) "
            b"VALUES ('old', '', '3.9.1', '{}', 1, 0, placet_now())"
        )
        first = await migrate(store)
        await store.query(b"DELETE FROM placet_workers")
        second = await migrate(store)

    assert (first.applied, first.postponed) == (["09.00.00_01_pre_later.sql"], ["09.00.00_50_post_later.sql"])
    assert second.applied == ["09.00.00_50_post_later.sql"]


async def test_code_that_is_too_old_for_the_doorbell_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = schema.own_migrations()
    code = own[-1].number
    newer = read_migration(f"{code + 1:04}_newer.sql", f"-- Something new.\n-- oldest code: {code + 1}\nSELECT 1;")
    async with PostgresStore(url) as store:
        with monkeypatch.context() as patched:
            patched.setattr(schema, "own_migrations", lambda: (*own, newer))
            await migrate(store)
        wanted = f"generation {code + 1} or later; this is generation {code}: upgrade placet"
        with pytest.raises(StoreError, match=wanted):
            await migrate(store)


def schema_of_the_library() -> bytes:
    from importlib import resources

    return (resources.files("procrastinate.sql") / "schema.sql").read_bytes()


def with_later_migrations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The library as a later version would be: with two migrations more."""
    files = list(schema._files())
    for name in ("09.00.00_01_pre_later.sql", "09.00.00_50_post_later.sql"):
        (folder / name).write_text("ALTER TABLE procrastinate_jobs ADD COLUMN IF NOT EXISTS colour text;\n")
        files.append(folder / name)
    monkeypatch.setattr(schema, "_files", lambda: files)
    return files
