"""The peers of the benchmark: each does the works in an environment of its own, and Placet is judged beside the best of
them. Nothing here is timed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import environments, measuring, progress, run, worker
from bench.contenders import PEERS, VARIANTS
from bench.environments import LOCKS, NoEnvironment
from bench.measuring import measure, try_out
from bench.plots import draw
from bench.results import Results
from bench.sections import works
from bench.table import as_text, compared, rows
from bench.targets import unmet
from bench.work import Contender, Figure, Figures, Work

WORKS = works()
WITHOUT_A_DESK = {work.name for work in WORKS if "serve_desk" in work.needs}
WITHOUT_A_LEDGER = {work.name for work in WORKS if "decided" in work.needs}
CANNOT = {
    "openai-agents": WITHOUT_A_DESK,
    "pydantic-ai": WITHOUT_A_DESK | WITHOUT_A_LEDGER,
    "langgraph": WITHOUT_A_DESK | WITHOUT_A_LEDGER,
}

A_WORK = Work(
    name="work",
    title="one work of {size}",
    run=lambda _subject, _size: {},
    figures=(Figure("time", "", "ms", targets={10: 4, 100: 8}),),
    sizes=(1, 10, 100),
    quick=1,
    growth=(10, 100),
    growth_target=1.2,
)
ANOTHER = Work("another", "another of {size}", A_WORK.run, (Figure("time", "", "ms"),), (1,), 1)


def results_with(values: dict[str, dict[str, float]]) -> Results:
    return Results("2026-01-01", "2 cores", "CPython 3.11", 5, values=values)


# -- their environments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_does_every_work_right_in_an_environment_of_its_own(peer: Contender) -> None:
    environments.set_up([peer])

    found = try_out([peer], WORKS)

    done = {key.split(":")[0] for key, row in found.values.items() if peer.name in row}
    same = {work.name for work in WORKS if work.otherwise}
    assert done == {work.name for work in WORKS} - CANNOT[peer.name] - same
    pinned = re.search(rf"^{peer.lock}(?:-slim)?==(\S+)", (LOCKS / f"{peer.lock}.lock").read_text(), re.MULTILINE)
    assert pinned is not None
    assert found.versions[peer.name][peer.lock] == pinned[1]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_variant_runs_in_the_environment_of_its_peer(variant: Contender) -> None:
    environments.set_up([variant])

    found = try_out([variant], [work for work in WORKS if work.name in ("turn", "cycle", "stream")])

    assert variant.name not in {file.stem for file in LOCKS.glob("*.lock")}
    assert [key.split(":")[0] for key in found.values] == ["turn", "cycle", "stream"]


def test_the_command_measures_beside_the_peers_that_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"

    exit_code = run.main(["--quick", "--only", "cycle", "--peers", "pydantic-ai", "--out", str(out)])

    shown, found = capsys.readouterr(), Results.load(out)
    assert exit_code == 0, shown.err
    assert {tuple(row) for row in found.values.values()} == {("placet", "limit", "pydantic-ai")}
    assert found.values["cycle:2:cycle"]["pydantic-ai"] == found.values["cycle-elsewhere:2:cycle"]["pydantic-ai"]
    assert "best peer / placet" in shown.out
    assert "pydantic-ai 2." in shown.out


def test_every_peer_has_a_lock_whose_packages_are_pinned_with_hashes_and_which_names_no_host() -> None:
    assert {file.stem for file in LOCKS.glob("*.lock")} == {peer.name for peer in PEERS}
    for file in LOCKS.glob("*.lock"):
        lines = file.read_text().splitlines()
        assert all(line.startswith(("#", " ")) or "==" in line for line in lines)
        assert sum("==" in line for line in lines) > 10
        assert all(
            "--hash=sha256:" in lines[number + 1]
            for number, line in enumerate(lines)
            if not line.startswith(("#", " "))
        )
        assert not any("://" in line or "--index" in line for line in lines)


def locked(*names: str) -> str:
    """The lines of a peer's lock for some of its packages."""
    text = (LOCKS / "openai-agents.lock").read_text()
    return "".join(re.findall(rf"^(?:{'|'.join(names)})==(?:.*\\\n)+.*\n", text, re.MULTILINE))


