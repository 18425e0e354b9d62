"""Long runs: a resumption reads the cached fold and what follows, a pause writes what is new, and a cache that is no
good costs time and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest

from placet import Agent, ModelResponse, ToolContext, Usage, function_tool
from placet.desk import Desk
from placet.ports import DeskStore, ModelRequest, StoredRun
from placet.runtime.journal import fold_log, load_recent
from placet.service.audit import verify
from placet.stores.opening import open_store
from placet.stores.sql import loading
from placet.testing import assistant_message, function_call
from tests.desk.scenes import PATIENCE, Witness

LONG = 1000
"""Turns."""


class Counting:
    """A model without a memory: it looks so many times, then refunds, then looks once more, then is done."""

    leaves_input_alone = True

    def __init__(self, looks: int) -> None:
        self._looks = looks

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        made = sum(item.get("type") == "function_call" for item in request.input)
        if made == self._looks:
            return ModelResponse([function_call("refund", {"order": 7}, call_id="r")], Usage(1), None)
        if made > self._looks:
            return ModelResponse([assistant_message("done")], Usage(1), None)
        return ModelResponse([function_call("look", {"order": made}, call_id=f"c{made}")], Usage(1), None)

    async def stream_response(self, request: ModelRequest) -> Any:
        yield await self.get_response(request)


def clerk(witness: Witness, looks: int) -> Agent[Any]:
    @function_tool
    async def look(order: int) -> str:
        return f"order {order} is as it should be, and this is all that there is to say about it"

    return Agent("Support", tools=[look, witness.refund()], model=Counting(looks))


async def paused_late(url: str, witness: Witness, looks: int) -> str:
    """A run that has looked so many times, and now waits."""
    async with Desk(url, agents=[clerk(witness, looks)]) as desk:
        run = await desk.start("Support", "go", max_turns=None)
        await desk.wait(run.id, until="paused", timeout=120)
    return run.id


async def known(store: DeskStore, run_id: str) -> StoredRun:
    stored = await store.load_recent(run_id)
    assert stored is not None
    assert stored.log is not None
    return stored


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, db:
            return db.execute(sql).fetchall()
    with psycopg.connect(url) as db:
        cursor = db.execute(sql.encode())
        return cursor.fetchall() if cursor.description is not None else []


class Metered:
    """A store that counts what it is asked to read and write of logs and folds."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.lines_read = self.whole_loads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def load(self, run_id: str) -> StoredRun | None:
        self.whole_loads += 1
        stored: StoredRun | None = await self._store.load(run_id)
        return self._counted(stored)

    async def load_recent(self, run_id: str) -> StoredRun | None:
        return self._counted(await self._store.load_recent(run_id))

    def _counted(self, stored: StoredRun | None) -> StoredRun | None:
        if stored is not None and stored.log is not None:
            self.lines_read += len(stored.log.lines)
        return stored


async def test_after_a_thousand_turns_a_pause_writes_only_what_is_new_and_a_resumption_reads_only_the_end(
    any_url: str, witness: Witness
) -> None:
    run_id = await paused_late(any_url, witness, LONG)
    sizes = "SELECT count(*), sum(length(text)) FROM placet_lines"
    (lines, size), (fold,) = rows(any_url, sizes)[0], rows(any_url, "SELECT position, length(data) FROM placet_folds")
    async with open_store(any_url) as store:
        metered = Metered(store)
        async with Desk(metered, agents=[clerk(witness, LONG)]) as desk:  # type: ignore[arg-type]
            (request,) = await desk.pending(run_id=run_id)
            await desk.hold("tool", "refund")
            await desk.decide(request.id, "approve", by="ana")
            await desk.wait(run_id, until="paused", timeout=PATIENCE)
            await desk.revoke(request.id, by="ops")
            await desk.release_hold("tool", "refund")
            await desk.wait(run_id, until="paused", timeout=PATIENCE)
    (lines_then, size_then), folds_then = (
        rows(any_url, sizes)[0],
        rows(any_url, "SELECT position, length(data) FROM placet_folds"),
    )

    assert lines > 2 * LONG
    assert folds_then == [fold], "deciding, revoking, driving and pausing wrote no fold"
    assert lines_then - lines <= 4
    assert size_then - size < 2000
    assert metered.whole_loads == 0
    reads = metered.lines_read / (lines - fold[0] + 4)
    assert reads <= 12, "each look read the end of the log, not all of it"
    assert lines - fold[0] < lines / 2


