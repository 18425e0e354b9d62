"""The index for searching: filled from the feed, by any number of processes, and gone with what it is about."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from placet.core.words import words_asked
from placet.facts import events as e
from placet.ports import DeskStore, RequestQuery
from placet.service.search_index import SearchIndex
from placet.stores.opening import open_store
from placet.testing.run_writer import RunWriter
from tests.support.decided import waiting


async def found(store: DeskStore, text: str) -> list[str]:
    return [row.tool for row in (await store.search(words_asked(text), RequestQuery(status=None))).rows]


async def test_what_was_there_before_and_what_comes_later_is_found_by_what_is_said_of_it(any_url: str) -> None:
    async with open_store(any_url) as store:
        before = await waiting(store, "Support", "refund", [{"order": "A-77"}], summaries=["Pay ana back"])
        index = SearchIndex(store)
        await index.fill()
        await waiting(store, "Ops", "drop_table", [{"table": "orders"}])
        await before.append(store, e.DecisionMade("1.0", 1, "digest 1.0", "reject", "carol", 9.0, "no such ticket"))

        await asyncio.gather(index.fill(), SearchIndex(store).fill())

        assert await found(store, "77") == ["refund"]
        assert await found(store, "ana") == ["refund"]
        assert await found(store, "carol ticket") == ["refund"]
        assert await found(store, "order") == ["refund", "drop_table"]
        assert await found(store, before.id) == ["refund"]


async def test_the_index_can_be_made_anew_and_counts_what_is_in_it(any_url: str) -> None:
    async with open_store(any_url) as store:
        await waiting(store, "Support", "refund", [{"order": str(n)} for n in range(3)])
        index = SearchIndex(store)

        assert await index.rebuild() == 3
        assert await index.rebuild() == 3
        assert await found(store, "refund") == ["refund"] * 3


async def test_a_reader_that_is_behind_brings_nothing_back_of_what_was_erased(any_url: str) -> None:
    async with open_store(any_url) as store:
        run = await waiting(store, "Support", "refund", [{"order": "canary"}])
        await run.append(store, *run.cancelled())
        await store.erase(run.id)

        await SearchIndex(store).fill()

        assert await found(store, "canary") == []


@pytest.mark.promise("P14")
async def test_no_file_holds_a_word_of_what_was_erased(tmp_path: Path) -> None:
    file = tmp_path / "placet.db"
    async with open_store(f"sqlite:///{file}") as store:
        for n in range(30):
            await waiting(store, "Support", "refund", [{"order": f"other{n}"}])
        run = await waiting(store, "Support", "refund", [{"order": "canarybird"}])
        await SearchIndex(store).fill()
        await run.append(store, *run.cancelled())
        was_there = _is_in_files(tmp_path, b"canarybird")
        await store.erase(run.id)

        assert was_there
        assert not _is_in_files(tmp_path, b"canary")


def _is_in_files(folder: Path, text: bytes) -> bool:
    return any(text in file.read_bytes() for file in folder.iterdir())


async def test_a_run_writer_without_questions_is_passed_over(url: str) -> None:
    async with open_store(url) as store:
        await RunWriter().begin(store)

        assert await SearchIndex(store).fill() == await store.latest_sequence()