def packages(place: Path) -> set[str]:
    return {each.name.split("-")[0] for each in place.glob("lib/*/site-packages/*.dist-info")}


def test_an_environment_is_made_once_and_made_anew_when_its_lock_changes(tmp_path: Path) -> None:
    peer = Contender("small", "", "", lock="small")
    lock, place = tmp_path / "small.lock", tmp_path / "places" / "small"

    lock.write_text(locked("idna"))
    environments.set_up([peer], tmp_path / "places", tmp_path)
    first = packages(place)
    (place / "left-alone").touch()
    environments.set_up([peer], tmp_path / "places", tmp_path)
    was_left_alone = (place / "left-alone").exists()
    lock.write_text(locked("sniffio", "h11"))
    environments.set_up([peer], tmp_path / "places", tmp_path)

    assert first == {"idna"}
    assert was_left_alone
    assert packages(place) == {"sniffio", "h11"}
    assert not (place / "left-alone").exists()
    assert list(place.glob("lib/*/site-packages/h11/__pycache__/*.pyc")), "bytecode was not compiled"
    version = subprocess.run(  # noqa: S603  # the Python that was just made
        [place / "bin" / "python", "-c", "import sys; print(sys.version)"], capture_output=True, text=True, check=True
    )
    assert version.stdout.strip() == sys.version


def test_an_environment_that_cannot_be_made_is_a_sentence_that_names_it_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "small.lock").write_text("idna==3.20 --hash=sha256:" + "0" * 64 + "\n")

    with pytest.raises(NoEnvironment) as refused:
        environments.set_up([Contender("small", "", "", lock="small")], tmp_path / "places", tmp_path)

    assert str(refused.value).startswith(
        "the environment of small could not be made of small.lock: the locked packages"
    )
    assert str(refused.value).endswith("`--without-peers` measures without it.")
    assert not (tmp_path / "places" / "small" / "stamp").exists()


def test_the_command_ends_with_that_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environments, "LOCKS", tmp_path)
    monkeypatch.setattr(run, "set_up", lambda peers: environments.set_up(peers, tmp_path, tmp_path))

    exit_code = run.main(["--quick", "--peers", "langgraph"])

    assert exit_code == 1
    assert "bench: the environment of langgraph could not be made of langgraph.lock" in capsys.readouterr().err


# -- how often --------------------------------------------------------------------------------------------------------


class Workers:
    """Stands in for the processes of contenders: one figure for each cell, none for those that it cannot do."""

    def __init__(self, cannot: Sequence[str] = ()) -> None:
        self.cannot = cannot
        self.asked: list[str] = []

    def __call__(
        self, _contender: Contender, cells: Sequence[measuring.Cell], *, quick: bool
    ) -> Iterator[dict[str, Any]]:
        for work, size in cells:
            name = f"{work.name}:{size}"
            self.asked.append(name)
            yield {"work": work.name, "size": size, "figures": None if name in self.cannot else {"time": 1.0}}


def test_what_took_long_is_not_measured_again_in_later_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers()
    monkeypatch.setattr(measuring, "_lines", workers)
    monkeypatch.setattr(measuring, "PATIENCE", 1e-12)

    measure([Contender("slow", "", "")], [A_WORK], 3, lambda _text: None)

    assert workers.asked == ["work:1", "work:10", "work:100"]


def test_what_takes_long_to_prepare_may_be_given_more_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers()
    monkeypatch.setattr(measuring, "_lines", workers)
    monkeypatch.setattr(measuring, "PATIENCE", 1e-12)

    measure([Contender("slow", "", "")], [ANOTHER], 3, lambda _text: None, patience=60.0)

    assert workers.asked == ["another:1"] * 3


