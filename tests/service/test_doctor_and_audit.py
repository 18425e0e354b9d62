"""The deploy check finds what cannot go on before anybody says yes; the audit finds what was changed in secret."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Grant, UserError, function_tool
from placet.cli.commands.audit import line_of
from placet.clock import SystemClock
from placet.core.fold import fold
from placet.core.log import Log
from placet.desk import Desk
from placet.service.audit import Head, Verdict, head_at, heads, parse_heads, verify
from placet.service.doctor import Finding, examine
from placet.service.records import AuditEntry, records, records_in_time
from placet.stores.sqlite import SQLiteStore
from placet.testing.run_writer import RunWriter
from tests.desk.scenes import PATIENCE, Planned, Witness, paused, refunds, support
from tests.desk.test_desk import office


async def findings(path: Path, *agents: Agent[Any]) -> list[Finding]:
    async with SQLiteStore(path) as store:
        return [finding async for run in examine(store, agents) for finding in run.findings]


async def waiting(path: Path, agent: Agent[Any]) -> str:
    """The id of what a run of this agent asks."""
    async with paused(Desk(f"sqlite:///{path}", agents=[agent]), agent.name) as (_, request):
        return request.id


async def test_todays_code_that_is_yesterdays_has_no_findings(tmp_path: Path, witness: Witness) -> None:
    await waiting(tmp_path / "p.db", support(witness))
    await waiting(tmp_path / "p.db", office(witness))

    assert await findings(tmp_path / "p.db", support(witness), office(witness)) == []


async def test_every_run_that_has_not_ended_is_looked_at(tmp_path: Path, witness: Witness) -> None:
    await waiting(tmp_path / "p.db", support(witness))
    async with Desk(f"sqlite:///{tmp_path / 'p.db'}", agents=[Agent("Talker", model=Planned())]) as desk:
        run = await desk.start("Talker", "hello")
        await desk.wait(run.id, timeout=PATIENCE)
    async with SQLiteStore(tmp_path / "p.db") as store:
        seen = [run.agent async for run in examine(store, [support(witness)])]

    assert seen == ["Support"]


async def test_a_tool_that_is_gone_is_found(tmp_path: Path, witness: Witness) -> None:
    request = await waiting(tmp_path / "p.db", support(witness))
    (found,) = await findings(tmp_path / "p.db", Agent("Support", model=Planned()))

    assert (found.code, found.request_id, found.stops) == ("tool_gone", request, True)
    assert "refund" in found.message


async def test_a_tool_of_a_nested_agent_that_is_gone_is_found(tmp_path: Path, witness: Witness) -> None:
    request = await waiting(tmp_path / "p.db", office(witness))
    clerk = Agent("Clerk", model=Planned())
    (found,) = await findings(tmp_path / "p.db", Agent("Office", tools=[clerk.as_tool("ask_clerk", "asks the clerk")]))

    assert (found.code, found.request_id) == ("tool_gone", request)


async def test_an_agent_that_was_renamed_is_found(tmp_path: Path, witness: Witness) -> None:
    await waiting(tmp_path / "p.db", support(witness))
    (found,) = await findings(tmp_path / "p.db", Agent("Helpdesk", tools=[witness.refund()]))

    assert (found.code, found.stops) == ("agent_gone", True)
    assert "'Support'" in found.message
    assert "Helpdesk" in found.message


async def test_a_nested_agent_that_was_renamed_is_found(tmp_path: Path, witness: Witness) -> None:
    await waiting(tmp_path / "p.db", office(witness))
    other = Agent("Somebody", tools=[witness.refund()])
    found = await findings(tmp_path / "p.db", Agent("Office", tools=[other.as_tool("ask_clerk", "asks the clerk")]))

    assert [each.code for each in found] == ["agent_gone"]


async def test_a_new_version_of_a_tool_asks_anew_and_stops_nothing(tmp_path: Path, witness: Witness) -> None:
    request = await waiting(tmp_path / "p.db", support(witness))
    (found,) = await findings(tmp_path / "p.db", support(witness, version="2"))

    assert (found.code, found.request_id, found.stops) == ("schema_changed", request, False)


async def test_arguments_that_no_longer_fit_are_found(tmp_path: Path, witness: Witness) -> None:
    @function_tool(name_override="refund", needs_approval=True)
    async def refund(order: int, cents: int) -> str:
        return "refunded"

    await waiting(tmp_path / "p.db", support(witness))
    found = await findings(tmp_path / "p.db", Agent("Support", tools=[refund], model=Planned()))

    assert [each.code for each in found] == ["schema_changed", "arguments_invalid"]
    assert "cents" in found[1].message


async def test_malformed_arguments_of_a_tool_that_asks_nobody_stop_nothing(tmp_path: Path, witness: Witness) -> None:
    turn = [*refunds(7), {"type": "function_call", "name": "look", "arguments": "not json", "call_id": "c9"}]

    @function_tool
    async def look(order: int) -> str:
        return "nothing"

    agent = Agent("Support", tools=[witness.refund(), look], model=Planned(turn))
    async with Desk(f"sqlite:///{tmp_path / 'p.db'}", agents=[agent]) as desk:
        await desk.hold("tool", "look")
        run = await desk.start("Support", "go")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        found = await findings(tmp_path / "p.db", agent)
        await desk.release_hold("tool", "look")
        (request,) = await desk.pending(run_id=run.id)
        await desk.decide(request.id, "approve")
        ended = await desk.wait(run.id, timeout=PATIENCE)

    assert found == []
    assert ended.status == "ended"


async def test_a_log_that_cannot_be_read_is_found(tmp_path: Path, witness: Witness) -> None:
    await waiting(tmp_path / "p.db", support(witness))
    forge(tmp_path / "p.db", "UPDATE placet_lines SET text = 'x' WHERE position = 1")
    (found,) = await findings(tmp_path / "p.db", support(witness))

    assert found.code == "unreadable"


# -- the audit --------------------------------------------------------------------------------------------------------


def forge(path: Path, sql: str, *given: object) -> None:
    """Write behind the store's back, as somebody who knows it does: the checksums of the rows fit."""
    with closing(sqlite3.connect(path)) as db, db:
        db.create_function("crc", 1, lambda text: zlib.crc32(text if isinstance(text, bytes) else text.encode()))
        db.execute(sql, given)
        db.execute("UPDATE placet_lines SET checksum = crc(text)")