async def test_all_folds_that_were_ever_written_are_a_few_times_as_large_as_the_log(
    url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    make = loading.CachedFold

    def noted(**given: Any) -> Any:
        written.append(len(given["data"]))
        return make(**given)

    monkeypatch.setattr(loading, "CachedFold", noted)
    await paused_late(url, witness, 400)
    ((size,),) = rows(url, "SELECT sum(length(text)) FROM placet_lines")

    assert 3 < len(written) < 12
    assert sum(written) < 4 * size


async def test_a_run_that_goes_on_from_a_cached_fold_ends_as_it_would_have(any_url: str, witness: Witness) -> None:
    run_id = await paused_late(any_url, witness, 100)
    async with Desk(any_url, agents=[clerk(witness, 100)]) as desk:
        cached = await known(desk.store, run_id)
        whole = await desk.store.load(run_id)
        (request,) = await desk.pending(run_id=run_id)
        await desk.decide(request.id, "approve", by="ana")
        ended = await desk.wait(run_id, timeout=PATIENCE)
        stored = await desk.store.load(run_id)
        left = rows(any_url, "SELECT * FROM placet_folds")
        verdicts = [each.verdict async for each in verify(desk.store)]

    assert cached.log is not None
    assert whole is not None
    assert whole.log is not None
    assert stored is not None
    assert stored.log is not None
    assert 0 < cached.log.start <= len(cached.log) == len(whole.log)
    assert cached.log.size == whole.log.size
    assert fold_log(cached.log).history == fold_log(whole.log).history
    assert (ended.status, ended.final_output, witness.lines()) == ("ended", "done", ["refund 7"])
    assert stored.log.verify()
    assert len(fold_log(stored.log).history) == 1 + 2 * 101 + 1
    assert (left, verdicts) == ([], ["whole"]), "of a run that has ended no fold is kept"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE placet_folds SET checksum = checksum + 1",
        "UPDATE placet_folds SET version = 'of other code'",
        "UPDATE placet_folds SET position = 100000",
        "DELETE FROM placet_folds",
    ],
    ids=["damaged", "of other code", "of another log", "gone"],
)
async def test_a_cache_that_is_no_good_is_left_aside_and_made_anew(any_url: str, witness: Witness, damage: str) -> None:
    run_id = await paused_late(any_url, witness, 100)
    rows(any_url, damage)
    async with Desk(any_url, agents=[clerk(witness, 140)]) as desk:
        stored = await known(desk.store, run_id)
        (request,) = await desk.pending(run_id=run_id)
        await desk.decide(request.id, "reject", by="ana")  # the model counts on: this one looks longer
        await desk.wait(run_id, until="paused", timeout=120)
        (fold,) = rows(any_url, "SELECT position, version FROM placet_folds")

    assert stored.log is not None
    assert stored.log.start == 0
    assert fold[1] == loading.fold_version()
    assert 200 < fold[0] < 100000


async def test_bytes_that_are_no_fold_are_left_aside_too(url: str, witness: Witness) -> None:
    run_id = await paused_late(url, witness, 100)
    rows(url, "UPDATE placet_folds SET data = x'7b7d', checksum = 2745614147")  # {}, with its checksum
    async with open_store(url) as store:
        stored = await known(store, run_id)
        found = await load_recent(store, run_id)
        verdicts = [(each.verdict, each.message) async for each in verify(store)]

    assert stored.log is not None
    assert stored.log.start > 0
    assert found is not None
    assert (found[1].start, found[1].cached_at, found[2].turn) == (0, 0, 101)
    assert verdicts[0][0] == "altered"
    assert "cached fold" in verdicts[0][1]