def test_what_a_contender_cannot_do_is_asked_of_it_once_and_larger_sizes_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers(cannot=["work:10", "work:100"])
    monkeypatch.setattr(measuring, "_lines", workers)

    results = measure([Contender("small", "", "")], [A_WORK], 2, lambda _text: None)

    assert workers.asked == ["work:1", "work:10", "work:1"]
    assert list(results.values) == ["work:1:time"]


@pytest.mark.parametrize(("long", "times"), [(-1.0, 1), (60.0, 3)])
def test_a_long_repetition_is_not_repeated(long: float, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "LONG", long)
    monkeypatch.setattr(worker, "SECONDS_OF_REPEATING", 0.0)
    seen: list[int] = []

    def once(_subject: Any, size: int) -> Figures:
        seen.append(size)
        return {"time": float(len(seen))}

    best = worker.least(None, Work("w", "", once, (), (1,), 1), 7, quick=False)

    assert seen == [7] * times
    assert best == {"time": 1.0}


def test_a_size_that_is_too_large_for_a_contender_and_a_work_that_it_lacks_something_for_are_left_out() -> None:
    subject = SimpleNamespace(TOO_LARGE={"work": 100})
    needing = Work("needing", "", A_WORK.run, (), (1,), 1, needs=("elsewhere",))

    assert [worker.can_do(subject, A_WORK, size) for size in A_WORK.sizes] == [True, True, False]
    assert not worker.can_do(subject, needing, 1)


def test_where_a_work_is_the_same_to_a_contender_as_another_its_figures_are_taken_over() -> None:
    here, elsewhere = {"placet": 2.0, "peer": 5.0}, {"placet": 3.0}
    results = results_with({"work:1:time": here, "abroad:1:time": elsewhere})

    results.take_over([A_WORK, Work("abroad", "", A_WORK.run, A_WORK.figures, (1,), 1, otherwise="work")])

    assert results.values["abroad:1:time"] == {"placet": 3.0, "peer": 5.0}
    assert results.values["work:1:time"] == here


def test_progress_in_a_log_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 59.0, 61.5, 62.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    with progress.Progress() as tell:
        for name in ("first", "second", "third", "fourth"):
            tell(name)

    assert capsys.readouterr().err == "0:01  first\n1:01  third\n"


# -- targets ----------------------------------------------------------------------------------------------------------


PEERED = {
    "work:1:time": {"placet": 1e-3, "limit": 1e-4, "slow": 9e-3},
    "work:10:time": {"placet": 1e-3, "limit": 1e-4, "slow": 9e-3, "fast": 4e-3},
    "work:100:time": {"placet": 2e-3, "limit": 1e-4, "slow": 90e-3, "fast": 8e-3},
    "another:1:time": {"placet": 1e-3, "limit": 1e-4},
}


def test_the_table_says_how_far_placet_is_ahead_of_the_best_peer_and_whether_that_was_the_target() -> None:
    table = rows(results_with(PEERED), [A_WORK, ANOTHER])

    head, one, ten, hundred, growth, other = table
    assert head == ["work", "placet", "limit", "fast", "slow", "placet / limit", "best peer / placet", "target"]
    assert one[3:] == ["–", "9.00 ms", "10.0", "9.00", ""]
    assert ten[5:] == ["10.0", "4.00", "≥ 4: met"]
    assert hundred[5:] == ["20.0", "4.00", "≥ 8: not met"]
    assert growth[0] == "  growth of time, from 10 to 100"
    assert growth[1:] == ["× 2.00", "× 1.00", "× 2.00", "× 10.00", "", "", "≤ 1.2: not met"]
    assert other[5:] == ["10.0", "", ""]