async def ended_run(path: Path, witness: Witness) -> tuple[str, list[Head]]:
    desk = Desk(f"sqlite:///{path}", agents=[support(witness)])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ann", reason="checked")
        await desk.wait(run.id, timeout=PATIENCE)
        return run.id, [head async for head in heads(desk.store)]


async def verdicts(path: Path, kept: list[Head] | None = None) -> list[Verdict]:
    async with SQLiteStore(path) as store:
        return [verdict async for verdict in verify(store, kept or [])]


async def test_a_log_that_nobody_touched_is_whole(tmp_path: Path, witness: Witness) -> None:
    run_id, kept = await ended_run(tmp_path / "p.db", witness)
    (verdict,) = await verdicts(tmp_path / "p.db", kept)

    assert (verdict.run_id, verdict.is_whole) == (run_id, True)
    assert parse_heads("# kept\n\n" + "\n".join(head.line() for head in kept)) == kept


async def test_heads_that_were_kept_still_fit_when_the_run_has_gone_on(tmp_path: Path, witness: Witness) -> None:
    desk = Desk(f"sqlite:///{tmp_path / 'p.db'}", agents=[support(witness)])
    async with paused(desk) as (run, request):
        kept = [head async for head in heads(desk.store)]
        await desk.decide(request.id, "approve")
        await desk.wait(run.id, timeout=PATIENCE)
    (verdict,) = await verdicts(tmp_path / "p.db", kept)

    assert verdict.is_whole


