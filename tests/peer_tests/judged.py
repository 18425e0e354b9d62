"""Why tests of the SDK do not pass here: `judged.toml`, read, compared with what happened, and written as a page."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.peer_tests.workplace import Found, listed

JUDGED = Path(__file__).with_name("judged.toml")
PAGE = Path(__file__).parents[2] / "docs" / "porting-tests.md"
GUIDE = Path(__file__).parents[2] / "docs" / "porting.md"
KINDS = ("on purpose", "not yet")
INTRO = (
    "The suite of the Agents SDK has {} tests about runs that wait which use public names only. `python3 dev.py "
    "peer-tests` takes them out of the source distribution of openai-agents 0.24.0, each alone with its helpers, and "
    "runs them on `placet.agents`: **{} pass**. Here are the others: {} differ on purpose (a promise of ours, or the "
    "design, forbids what they ask for), {} are not done yet. A test has several cases and counts as passed only if "
    "all of them pass; where it fails for several reasons, the first is told. The page is written by that command, "
    "which fails when a test does otherwise than it says here. [porting.md](porting.md) says what the differences mean "
    "for programs."
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One reason, and the tests that fail because of it."""

    kind: str
    why: str
    tests: tuple[str, ...]


def differences() -> list[Difference]:
    with JUDGED.open("rb") as file:
        found = tomllib.load(file)["difference"]
    return [Difference(each["kind"], each["why"], tuple(each["tests"])) for each in found]


def judged() -> dict[str, Difference]:
    """The reason of each test that does not pass."""
    return {_whole(test): each for each in differences() for test in each.tests}


def _whole(test: str) -> str:
    """`test_run_state::…` as the list has it."""
    file, _, name = test.partition("::")
    return f"tests/{file}.py::{name}"


def short(test: str) -> str:
    file, _, name = test.partition("::")
    return f"{file.removeprefix('tests/').removesuffix('.py')}::{name}"


def surprises(found: Mapping[str, Found]) -> list[str]:
    """What is not as `judged.toml` says, in words."""
    known = judged()
    said = []
    for test, result in found.items():
        if result.outcome == "passed" and test in known:
            said.append(f"{short(test)} passes: take it out of judged.toml")
        elif result.outcome != "passed" and test not in known:
            said.append(f"{short(test)} does not pass: {result.cause}")
    return said


BEGIN, END = "<!-- written by dev.py peer-tests: begin -->", "<!-- end -->"


def guide() -> str:
    """The porting guide with its table of differences written anew: one line for each reason."""
    lines = ["| what differs | | tests |", "|---|---|---|"]
    ordered = sorted(differences(), key=lambda each: (KINDS.index(each.kind), -len(each.tests)))
    lines += [f"| {each.why} | {each.kind} | {len(each.tests)} |" for each in ordered]
    text = GUIDE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return "\n".join([before + BEGIN, "", *lines, "", END + rest.split(END, 1)[1]])


def page() -> str:
    """The page of the documentation: all that follows from the list and from `judged.toml`."""
    known, tests = judged(), listed()
    counts = {kind: sum(each.kind == kind for each in known.values()) for kind in KINDS}
    intro = INTRO.format(len(tests), len(tests) - len(known), counts["on purpose"], counts["not yet"])
    lines = ["# The SDK's own tests on Placet", "", intro, "", "| test | | why |", "|---|---|---|"]
    lines += [f"| `{short(test)}` | {known[test].kind} | {known[test].why} |" for test in tests if test in known]
    return "\n".join(lines) + "\n"
