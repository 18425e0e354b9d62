"""From URLs to stores, and what is wrong with the others."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.facts.errors import StoreError, UserError
from placet.sessions.sqlite import SQLiteSession
from placet.stores.opening import open_store
from placet.stores.postgres import PostgresStore
from placet.stores.sqlite import SQLiteStore
from placet.testing.desk_contracts import RunWriter


async def test_a_relative_and_an_absolute_path_are_told_apart_by_their_slashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep er").mkdir()
    for url in ("sqlite:///near.db", f"sqlite:///{tmp_path}/deep%20er/far.db"):
        async with open_store(url) as store:
            await RunWriter().begin(store)

    assert (tmp_path / "near.db").exists()
    assert (tmp_path / "deep er" / "far.db").exists()


async def test_memory_is_a_store_of_its_own() -> None:
    async with open_store("sqlite://:memory:") as store, open_store("sqlite://:memory:") as other:
        story = RunWriter()
        await story.begin(store)

        assert await store.load(story.id) is not None
        assert await other.load(story.id) is None


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'later.db'}")
    other = open_store("postgresql://nobody@nowhere.invalid/none")

    assert isinstance(store, SQLiteStore)
    assert isinstance(other, PostgresStore)
    assert not (tmp_path / "later.db").exists()


@pytest.mark.parametrize("url", ["mysql://root@db/placet", "placet.db", "", "sqlite:placet.db"])
def test_what_is_no_url_of_a_store_is_refused_with_a_list_of_what_is(url: str) -> None:
    with pytest.raises(UserError, match=r"sqlite:///file\.db.*postgresql://"):
        open_store(url)


@pytest.mark.parametrize("url", [None, 7, Path("placet.db")])
def test_what_is_no_text_at_all_is_refused_in_words(url: object) -> None:
    with pytest.raises(UserError, match=r"not by a (NoneType|int|PosixPath)\. There are: sqlite:///file\.db"):
        open_store(url)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://file.db"])
def test_an_sqlite_url_without_a_path_says_how_many_slashes_it_takes(url: str) -> None:
    with pytest.raises(UserError, match="three slashes"):
        open_store(url)


def test_a_password_in_a_url_that_is_refused_is_not_repeated() -> None:
    with pytest.raises(UserError) as caught:
        open_store("mysql://root:hunter2@db/placet")

    assert "hunter2" not in caught.value.message


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("placet.stores.opening.find_spec", lambda name: None)

    with pytest.raises(UserError, match=r"pip install 'placet\[postgres\]'"):
        open_store("postgresql://host/database")


async def test_a_database_that_cannot_be_reached_is_an_error_of_the_store_without_its_password() -> None:
    store = PostgresStore("postgresql://me:hunter2@127.0.0.1:9/none", patience=0.1)

    with pytest.raises(StoreError, match="cannot be reached") as caught:
        await store.load("run_x")

    assert "hunter2" not in caught.value.message + repr(store)


async def test_a_url_that_postgresql_does_not_understand_is_refused_at_once() -> None:
    with pytest.raises(StoreError, match="not a URL that PostgreSQL understands"):
        await PostgresStore("postgresql://host/database?colour=red").load("run_x")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hun%zzter2@127.0.0.1:9/none",
        "postgresql://me:hun%ter2@127.0.0.1:9/none",
        "postgresql://me:x@hunter2@127.0.0.1:9/none",
        "postgresql://me:12/hunter2@127.0.0.1:9/none",
        "postgresql://127.0.0.1:9/none?password=hunter2&colour=red",
        "postgresql://127.0.0.1:9/none?password=hun%zzter2",
    ],
)
async def test_a_password_that_is_written_wrongly_is_repeated_by_no_message_and_no_traceback(url: str) -> None:
    store = PostgresStore(url, patience=0.1)

    with pytest.raises(StoreError, match="not a URL that PostgreSQL understands") as caught:
        await store.load("run_x")

    told = "".join(traceback.format_exception(caught.value)) + repr(store)
    assert "ter2" not in told
    assert "%25" in caught.value.message


@pytest.mark.parametrize(
    "url",
    ["sqlite://me:hunter2@host/x", "host=db password=hunter2", "mysql://db/x?password=hunter2", "pg:/me:hunter2@db/x"],
)
def test_no_form_of_an_address_that_is_refused_repeats_its_password(url: str) -> None:
    with pytest.raises(UserError) as caught:
        open_store(url)

    assert "hunter2" not in caught.value.message


async def test_a_new_store_is_its_owners_alone_with_all_that_lies_beside_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        async with open_store(f"sqlite:///{tmp_path / 'new.db'}") as store:
            await RunWriter().begin(store)
            found = rights_in(tmp_path)
    finally:
        os.umask(before)

    assert found == {"new.db": 0o600, "new.db-wal": 0o600, "new.db-shm": 0o600}


async def test_a_new_session_file_is_its_owners_alone_with_all_that_lies_beside_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        session = SQLiteSession("1", tmp_path / "new.db")
        await session.add_items([{"role": "user", "content": "hello"}])
        found = rights_in(tmp_path)
        session.close()
    finally:
        os.umask(before)

    assert found == {"new.db": 0o600, "new.db-wal": 0o600, "new.db-shm": 0o600}


def rights_in(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


def wide_file(folder: Path) -> Path:
    file = folder / "wide.db"
    file.touch()
    file.chmod(0o644)
    return file


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody on this machine can enter; pytest's own are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # $TMPDIR may lie where nobody else gets in
        Path(folder).chmod(0o755)
        yield Path(folder)


async def test_a_store_that_others_can_read_is_used_as_it_is_and_remarked_on_once(
    open_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "placet.files")  # other programs in this process set the root's
    file = wide_file(open_folder)

    async with open_store(f"sqlite:///{file}") as store:
        await RunWriter().begin(store)
        await RunWriter().begin(store)

    assert rights_in(open_folder)["wide.db"] == 0o644
    (remark,) = [each for each in caplog.records if each.name == "placet.files"]
    assert f"{file} can be read or written by others" in remark.getMessage()
    assert "chmod 600" in remark.getMessage()


async def test_a_folder_that_nobody_else_can_enter_keeps_a_wide_file_safe(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.chmod(tmp_path, 0o700)  # noqa: PTH101  # pathlib's is refused in asynchronous code
    file = wide_file(tmp_path)

    async with open_store(f"sqlite:///{file}") as store:
        await RunWriter().begin(store)

    assert not caplog.records