async def test_an_altered_line_is_found_by_the_chain_itself(tmp_path: Path, witness: Witness) -> None:
    await ended_run(tmp_path / "p.db", witness)
    forge(
        tmp_path / "p.db",
        "UPDATE placet_lines SET text = CAST(replace(CAST(text AS TEXT), '\"ann\"', '\"eve\"') AS BLOB)",
    )
    (verdict,) = await verdicts(tmp_path / "p.db")

    assert verdict.verdict == "altered"


async def test_an_altered_line_whose_checksum_does_not_fit_is_not_called_whole(
    tmp_path: Path, witness: Witness
) -> None:
    await ended_run(tmp_path / "p.db", witness)
    with closing(sqlite3.connect(tmp_path / "p.db")) as db, db:
        db.execute("UPDATE placet_lines SET text = CAST(replace(CAST(text AS TEXT), '\"ann\"', '\"eve\"') AS BLOB)")
    (verdict,) = await verdicts(tmp_path / "p.db")

    assert not verdict.is_whole


async def test_lines_in_another_order_are_found_by_the_chain_itself(tmp_path: Path, witness: Witness) -> None:
    await ended_run(tmp_path / "p.db", witness)
    for change in ("1001 WHERE position = 1", "1 WHERE position = 2", "2 WHERE position = 1001"):
        forge(tmp_path / "p.db", f"UPDATE placet_lines SET position = {change}")  # noqa: S608
    with closing(sqlite3.connect(tmp_path / "p.db")) as db:
        places = [place for (place,) in db.execute("SELECT position FROM placet_lines ORDER BY position")]
    (verdict,) = await verdicts(tmp_path / "p.db")

    assert places == list(range(len(places)))
    assert verdict.verdict == "altered"


def cut(path: Path, head: bytes | None) -> None:
    """Take the last line away, and make the row say so."""
    forge(path, "DELETE FROM placet_lines WHERE position = (SELECT max(position) FROM placet_lines)")
    forge(path, "UPDATE placet_runs SET length = length - 1, head = coalesce(?, head)", head)


async def test_a_cut_tail_is_found_with_a_head_that_was_kept_or_by_what_is_listed(
    tmp_path: Path, witness: Witness
) -> None:
    run_id, kept = await ended_run(tmp_path / "p.db", witness)
    async with SQLiteStore(tmp_path / "p.db") as store:
        stored = await store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    cut(tmp_path / "p.db", head_at(stored.log, len(stored.log) - 1))
    (alone,) = await verdicts(tmp_path / "p.db")
    (compared,) = await verdicts(tmp_path / "p.db", kept)

    assert (alone.verdict, "list" in alone.message) == ("altered", True)  # the forger forgot what is listed
    assert compared.verdict == "cut"


async def test_a_cut_tail_is_found_whichever_of_several_kept_heads_comes_last(tmp_path: Path, witness: Witness) -> None:
    run_id, kept = await ended_run(tmp_path / "p.db", witness)
    async with SQLiteStore(tmp_path / "p.db") as store:
        stored = await store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    early = Head(run_id, 1, head_at(stored.log, 1).hex())
    cut(tmp_path / "p.db", head_at(stored.log, len(stored.log) - 1))

    found = [
        [each.verdict for each in await verdicts(tmp_path / "p.db", given)]
        for given in ([early, *kept], [*kept, early])
    ]

    assert found == [["cut"], ["cut"]]


