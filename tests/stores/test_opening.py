"""From URLs to stores, and what is wrong with the others."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from placet.facts.errors import StoreError, UserError
from placet.stores.opening import open_store
from placet.stores.postgres import PostgresStore
from placet.stores.sqlite import SQLiteStore
from placet.testing.desk_contracts import Story


async def test_a_relative_and_an_absolute_path_are_told_apart_by_their_slashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep er").mkdir()
    for url in ("sqlite:///near.db", f"sqlite:///{tmp_path}/deep%20er/far.db"):
        async with open_store(url) as store:
            await Story().begin(store)

    assert (tmp_path / "near.db").exists()
    assert (tmp_path / "deep er" / "far.db").exists()


async def test_memory_is_a_store_of_its_own() -> None:
    async with open_store("sqlite://:memory:") as store, open_store("sqlite://:memory:") as other:
        story = Story()
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
