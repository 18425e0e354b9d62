"""`python3 dev.py adapters [NAME …]`: each adapter with its framework's real package; writes tables of docs/gate.md.

What a framework carries is read off the scenarios that passed with it; what slips past, off its page; what processes
that die, race and wait for a desk did, off `test_torture_hosts.py`. A framework that fails, or was not named, keeps its
rows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import dev
import placet
from tests.gate.hosts.frameworks import FRAMEWORKS, HERE, QUIET, ROOT, Framework, python_of

TABLE = ROOT / "docs" / "gate.md"
BEGIN, END = "<!-- adapters: written by `python3 dev.py adapters` -->", "<!-- adapters: end -->"
SECONDS = 900

CARRIED = {
    "edit": "test_an_edited_call_runs_with_what_was_decided",
    "answer": "test_an_answer_takes_the_place_of_the_call",
    "outcome": "test_a_tool_that_fails_is_reported_as_failed",
    "killed": "test_a_guest_that_is_killed_while_it_executes_is_asked_about",
}
HEAD = (
    "| framework | version | waits | yes, no | edit | answer | outcome is reported | killed: a person is asked "
    "| refused by name | can slip past |\n|---|---|---|---|---|---|---|---|---|---|\n"
)
TORTURE = ROOT / "tests" / "gate" / "test_torture_hosts.py"
TORTURED = "<!-- torture: written by `python3 dev.py adapters` -->", "<!-- torture: end -->"
HARM = {
    "test_killed_at_any_step_a_guest_runs_nothing_twice_and_leaves_nothing_unasked": "killed at 6 steps",
    "test_of_two_guests_that_race_for_one_call_one_executes_it_and_both_read_what_came_of_it": "two guests, one call",
    "test_a_desk_that_is_restarted_while_a_guest_waits_loses_nothing": "desk restarted",
    "test_with_the_desk_away_nothing_runs": "desk away",
    "test_a_decision_after_the_deadline_is_refused_and_runs_nothing": "decided too late",
    "test_a_yes_for_a_tool_that_has_changed_since_is_not_used": "tool changed",
}
ALIKE = {
    "test_two_equal_calls_are_asked_about_twice": "two equal calls",
    "test_a_call_that_is_made_again_is_neither_asked_nor_executed_twice": "call id again",
    "test_parallel_calls_get_a_decision_each": "parallel, decided differently",
}
COUNTED = ("calls", "unapproved", "twice", "lost")
WAYS = {
    "TestInline": "in place",
    "TestPaused": "pauses",
    "TestPlain": "in place, plain",
    "TestPermission": "`can_use_tool`",
}

Passed = dict[str, set[str]]
"""Of each way the scenarios that passed."""


def set_up(framework: Framework) -> None:
    dev.set_up_apart(dev.DEV / "hosts" / framework.host, framework.lock, f"{framework.host}, for its adapter")


def run(framework: Framework, *more: str) -> tuple[bool, str, Passed]:
    """The checks of a framework in its environment: whether all passed, what was printed, what passed."""
    set_up(framework)
    # Placet as this process has it, so that a guard that was taken out is missing there too.
    paths = (str(Path(placet.__file__).parents[1]), str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python_of(framework.host)), "-m", "pytest", "-q", "--noconftest", "-c", str(HERE / "pytest.ini")]
        done = subprocess.run(  # noqa: S603  # programs of our own
            [*command, "--rootdir", str(ROOT), "--junitxml", str(report), str(framework.checks), *more],
            env=os.environ | QUIET | {"PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": ""},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        passed = _passed(report) if report.exists() else {}
    return done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:], passed


def _passed(report: Path) -> Passed:
    found: Passed = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  # our own pytest wrote it
        if all(case.find(bad) is None for bad in ("failure", "error", "skipped")):
            found.setdefault(case.get("classname", "").rsplit(".", 1)[-1], set()).add(case.get("name", ""))
    return found


def row_of(framework: Framework, passed: Passed) -> str:
    ways = [way for way in framework.ways if passed.get(way)]

    def carries(scenario: str) -> str:
        having = [way for way in ways if scenario in passed[way]]
        return "yes" if having == ways else ", ".join(WAYS[way] for way in having) or "–"

    cells = [
        f"[{framework.title}](gate-{framework.host}.md)",
        framework.version,
        "; ".join(WAYS[way] for way in ways),
        carries("test_a_rejected_call_does_not_run_and_the_model_reads_why"),
        *(carries(CARRIED[each]) for each in ("edit", "answer", "outcome", "killed")),
        *slips_of(framework),
    ]
    return f"| {' | '.join(cells)} |\n"


# -- the torture ------------------------------------------------------------------------------------------------------


def torture(framework: Framework, way: str | None = None) -> tuple[bool, str, Passed, dict[str, int]]:
    """What `test_torture_hosts.py` says of a framework: whether all passed, what was printed, what passed in which way,
    and the sums of what its witness counted."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        wanted = f"{framework.host}-{way or 'Test'}"
        command = [sys.executable, "-m", "pytest", "-q", "--long", "-n", "2", "-k", wanted, "--junitxml", str(report)]
        done = subprocess.run(  # noqa: S603  # programs of our own
            [*command, str(TORTURE)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        passed, counts = _tortured(report) if report.exists() else ({}, dict.fromkeys(COUNTED, 0))
    return done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:], passed, counts


def _tortured(report: Path) -> tuple[Passed, dict[str, int]]:
    passed: Passed = {}
    counts = dict.fromkeys(COUNTED, 0)
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  # our own pytest wrote it
        test, _, given = case.get("name", "").partition("[")
        way = given.rstrip("]").rpartition("-")[2]
        if all(case.find(bad) is None for bad in ("failure", "error", "skipped")):
            passed.setdefault(way, set()).add(test)
        for each in case.iter("property"):
            if each.get("name") in counts:
                counts[each.get("name", "")] += int(each.get("value", "0"))
    return passed, counts


def tortured_row(framework: Framework, checked: Passed, passed: Passed, counts: dict[str, int]) -> str:
    def held(test: str, of: Passed) -> str:
        return "held" if all(test in of.get(way, ()) for way in framework.ways) else "–"

    cells = [
        f"[{framework.title}](gate-{framework.host}.md)",
        framework.version,
        "; ".join(WAYS[way] for way in framework.ways),
        *(held(test, checked) for test in ALIKE),
        *(held(test, passed) for test in HARM),
        *(str(counts[each]) for each in COUNTED),
    ]
    return f"| {' | '.join(cells)} |\n"


# -- the page ---------------------------------------------------------------------------------------------------------


def slips_of(framework: Framework) -> tuple[str, str]:
    """Of the page's table: what is refused by name, and what is not found."""
    _, _, section = framework.page.read_text().partition("## What slips past")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section.split("\n## ")[0], re.MULTILINE)
    refused = [what for what, how in rows if "refuse" in how]
    unseen = [what for what, how in rows if "refuse" not in how and how.strip() != "gated"]
    return "; ".join(refused) or "–", "; ".join(unseen) or "–"