async def test_a_log_that_was_written_anew_is_found_with_a_head_that_was_kept_or_by_what_is_listed(
    tmp_path: Path, witness: Witness
) -> None:
    run_id, kept = await ended_run(tmp_path / "p.db", witness)
    async with SQLiteStore(tmp_path / "p.db") as store:
        stored = await store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    anew = Log(run_id, stored.log.key)
    for place, line in enumerate(stored.log.lines):
        anew.adopt(line.replace(b'"ann"', b'"eve"'))
        forge(tmp_path / "p.db", "UPDATE placet_lines SET text = ? WHERE position = ?", anew.lines[-1], place)
    forge(tmp_path / "p.db", "UPDATE placet_runs SET head = ?", anew.head)
    (alone,) = await verdicts(tmp_path / "p.db")
    (compared,) = await verdicts(tmp_path / "p.db", kept)

    assert (alone.verdict, "list" in alone.message) == ("altered", True)  # the forger forgot what is listed
    assert compared.verdict == "rewritten"


async def test_a_run_that_is_gone_is_found_with_a_head_that_was_kept(tmp_path: Path, witness: Witness) -> None:
    run_id, kept = await ended_run(tmp_path / "p.db", witness)
    take_out(tmp_path / "p.db")
    (verdict,) = await verdicts(tmp_path / "p.db", kept)

    assert (verdict.run_id, verdict.verdict) == (run_id, "missing")


def take_out(path: Path) -> None:
    """Take all runs out of a store behind its back."""
    for table in ("placet_requests", "placet_lines", "placet_runs"):
        forge(path, f"DELETE FROM {table}")  # noqa: S608


async def deleted_run(path: Path, witness: Witness) -> tuple[str, list[Head]]:
    """A run that ended and was deleted, and the heads from before."""
    run_id, kept = await ended_run(path, witness)
    async with Desk(f"sqlite:///{path}", run=False) as desk:
        assert await desk.delete(run_id, by="ops", reason="asked for")
    return run_id, kept


async def test_a_run_that_somebody_deleted_can_be_told_from_one_that_was_lost(tmp_path: Path, witness: Witness) -> None:
    run_id, kept = await deleted_run(tmp_path / "p.db", witness)
    operators, verdict = await verdicts(tmp_path / "p.db", kept)

    assert (operators.is_whole, operators.message) == (True, "it tells of 1 deleted run")
    assert (verdict.run_id, verdict.verdict, verdict.is_whole) == (run_id, "deleted", True)
    assert verdict.message.startswith("deleted by ops at 20")
    assert verdict.deleted is not None
    assert (verdict.deleted.by, verdict.deleted.reason, verdict.deleted.head) == ("ops", "asked for", kept[0].digest)


async def test_an_early_head_of_a_run_that_went_on_and_was_deleted_is_settled(tmp_path: Path, witness: Witness) -> None:
    run_id, kept = await deleted_run(tmp_path / "p.db", witness)
    _, verdict = await verdicts(tmp_path / "p.db", [Head(run_id, 1, "ab" * 32), *kept])

    assert verdict.verdict == "deleted"


async def test_a_run_that_was_cut_or_written_anew_before_it_was_deleted_is_found(
    tmp_path: Path, witness: Witness
) -> None:
    run_id, (head,) = await deleted_run(tmp_path / "p.db", witness)
    longer = Head(run_id, head.length + 1, "ab" * 32)
    other = Head(run_id, head.length, "ab" * 32)
    found = [(await verdicts(tmp_path / "p.db", [each]))[1] for each in (longer, other)]

    assert [each.verdict for each in found] == ["cut", "rewritten"]
    assert all("deleted by ops" in each.message for each in found)


async def test_a_deletion_in_an_altered_operators_log_settles_nothing(tmp_path: Path, witness: Witness) -> None:
    _, kept = await deleted_run(tmp_path / "p.db", witness)
    with closing(sqlite3.connect(tmp_path / "p.db")) as db, db:
        db.create_function("crc", 1, zlib.crc32)
        db.execute(
            "UPDATE placet_operator_lines SET text = CAST(replace(CAST(text AS TEXT), '\"ops\"', '\"eve\"') AS BLOB)"
        )
        db.execute("UPDATE placet_operator_lines SET checksum = crc(text)")
    found = await verdicts(tmp_path / "p.db", kept)

    assert [each.verdict for each in found] == ["altered", "missing"]


