"""The benchmarks of whole systems do what they say, very small. Nothing here is timed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import run
from bench.bars import bars
from bench.contenders import placet_desk
from bench.durable.processes import Failed
from bench.results import Results
from bench.sections.desk import connections
from bench.systems import SYSTEMS, durable, report


def test_the_stores_are_measured_beside_the_plain_driver(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = run.main(["stores", "--quick"])

    shown = capsys.readouterr().out
    assert exit_code == 0
    for words in ("SQLite, durable appends, 16 writers", "PostgreSQL, 60 waiting runs: from decision to effect"):
        assert words in shown


def test_the_desk_is_measured_beside_the_bare_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = run.main(["desk", "--quick", "--out", str(tmp_path / "desk.json")])

    shown = capsys.readouterr()
    assert exit_code == 0, shown.err
    assert "a decision over HTTP, durable, by 32 clients, while 20 requests wait" in shown.out
    found = Results.load(tmp_path / "desk.json")
    assert {tuple(row) for row in found.values.values()} == {("placet", "limit")}
    assert {key.split(":")[0] for key in found.values} == {
        "desk-decisions",
        "desk-pages",
        "desk-listeners",
        "desk-crowd",
    }


def test_the_gate_is_measured_beside_a_bare_call_and_a_bare_round_trip(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = run.main(["gate", "--quick"])

    shown = capsys.readouterr().out
    assert exit_code == 0
    for words in ("on SQLite: proposed, claimed, reported", "over HTTP, in three requests", "10 open waits"):
        assert words in shown


def test_the_gateway_is_measured_beside_a_plain_proxy(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = run.main(["gateway", "--quick"])

    shown = capsys.readouterr().out
    assert exit_code == 0
    for words in ("a call that passes, 2025-11-25", "a call that passes, 2026-07-28", "is recorded, on SQLite"):
        assert words in shown


async def calls_of_functions(page: str, pending: int) -> int:
    """How many are needed for a page of the desk while so many requests wait: the least of some, all warm. In some of
    them the desk also does other work, such as filling its index of words."""
    counts = []
    async with placet_desk.serve_desk(pending) as served, connections(served, 1) as (client,):
        for _ in range(60):
            calls: list[str] = []
            sys.setprofile(lambda _frame, event, _argument, calls=calls: calls.append(event))
            try:
                status, _ = await client.ask("GET", served.pages[page])
            finally:
                sys.setprofile(None)
            assert status == 200
            counts.append(sum(event in ("call", "c_call") for event in calls))
    return min(counts)


@pytest.mark.parametrize("page", ["list", "inbox"])
async def test_a_page_of_the_desk_takes_as_many_steps_however_many_requests_wait(page: str) -> None:
    few, many = [await calls_of_functions(page, pending) for pending in (300, 1500)]  # above what a page shows at most

    assert few > 500
    assert many == pytest.approx(few, rel=0.02)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_docs_page_has_a_place_for_the_figures_of_every_system(name: str) -> None:
    assert report.PAGES.get(name, report.PAGE).read_text().count(report.begin(name)) == 1


def test_a_place_where_a_report_cannot_be_kept_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        report.options_of("stores", "", ["--out", str(tmp_path)])

    assert "is a folder: name a file" in capsys.readouterr().err


def test_a_report_is_kept_and_stands_in_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "benchmark.md"
    page.write_text(f"before\n{report.begin('stores')}\nold\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "PAGE", page)
    found = report.Report("stores", "plain driver")
    found.add("appends", "20 per s", "10 per s", 2.0)

    found.finish(report.options_of("stores", "", ["--docs", "--out", str(tmp_path / "out.json")]))

    assert json.loads((tmp_path / "out.json").read_text())["rows"][0]["ratio"] == 2.0
    text = page.read_text()
    assert "| appends | 20 per s | 10 per s | 2.00 |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_durable_runs_are_measured_and_their_effects_seen_by_a_witness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Placet alone: the peers' environments are made when somebody measures."""
    out = tmp_path / "durable.json"
    parts = ["--only", "alone", "--only", "crowd", "--only", "statements"]

    exit_code = run.main(["durable", "--quick", "--without-peers", *parts, "--out", str(out)])

    shown = capsys.readouterr()
    assert exit_code == 0, shown.err
    assert "from a decision to its effect" in shown.out
    found = {each["kind"]: each["values"] for each in json.loads(out.read_text())["found"]}
    assert set(found) == {"PostgreSQL", "SQLite"}
    assert 20 < found["PostgreSQL"]["crowd_statements"] < 60
    assert found["PostgreSQL"]["crowd_wal"] > 1000


@pytest.mark.parametrize("seen", [["1/2.0", "1/2.0"], []], ids=["twice", "never"])
def test_a_contender_whose_effects_were_not_seen_once_each_gets_no_figure(tmp_path: Path, seen: list[str]) -> None:
    scene = object.__new__(durable.Scene)
    scene.contender, scene.kind, scene.effects = durable.PLACET, "SQLite", tmp_path / "effects"
    scene.effects.write_text("".join(f"{order} 1.0\n" for order in seen))

    with pytest.raises(Failed, match="not once"):
        scene.check(["1/2"])


def test_the_picture_of_durable_runs_shows_both_parts() -> None:
    picture = bars("Time", ("the program", "the server"), [("placet", 10.0, 5.0), ("DBOS", 40.0, 20.0)], "ms")

    assert "15.0 ms" in picture
    assert "60.0 ms" in picture