def rows_in(text: str, marks: tuple[str, str] = (BEGIN, END)) -> dict[str, str]:
    """The rows of a table as it stands, by the page that they link to."""
    _, _, table = text.partition(marks[0])
    rows = re.finditer(r"^\| \[.*?\]\(gate-(.+?)\.md\).*$", table.split(marks[1])[0], re.MULTILINE)
    return {match[1]: f"{match[0]}\n" for match in rows}


def write(rows: dict[str, str], marks: tuple[str, str] = (BEGIN, END), head: str = HEAD) -> None:
    text = TABLE.read_text()
    kept = rows_in(text, marks) | rows
    table = head + "".join(kept[host] for host in FRAMEWORKS if host in kept)
    before, _, rest = text.partition(marks[0])
    TABLE.write_text(f"{before}{marks[0]}\n\n{table}\n{marks[1]}{rest.partition(marks[1])[2]}")


def tortured_head() -> str:
    names = ["framework", "version", "waits", *ALIKE.values(), *HARM.values(), *COUNTED]
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"


def main(names: list[str]) -> int:
    unknown = [each for each in names if each not in FRAMEWORKS]
    if unknown:
        dev.complain(f"no adapter is called {', '.join(unknown)}: {', '.join(FRAMEWORKS)}")
        return 2
    failed = []
    for host in names or FRAMEWORKS:
        framework = FRAMEWORKS[host]
        is_well, printed, checked = run(framework)
        dev.say(f"{host} {framework.version}: {_last(printed)}")
        if not is_well:
            failed.append(host)
            dev.complain(printed)
            continue
        write({host: row_of(framework, checked)})
        is_well, printed, passed, counts = torture(framework)
        dev.say(f"{host} {framework.version}, tortured: {_last(printed)} {counts}")
        if is_well:
            write({host: tortured_row(framework, checked, passed, counts)}, TORTURED, tortured_head())
        else:
            failed.append(host)
            dev.complain(printed)
    return dev.report(failed)


def _last(printed: str) -> str:
    return printed.strip().splitlines()[-1] if printed.strip() else "?"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