async def test_a_deleted_run_that_is_back_is_found_and_another_one_under_its_id_is_not_blamed(
    tmp_path: Path, witness: Witness
) -> None:
    path = tmp_path / "p.db"
    run_id, kept = await ended_run(path, witness)
    async with SQLiteStore(path) as store:
        stored = await store.load(run_id)
        assert stored is not None
        assert stored.log is not None
        await store.delete(run_id, by="ops")
        walker = Log(run_id, stored.log.key)
        lines = [walker.adopt(text) for text in stored.log.lines]
        run = fold([fact for line in lines for fact in line.facts])
        await store.append(None, Log(run_id, stored.log.key), lines, run)
    _, restored = await verdicts(path, kept)
    async with Desk(f"sqlite:///{path}", agents=[support(witness)], run=False) as desk:
        await desk.delete(run_id, by="ops")
        await desk.start("Support", "again", run_id=run_id)
    _, anew = await verdicts(path, kept)

    assert (restored.verdict, restored.is_whole) == ("restored", False)
    assert "Delete it again" in restored.message
    assert (anew.run_id, anew.verdict) == (run_id, "whole")


async def test_the_record_of_operators_names_every_run_that_was_deleted_or_purged(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, _):
        talk = RunWriter(at=1000.0)
        await talk.begin(desk.store)
        await talk.end(desk.store)
        await desk.purge(2000.0, by="cron", reason="ninety days")
        await desk.delete(run.id, by="ops", reason="a mistake")
        told = [entry async for entry in records(desk.store)]

    assert [(each.what, each.subject, each.by, each.why) for each in told] == [
        ("run deleted", talk.id, "cron", "ninety days"),
        ("run deleted", run.id, "ops", "a mistake"),
    ]
    assert told[0].digest == talk.log.head.hex()
    assert told[0].detail == "2 lines, in a purge"


def test_heads_that_cannot_be_read_are_refused_with_their_line() -> None:
    with pytest.raises(UserError, match="Line 2"):
        parse_heads("run_1 3 abc\nnonsense")


async def operated(path: Path, witness: Witness) -> list[Head]:
    """A store in which operators did something, and the heads at that time."""
    async with Desk(f"sqlite:///{path}", run=False) as desk:
        await desk.hold("tool", "refund", by="ops", reason="audit")
        await desk.release_hold("tool", "refund", by="ops")
        return [head async for head in heads(desk.store)]


async def test_the_operators_log_is_checked_like_a_run_s(tmp_path: Path, witness: Witness) -> None:
    kept = await operated(tmp_path / "p.db", witness)
    (whole,) = await verdicts(tmp_path / "p.db", kept)
    with closing(sqlite3.connect(tmp_path / "p.db")) as db, db:
        db.create_function("crc", 1, zlib.crc32)
        db.execute(
            "UPDATE placet_operator_lines SET text = CAST(replace(CAST(text AS TEXT), '\"ops\"', '\"eve\"') AS BLOB)"
        )
        db.execute("UPDATE placet_operator_lines SET checksum = crc(text)")
    (altered,) = await verdicts(tmp_path / "p.db", kept)

    assert [(head.run_id, head.length) for head in kept] == [("operators", 2)]
    assert (whole.run_id, whole.is_whole) == ("operators", True)
    assert (altered.run_id, altered.verdict) == ("operators", "altered")


async def test_a_hold_that_vanished_from_the_operators_log_is_found_with_a_head_that_was_kept(
    tmp_path: Path, witness: Witness
) -> None:
    kept = await operated(tmp_path / "p.db", witness)
    with closing(sqlite3.connect(tmp_path / "p.db")) as db, db:
        db.execute("DELETE FROM placet_operator_lines")
        db.execute("UPDATE placet_operators SET length = 0, head = x'', key = x''")
    (compared,) = await verdicts(tmp_path / "p.db", kept)

    assert await verdicts(tmp_path / "p.db") == []
    assert (compared.run_id, compared.verdict) == ("operators", "cut")


