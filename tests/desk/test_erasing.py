"""Personal data of a run that has ended can be erased; that it was, by whom and when stays, and so does the chain."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from placet import RunFinished, Runner, RunState, UserError
from placet.cli.picture import marks_of_run
from placet.core.index import RequestRecord
from placet.core.log import read_lines
from placet.core.story import story_of
from placet.desk import Desk
from placet.service.audit import Head, heads, verify
from placet.service.records import records
from placet.stores.opening import open_store
from placet.stores.sql.forgetting import is_blank, request_erased
from placet.stores.sql.rows import read_request, text_of
from tests.desk.scenes import PATIENCE, Witness, paused, refunds, support

CANARY = "Canary-Person-4711"


async def erased_run(url: str, witness: Witness) -> tuple[str, str, list[Head]]:
    """A run full of somebody's data, erased: its id, what it asked, and the heads from before."""
    agent = support(witness, [*refunds(7)], needs_approval=True)
    desk = Desk(url, agents=[agent])
    async with desk:
        run = await desk.start("Support", f"Refund {CANARY} " * 2000, by=CANARY, context={"who": CANARY})
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        (request,) = await desk.pending(run_id=run.id)
        with pytest.raises(UserError, match="waits for people"):
            await desk.erase(run.id, by="ops")
        await desk.decide(request.id, "reject", by=CANARY, reason=CANARY, message=f"not for {CANARY}")
        await desk.wait(run.id, timeout=PATIENCE)
        kept = [head async for head in heads(desk.store)]
        assert await desk.erase(run.id, by="ops", reason="asked for")
    return run.id, request.id, kept


async def test_an_erased_run_verifies_against_heads_from_before_and_says_who_erased_it(
    any_url: str, witness: Witness
) -> None:
    run_id, _, kept = await erased_run(any_url, witness)
    async with open_store(any_url) as store:
        found = {each.run_id: each async for each in verify(store, kept)}
        told = [entry async for entry in records(store, "operators")]

    assert [each.verdict for each in found.values()] == ["whole", "whole"]
    erasure = found[run_id].erased
    assert erasure is not None
    assert (erasure.by, erasure.reason) == ("ops", "asked for")
    assert found[run_id].message.startswith("erased by ops at 20")
    assert [(entry.what, entry.subject, entry.by) for entry in told] == [("run erased", run_id, "ops")]


async def test_what_is_left_of_an_erased_run_can_be_looked_at_and_holds_nothing(any_url: str, witness: Witness) -> None:
    run_id, request_id, _ = await erased_run(any_url, witness)
    async with Desk(any_url, agents=[support(witness)]) as desk:
        run, request = await desk.get(run_id), await desk.request(request_id)
        listed = (await desk.runs()).rows
        stored = await desk.store.load(run_id)
        again = await desk.erase(run_id, by="ops")
        with pytest.raises(RunFinished, match="was erased"):
            await desk.decide(request_id, "approve", by="late")
        with pytest.raises(RunFinished, match="was erased"):
            await desk.cancel(run_id)

    assert stored is not None
    assert stored.log is not None
    story = story_of(read_lines(stored.log.lines))
    assert CANARY not in repr((run, request, listed, stored.log.lines, story))
    assert (run.status, run.final_output, run.started_by, run.erased_at is None) == ("ended", None, None, False)
    assert (request.status, request.arguments, request.decided_by) == ("rejected", "(erased)", None)
    assert (story.has_ended, [mark.word for mark in marks_of_run(story)]) == (True, ["erased"])
    assert not again


async def test_a_copy_of_the_state_of_an_erased_run_does_not_bring_it_back(url: str, witness: Witness) -> None:
    agent = support(witness)
    async with Desk(url, agents=[agent]) as desk:
        state = (await Runner.run(agent, "Refund order 7", store=desk.store)).to_state()
        text = state.to_string()
        (request,) = await desk.pending()
        await desk.decide(request.id, "reject", by="ana")
        await desk.wait(request.run_id, timeout=PATIENCE)
        await desk.erase(request.run_id, by="ops")

        with pytest.raises(RunFinished, match="was erased"):
            await Runner.run(agent, await RunState.from_string(agent, text), store=desk.store)

    assert witness.lines() == []


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("placet.db")}


async def test_no_byte_of_it_is_left_in_the_file_or_beside_it(tmp_path: Path, witness: Witness) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    async with open_store(url) as looking:  # another process has the file open all the time
        await looking.latest_sequence()
        await erased_run(url, witness)
        files = _files(tmp_path)

    assert "placet.db" in files
    assert [name for name, content in files.items() if CANARY.encode() in content] == []


