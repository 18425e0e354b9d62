"""`python3 dev.py adapters [NAME …]`: each adapter with its framework's real package; writes the table of docs/gate.md.

What a framework carries is read off the scenarios that passed with it; what slips past, off its page. A framework that
fails, or was not named, keeps its row.
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
WAYS = {
    "TestInline": "in place",
    "TestPaused": "pauses",
    "TestPlain": "in place, plain",
    "TestPermission": "`can_use_tool`",
}

Passed = dict[str, set[str]]
"""Of each way the scenarios that passed."""


def run(framework: Framework, *more: str) -> tuple[bool, str, Passed]:
    """The checks of a framework in its environment: whether all passed, what was printed, what passed."""
    dev.set_up_apart(dev.DEV / "hosts" / framework.host, framework.lock, f"{framework.host}, for its adapter")
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


def slips_of(framework: Framework) -> tuple[str, str]:
    """Of the page's table: what is refused by name, and what is not found."""
    _, _, section = framework.page.read_text().partition("## What slips past")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section.split("\n## ")[0], re.MULTILINE)
    refused = [what for what, how in rows if "refuse" in how]
    unseen = [what for what, how in rows if "refuse" not in how and how.strip() != "gated"]
    return "; ".join(refused) or "–", "; ".join(unseen) or "–"


def rows_in(text: str) -> dict[str, str]:
    """The rows of the table as it stands, by the page that they link to."""
    _, _, table = text.partition(BEGIN)
    rows = re.finditer(r"^\| \[.*?\]\(gate-(.+?)\.md\).*$", table.split(END)[0], re.MULTILINE)
    return {match[1]: f"{match[0]}\n" for match in rows}


def write(rows: dict[str, str]) -> None:
    text = TABLE.read_text()
    kept = rows_in(text) | rows
    table = HEAD + "".join(kept[host] for host in FRAMEWORKS if host in kept)
    before, _, rest = text.partition(BEGIN)
    TABLE.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{rest.partition(END)[2]}")


def main(names: list[str]) -> int:
    unknown = [each for each in names if each not in FRAMEWORKS]
    if unknown:
        dev.complain(f"no adapter is called {', '.join(unknown)}: {', '.join(FRAMEWORKS)}")
        return 2
    rows, failed = {}, []
    for host in names or FRAMEWORKS:
        is_well, printed, passed = run(FRAMEWORKS[host])
        dev.say(f"{host} {FRAMEWORKS[host].version}: {printed.strip().splitlines()[-1] if printed.strip() else '?'}")
        if is_well:
            rows[host] = row_of(FRAMEWORKS[host], passed)
        else:
            failed.append(host)
            dev.complain(printed)
    write(rows)
    return dev.report(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
