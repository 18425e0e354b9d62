"""The benchmark itself: every work is done, and done right, by every contender. Nothing here is timed."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import run
from bench.contenders import CONTENDERS
from bench.plots import draw
from bench.results import NotResults, Results, over_budget
from bench.sections import works, works_of_the_library
from bench.table import as_markdown, as_text, compared, rows, shown
from bench.work import Contender, Work

WORKS = works()


def results_with(value: float) -> Results:
    """As a whole run gives them, with one value for Placet and 1 for the limit everywhere."""
    results = Results("2026-01-01", "2 cores", "CPython 3.11", 5)
    for work in WORKS:
        for size in work.sizes:
            results.add(work.name, size, "placet", {figure.key: value for figure in work.figures})
            results.add(work.name, size, "limit", {figure.key: 1.0 for figure in work.figures})
    return results


def test_every_work_is_done_right_by_every_contender(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = run.main(["--quick", "--without-peers", "--out", str(tmp_path / "results.json")])

    shown, found = capsys.readouterr(), Results.load(tmp_path / "results.json")
    assert exit_code == 0, shown.err
    wanted = {f"{work.name}:{work.quick}:{figure.key}" for work in WORKS for figure in work.figures}
    assert set(found.values) == wanted
    assert {tuple(row) for row in found.values.values()} == {tuple(each.name for each in CONTENDERS)}
    assert "1,000" not in shown.out


def test_a_contender_that_does_less_than_a_work_asks_for_gets_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "LATEST", tmp_path / "latest.json")
    lazy = Contender("lazy", sys.executable, "tests.bench.lazy_contender")

    exit_code = run.main(["--quick", "--only", "turn"], [lazy])

    shown = capsys.readouterr()
    assert exit_code == 1
    assert "lazy failed at its first work" in shown.err
    assert "calls that ran: 0 instead of 3" in shown.err
    assert shown.out == ""
    assert not (tmp_path / "latest.json").exists()


def test_a_contender_that_cannot_do_a_work_shows_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    lazy = Contender("lazy", sys.executable, "tests.bench.lazy_contender")

    exit_code = run.main(["--quick", "--only", "status", "--only", "import"], [lazy])

    shown = capsys.readouterr()
    assert exit_code == 0, shown.err
    assert "status" not in shown.out
    assert "import" in shown.out


def test_a_name_that_no_work_has_is_refused_with_the_names_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = run.main(["--quick", "--only", "nothing"])

    assert exit_code == 1
    assert "turn, parallel, cycle" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--quick", "--only=turn"])
def test_the_docs_are_written_from_whole_runs_only(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--plots", option])

    assert "needs a whole run" in capsys.readouterr().err


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_a_number_of_rounds_that_measures_nothing_is_refused(rounds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main([f"--rounds={rounds}"])

    assert f"'{rounds}' measures nothing: give a whole number from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "is_kept"),
    [([], True), (["--without-peers"], False), (["--peers=langgraph"], False), (["--only=turn"], False)],
)
def test_only_a_whole_run_takes_the_place_of_the_latest_results(
    options: list[str],
    is_kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr(run, "measure", lambda *_: results_with(2.0))

    exit_code = run.main(options, CONTENDERS)

    assert exit_code == 0
    assert (tmp_path / "latest.json").exists() == is_kept
    assert ("Not kept" in capsys.readouterr().out) == (not is_kept)


def test_a_place_where_results_cannot_be_kept_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "measure", lambda *_: pytest.fail("it was measured"))
    (tmp_path / "file").touch()
    refused = {
        tmp_path: "is a folder: name a file",
        tmp_path / "missing" / "results.json": f"there is no folder {tmp_path / 'missing'}",
        tmp_path / "file" / "results.json": "there is no folder",
        tmp_path / ("long" * 100): "cannot be written (File name too long): name another file",
    }

    for place, sentence in refused.items():
        with pytest.raises(SystemExit, match="2"):
            run.main(["--without-peers", "--out", str(place)], CONTENDERS)
        assert sentence in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_results_that_cannot_be_compared_with_are_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "measure", lambda *_: pytest.fail("it was measured"))
    results_with(1.0).save(tmp_path / "good.json")
    good = json.loads((tmp_path / "good.json").read_text())
    refused: dict[str, object] = {
        "holds no results of this benchmark (Object missing required field": {},
        "Expected `object`, got `array` - at `$.values`": good | {"values": []},
        "Expected `float`, got `str` - at `$.values[...][...]`": good | {"values": {"turn:10:turn": {"placet": "2"}}},
        "Expected `float` >= 0.0 - at `$.values[...][...]`": good | {"values": {"turn:10:turn": {"placet": -1}}},
        "Expected `int`, got `str` - at `$.rounds`": good | {"rounds": "5"},
        "holds no figures": good | {"values": {}},
    }

    for sentence, content in refused.items():
        (tmp_path / "earlier.json").write_text(json.dumps(content))
        assert run.main(["--without-peers", "--compare", str(tmp_path / "earlier.json")], CONTENDERS) == 1
        shown = capsys.readouterr().err
        assert sentence in shown
        assert shown.rstrip().endswith("name a file that `python3 dev.py bench --out FILE` wrote.")


def test_results_come_back_from_their_file_and_the_least_counts(tmp_path: Path) -> None:
    results = results_with(3.0)
    results.add("turn", 10, "placet", {"turn": 2.0})
    results.add("turn", 10, "placet", {"turn": 4.0})
    results.save(tmp_path / "deep" / "results.json")

    found = Results.load(tmp_path / "deep" / "results.json")

    assert found == results
    assert found.values["turn:10:turn"] == {"placet": 2.0, "limit": 1.0}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 0}', '{"format": 1, "surprise": 2}'])
def test_a_file_that_holds_no_results_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)

    with pytest.raises(NotResults, match=r"other\.json"):
        Results.load(file)


def test_the_table_shows_figures_ratios_and_growth() -> None:
    results = results_with(2e-6)
    results.values["turn:400:turn"] = {"placet": 3e-6, "limit": 1e-6}

    text = as_text(rows(results, WORKS))

    by_title = {line[:46].strip(): line[46:].split() for line in text.splitlines()}
    assert by_title["one turn with one call, in a run of 400 turns"][-1] == "3.00"
    assert "× 1.50" in next(line for line in text.splitlines() if "growth of a turn's time, from 10 to 400" in line)
    assert len({len(line) for line in text.splitlines()}) == 1


def test_growth_stands_below_the_figure_that_it_is_of() -> None:
    results = results_with(2e-3)
    results.values["desk-pages:100000:inbox"] = {"placet": 6e-3, "limit": 1.0}

    (pages,) = (work for work in WORKS if work.name == "desk-pages")
    table = rows(results, [pages])

    assert [row[:2] for row in table[1:]] == [
        ["while 1,000 requests wait: a page of the API's list", "2.00 ms"],
        ["while 100,000 requests wait: a page of the API's list", "2.00 ms"],
        ["  growth of the time of a page of the API's list, from 1,000 to 100,000", "× 1.00"],
        ["while 1,000 requests wait: the inbox page", "2.00 ms"],
        ["while 100,000 requests wait: the inbox page", "6.00 ms"],
        ["  growth of the inbox page's time, from 1,000 to 100,000", "× 3.00"],
    ]


def test_growth_of_a_rate_is_growth_of_its_time() -> None:
    results = results_with(1e-3)
    results.values["desk-decisions:100000:decision"] = {"placet": 2e-3, "limit": 1.0}

    (decisions,) = (work for work in WORKS if work.name == "desk-decisions")
    _, few, many, growth = rows(results, [decisions])

    assert (few[1], many[1]) == ("1,000 per s", "500 per s")
    assert growth[:2] == ["  growth of a decision's time, from 1,000 to 100,000", "× 2.00"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "–"), (1.2345e-7, "0.000123 ms"), (5.66e-5, "0.0566 ms"), (2.0, "2,000 ms")]
)
def test_a_small_figure_keeps_its_digits_and_what_no_clock_saw_is_a_dash(seconds: float, text: str) -> None:
    assert shown(seconds, "ms") == text
    assert shown(0.0, "per s") == "–"


def test_a_table_without_peers_is_followed_by_a_line_that_says_how_targets_are_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "measure", lambda *_: results_with(2.0))

    run.main(["--without-peers"], CONTENDERS)

    assert "Targets are held against the best peer" in capsys.readouterr().out


def test_a_whole_run_leaves_the_desk_to_its_own_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def measure(_contenders: object, works: list[Work], *_: object) -> Results:
        asked.append([work.name for work in works])
        return results_with(2.0)

    monkeypatch.setattr(run, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr(run, "measure", measure)

    run.main([], CONTENDERS)
    run.main(["--only", "desk"], CONTENDERS)

    assert asked == [
        [work.name for work in works_of_the_library()],
        ["desk-decisions", "desk-pages", "desk-listeners", "desk-crowd"],
    ]
    assert not any(name.startswith("desk") for name in asked[0])


def test_the_table_for_the_docs_has_the_same_cells() -> None:
    table = rows(results_with(2e-6), WORKS)

    lines = as_markdown(table).splitlines()

    assert len(lines) == len(table) + 1
    assert {line.count("|") for line in lines} == {len(table[0]) + 1}


def test_a_comparison_says_how_much_faster_each_figure_became() -> None:
    table = compared(results_with(3.0), results_with(2.0))

    by_name = {row[0]: row[1:] for row in table[1:]}
    assert by_name["turn:10:turn"] == ["× 1.50", "× 1.00"]


def test_a_figure_over_its_budget_fails_the_benchmark_and_one_within_does_not() -> None:
    assert over_budget(results_with(2.0), WORKS, "placet", "limit") == []
    assert over_budget(results_with(3.5), WORKS, "placet", "limit") == [
        "import takes 3.5 times the limit's, and may take 2.5"
    ]


def test_the_plots_and_the_figures_are_written_into_the_docs_and_nothing_else_is_touched(tmp_path: Path) -> None:
    page = tmp_path / "benchmark.md"
    page.write_text(f"before\n{run.BEGIN}\nold figures\n{run.END}\nafter\n")

    run.write_docs(results_with(2e-5), WORKS, tmp_path)
    run.write_docs(results_with(2e-5), WORKS, tmp_path)

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert text.count("2026-01-01") == 1
    assert "old figures" not in text
    assert sorted(file.name for file in (tmp_path / "img").iterdir()) == [
        "bench-cycle.svg",
        "bench-pauses.svg",
        "bench-status.svg",
        "bench-turns.svg",
    ]


def test_a_plot_is_well_formed_and_has_a_line_for_every_contender_with_a_point_for_every_size() -> None:
    lines = {"a & b": [(1.0, 2e-6), (10.0, 3e-5)], "limit": [(1.0, 1e-6), (10.0, 1e-6)]}

    picture = ElementTree.fromstring(draw("Cost <of> it", "size", "µs", lines))  # noqa: S314  # our own text

    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f"{space}polyline")) == 2
    assert len(picture.findall(f"{space}circle")) == 4
    texts = [each.text for each in picture.findall(f"{space}text")]
    assert "Cost <of> it" in texts
    assert "a & b, 30.0 µs" in texts


def test_the_docs_page_holds_the_marks_between_which_figures_are_written_and_shows_every_plot() -> None:
    page = (run.DOCS / "benchmark.md").read_text()

    assert page.count(run.BEGIN) == page.count(run.END) == 1
    for plot in (work.plot for work in WORKS if work.plot is not None):
        assert f"(img/bench-{plot.file})" in page
        assert (run.DOCS / "img" / f"bench-{plot.file}").exists()


def test_results_are_plain_json(tmp_path: Path) -> None:
    results_with(1.0).save(tmp_path / "results.json")

    assert json.loads((tmp_path / "results.json").read_text())["format"] == 1