async def test_no_row_of_the_database_holds_it(any_url: str, witness: Witness, tmp_path: Path) -> None:
    await erased_run(any_url, witness)
    found: list[str] = []
    if any_url.startswith("sqlite"):
        with closing(sqlite3.connect(tmp_path / "placet.db")) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            found = [name for name in tables if CANARY in str(db.execute(f"SELECT * FROM {name}").fetchall())]  # noqa: S608
    else:
        with psycopg.connect(any_url) as db:
            rows = db.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'placet%'").fetchall()
            tables = [name for (name,) in rows]
            found = [name for name in tables if CANARY in str(db.execute(f"SELECT * FROM {name}".encode()).fetchall())]  # noqa: S608

    assert len(tables) > 5
    assert found == []


def forge(path: Path, sql: str, *given: object) -> None:
    """Write behind the store's back, with checksums that fit."""
    with closing(sqlite3.connect(path)) as db, db:
        db.create_function("crc", 1, zlib.crc32)
        db.execute(sql, given)
        db.execute("UPDATE placet_lines SET checksum = crc(text)")


async def test_data_that_was_taken_out_behind_the_store_s_back_is_no_erasure(tmp_path: Path, witness: Witness) -> None:
    desk = Desk(f"sqlite:///{tmp_path / 'p.db'}", agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "reject", by="ana")
        await desk.wait(run.id, timeout=PATIENCE)
        stored = await desk.store.load(run.id)
    assert stored is not None
    assert stored.log is not None
    for position, text in enumerate(stored.log.erased().lines):
        forge(tmp_path / "p.db", "UPDATE placet_lines SET text = ? WHERE position = ?", text, position)
    async with open_store(f"sqlite:///{tmp_path / 'p.db'}") as store:
        (verdict,) = [each async for each in verify(store)]

    assert verdict.verdict == "altered"
    assert "knows of no erasure" in verdict.message


async def test_a_backup_that_brings_erased_data_back_is_found(tmp_path: Path, witness: Witness) -> None:
    place, url = tmp_path / "p.db", f"sqlite:///{tmp_path / 'p.db'}"
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "reject", by="ana")
        await desk.wait(run.id, timeout=PATIENCE)
        before = await desk.store.load(run.id)
        await desk.erase(run.id, by="ops")
    assert before is not None
    assert before.log is not None
    for position, text in enumerate(before.log.lines):
        forge(place, "UPDATE placet_lines SET text = ? WHERE position = ?", text, position)
    forge(place, "UPDATE placet_runs SET key = ?", before.log.key)
    async with open_store(url) as store:
        found = {each.run_id: each.verdict async for each in verify(store)}

    assert found == {"operators": "whole", run.id: "restored"}


@pytest.mark.parametrize("digest", ["00" * 32, "00" * 31, "", "none"])
async def test_a_digest_that_was_altered_in_an_erased_log_is_found(
    tmp_path: Path, witness: Witness, digest: str
) -> None:
    run_id, _, _ = await erased_run(f"sqlite:///{tmp_path / 'p.db'}", witness)
    forge(tmp_path / "p.db", "UPDATE placet_lines SET text = ? WHERE position = 0", _line_with(tmp_path, digest))
    async with open_store(f"sqlite:///{tmp_path / 'p.db'}") as store:
        found = {each.run_id: each.is_whole async for each in verify(store)}

    assert found == {"operators": True, run_id: False}


def _line_with(folder: Path, digest: str) -> bytes:
    with closing(sqlite3.connect(folder / "p.db")) as db:
        (text,) = db.execute("SELECT text FROM placet_lines WHERE position = 0").fetchone()
    before, _, rest = text.partition(b'["erased","')
    return bytes(before + b'["erased","' + digest.encode() + rest[64:])


def test_of_what_a_request_said_nothing_is_left() -> None:
    row = RequestRecord(
        id="run_x_t1c0_q1",
        run_id="run_x",
        call="1.0",
        number=1,
        kind="approval",
        agent="Support",
        tool="refund",
        arguments_text=CANARY,
        digest=CANARY,
        created_at=1.0,
        why=CANARY,
        questions={"a": {"message": CANARY}},
        proposed=CANARY,
        summary=CANARY,
    )

    left = request_erased(text_of(row))

    assert CANARY not in left
    assert is_blank(read_request(left, "closed", None))