def test_the_results_name_the_targets_that_were_not_met(tmp_path: Path) -> None:
    results = results_with(PEERED)
    results.unmet = unmet(results, [A_WORK, ANOTHER])
    results.save(tmp_path / "results.json")

    found = json.loads((tmp_path / "results.json").read_text())["unmet"]

    ahead, growth = found
    assert ahead == {
        "kind": "ahead",
        "work": "work",
        "size": 100,
        "figure": "time",
        "target": 8,
        "reached": 4.0,
        "against": "fast",
    }
    assert (growth["kind"], growth["reached"], growth["target"]) == ("growth", 2.0, 1.2)


def test_no_target_is_judged_without_a_peer_beside_it() -> None:
    alone = {key: {"placet": row["placet"], "limit": row["limit"]} for key, row in PEERED.items()}

    found = unmet(results_with(alone), [A_WORK])

    assert [each["kind"] for each in found] == ["growth"]
    assert "target" not in as_text(rows(results_with(alone), [A_WORK]))


def test_every_target_belongs_to_a_size_that_is_measured() -> None:
    for work in WORKS:
        for figure in work.figures:
            assert set(figure.targets) <= set(work.sizes), work.name


def test_results_from_before_there_were_peers_can_be_compared_with(tmp_path: Path) -> None:
    old = {"format": 1, "date": "2025-01-01", "machine": "m", "python": "p", "rounds": 5, "versions": {}}
    (tmp_path / "old.json").write_text(json.dumps(old | {"values": {"work:1:time": {"placet": 3e-3}}}))

    table = compared(Results.load(tmp_path / "old.json"), results_with(PEERED))

    assert table[0] == ["figure", "placet old / new", "limit old / new", "fast old / new", "slow old / new"]
    assert table[1] == ["work:1:time", "× 3.00", "–", "–", "–"]


@pytest.mark.parametrize("option", ["--without-peers", "--peers=langgraph"])
def test_the_docs_are_written_beside_all_peers_only(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--plots", option])

    assert "beside all peers" in capsys.readouterr().err


# -- pictures ---------------------------------------------------------------------------------------------------------


POINTS = [(1.0, 1e-3), (10.0, 1e-3)]


def test_labels_of_lines_that_end_together_do_not_lie_on_one_another() -> None:
    lines = {f"line {number}": [(1.0, 1e-3), (10.0, 1e-3 + number * 1e-6)] for number in range(5)}

    picture = draw("Five", "size", "ms", lines)

    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>line \d, ', picture))
    assert len(heights) == 5
    assert min(below - above for above, below in pairwise(heights)) >= 15


def test_a_line_that_does_not_reach_the_largest_size_has_its_label_where_it_ends() -> None:
    lines = {"far": [(1.0, 1e-3), (10.0, 1e-3), (100.0, 1e-3)], "near": [(1.0, 1e-4), (10.0, 1e-4)]}

    picture = draw("Two", "size", "ms", lines)

    ends = {name: float(x) for x, name in re.findall(r'<text x="([\d.]+)"[^>]*>(far|near), ', picture)}
    last_points = re.findall(r'cx="([\d.]+)"', picture)
    assert 0 < ends["near"] - float(last_points[-1]) < 20
    assert ends["far"] > ends["near"] + 100


def test_a_contender_has_the_same_colour_in_every_picture() -> None:
    def colour(*names: str) -> str:
        found = re.search(
            r'fill="(#\w+)" font-weight="600">langgraph', draw("", "", "ms", dict.fromkeys(names, POINTS))
        )
        assert found is not None
        return found[1]

    assert colour("placet", "limit", "openai-agents", "pydantic-ai", "langgraph") == colour("placet", "langgraph")


def test_durations_in_a_picture_are_told_in_the_unit_in_which_they_are_small() -> None:
    lines = {"limit": [(1.0, 4e-6), (10.0, 4e-6)], "peer": [(1.0, 3e-3), (10.0, 9.2)]}

    picture = draw("Three", "size", "ms", lines)

    for words in (">limit, 4.00 µs<", ">peer, 9.20 s<", ">1 µs<", ">10 µs<", ">1 ms<", ">1 s<", ">10 s<"):
        assert words in picture