async def test_a_cached_fold_that_was_altered_is_found_by_the_audit(url: str, witness: Witness) -> None:
    await paused_late(url, witness, 100)
    async with open_store(url) as store:
        before = [each.verdict async for each in verify(store)]
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, db:
        import zlib

        (data,) = db.execute("SELECT data FROM placet_folds").fetchone()
        forged = bytes(data).replace(b"order 5 is as it should be", b"order 5 is worth millions!")
        db.execute("UPDATE placet_folds SET data = ?, checksum = ?", (forged, zlib.crc32(forged)))
    async with open_store(url) as store:
        (verdict,) = [each async for each in verify(store)]

    assert before == ["whole"]
    assert (verdict.verdict, "cached fold" in verdict.message) == ("altered", True)


async def test_a_short_run_writes_no_fold(url: str, witness: Witness) -> None:
    await paused_late(url, witness, 5)

    assert rows(url, "SELECT * FROM placet_folds") == []


async def test_what_is_forgotten_or_erased_takes_its_fold_along(any_url: str, witness: Witness) -> None:
    deleted, erased = await paused_late(any_url, witness, 60), await paused_late(any_url, witness, 60)
    async with Desk(any_url, agents=[clerk(witness, 60)]) as desk:
        before = len(rows(any_url, "SELECT * FROM placet_folds"))
        await desk.delete(deleted)
        await desk.cancel(erased)
        await desk.wait(erased, timeout=PATIENCE)
        await desk.erase(erased)

    assert before == 2
    assert rows(any_url, "SELECT * FROM placet_folds") == []


async def test_a_decision_that_arrives_while_a_long_run_is_driven_is_taken_in(any_url: str, witness: Witness) -> None:
    """The driver holds only the end of the log, and its append finds that it has grown."""
    run_id = await paused_late(any_url, witness, 100)
    async with Desk(any_url, agents=[clerk(witness, 140)]) as desk, Desk(any_url, run=False) as elsewhere:
        (request,) = await desk.pending(run_id=run_id)
        append, is_armed = desk.store.append, [True]

        async def in_between(lease: Any, log: Any, lines: Any, run: Any) -> None:
            if is_armed and log.start and lease is not None:
                is_armed.clear()
                await elsewhere.cancel(run_id, by="ops")
            await append(lease, log, lines, run)

        desk.store.append = in_between  # type: ignore[method-assign]
        await desk.decide(request.id, "reject", by="ana")
        ended = await desk.wait(run_id, timeout=PATIENCE)
        stored = await desk.store.load(run_id)

    assert not is_armed
    assert (ended.status, ended.final_output) == ("ended", None)
    assert stored is not None
    assert stored.log is not None
    assert stored.log.verify()


async def test_a_nested_agent_s_extractor_sees_its_whole_run_behind_a_cached_fold(url: str, witness: Witness) -> None:
    seen: list[int] = []

    async def extract(result: Any) -> str:
        seen.append(len(result.new_items))
        return "extracted"

    def office() -> Agent[Any]:
        inner = clerk(witness, 3)
        tool = inner.as_tool("ask", "asks", custom_output_extractor=extract)

        @function_tool
        async def look(ctx: ToolContext[Any], order: int) -> str:
            return "nothing new"

        outer: Agent[Any] = Agent("Office", tools=[look, tool], model=Outer(70))
        return outer

    async with Desk(url, agents=[office()]) as desk:
        run = await desk.start("Office", "go", max_turns=None)
        await desk.wait(run.id, until="paused", timeout=120)
        cached = await known(desk.store, run.id)
    async with Desk(url, agents=[office()]) as desk:
        (request,) = await desk.pending(run_id=run.id)
        await desk.decide(request.id, "approve", by="ana")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert cached.log is not None
    assert cached.log.start > 0
    assert (ended.status, ended.final_output) == ("ended", "done")
    assert seen == [9]


class Outer(Counting):
    """Looks so many times, then asks the clerk."""

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        found = await super().get_response(request)
        for item in found.output:
            if isinstance(item, dict) and item.get("name") == "refund":
                return ModelResponse([function_call("ask", {"input": "go"}, call_id="n")], Usage(1), None)
        return found