async def test_the_record_of_a_run_holds_every_decision_grant_and_effect(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness, refunds(7), refunds(8))])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "approve", by="ana", reason="checked", always=Grant(scope="agent"))
        await desk.wait(run.id, timeout=PATIENCE)
        (grant,) = await desk.grants()
        await desk.revoke_grant(grant.id, by="ops", reason="too wide")
        found = [entry async for entry in records(desk.store)]

    assert [(entry.run_id == run.id, entry.what, entry.by, entry.why) for entry in found] == [
        (False, "grant made", "ana", "checked"),
        (False, "grant revoked", "ops", "too wide"),
        (True, "grant made", "ana", "checked"),
        (True, "approved", "ana", "checked"),
        (True, "effect begun", None, None),
        (True, "effect over", None, None),
        (True, "approved", "ana", "checked"),
        (True, "effect begun", None, None),
        (True, "effect over", None, None),
    ]
    assert [entry.digest == request.digest for entry in found if entry.subject.endswith("_t1c0")] == [True] * 3
    assert found[6].detail == f"refund, by grant {grant.id}"
    assert [entry.grant for entry in found if entry.what == "approved"] == [None, grant.id]


async def test_the_record_of_an_edited_call_holds_what_was_asked_and_what_ran(any_url: str, witness: Witness) -> None:
    desk = Desk(any_url, agents=[support(witness, refunds(7))])
    async with paused(desk) as (run, request):
        await desk.decide(request.id, "edit", arguments={**request.arguments, "order": 3}, by="ana")
        await desk.wait(run.id, timeout=PATIENCE)
        found = [entry async for entry in records(desk.store, run.id)]

    told = {entry.what: entry for entry in found}
    assert [(told[what].asked, told[what].runs) for what in ("edited", "effect begun")] == [
        ({"order": 7}, {"order": 3})
    ] * 2
    assert line_of(told["effect begun"]).partition("order: ")[2].startswith("asked 7, runs 3")
    assert "by ana" in line_of(told["edited"])


def test_the_line_of_a_call_that_a_standing_decision_decided_says_whose_it_was() -> None:
    entry = AuditEntry(at=0.0, what="approved", run_id="run_a", subject="run_a:1.0", by="ana", grant="grant_1")

    assert "by a standing decision of ana" in line_of(entry)


class NeverTwice(SystemClock):
    """Says no moment twice, also where a machine is quicker than a millisecond, which is what logs keep of a time."""

    def __init__(self) -> None:
        self._last = 0.0

    def now(self) -> float:
        self._last = max(self._last + 0.002, super().now())
        return self._last


async def test_the_record_of_a_store_is_in_the_order_of_time_across_runs_and_operators(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness, refunds(7))], clock=NeverTwice())
    async with desk:
        runs = [await desk.start("Support", "refund order 7") for _ in range(3)]
        for run in runs:
            await desk.wait(run.id, until="paused", timeout=PATIENCE)
        asked = [(await desk.pending(run_id=run.id))[0] for run in runs]
        await desk.decide(asked[2].id, "reject", by="ana")
        await desk.hold("agent", "Nobody", by="ops")
        await desk.decide(asked[0].id, "reject", by="ben")
        await desk.release_hold("agent", "Nobody", by="ops")
        await desk.decide(asked[1].id, "reject", by="eva")
        found = [entry async for entry in records_in_time(desk.store)]

    assert [(entry.what, entry.by, entry.run_id) for entry in found] == [
        ("rejected", "ana", runs[2].id),
        ("hold placed", "ops", "operators"),
        ("rejected", "ben", runs[0].id),
        ("hold lifted", "ops", "operators"),
        ("rejected", "eva", runs[1].id),
    ]
    assert [entry.at for entry in found] == sorted(entry.at for entry in found)
