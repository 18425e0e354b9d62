"""Takes out each guard named in guards.toml, one at a time, in a copy of src/, and expects its tests to fail.

    python3 dev.py mutants            all guards
    python3 dev.py mutants -k WORD    those whose name contains WORD
    python3 dev.py mutants --list     only their names and reasons

A guard is killed only by a test that fails. A mutant that does not compile, a test that cannot be collected or found,
and a run that exceeds its time are errors of the entry: they would otherwise pass for a kill.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUARDS_FILE = Path(__file__).with_name("guards.toml")
SECONDS_FOR_ONE_TEST = 120
SECONDS_FOR_ONE_GUARD = 300

# Loaded into each pytest: refuses to run on any other placet than the copy, and writes down which tests failed.
# A UsageError ends pytest with exit code 4, which is never taken for a kill.
WITNESS = """
import json, os, pathlib
import pytest

failed = []

def pytest_configure(config):
    import placet
    expected = pathlib.Path(os.environ["GUARDS_SRC"]).resolve()
    folders = [pathlib.Path(folder).resolve() for folder in placet.__path__]
    if any(expected not in folder.parents for folder in folders):
        raise pytest.UsageError(f"placet was imported from {folders}, not from the copy in {expected}")

def pytest_runtest_logreport(report):
    if report.failed and report.nodeid not in failed:
        failed.append(report.nodeid)

def pytest_sessionfinish(session):
    pathlib.Path(os.environ["GUARDS_REPORT"]).write_text(json.dumps(failed))
"""

PYTEST_EXIT = {
    2: "the tests could not be collected, or were interrupted",
    3: "pytest had an internal error",
    4: "pytest was not called rightly: a named test does not exist, or another placet was imported",
    5: "no test was run",
}


class HarnessError(Exception):
    """An entry, or the tests that it names, cannot say anything about its guard."""


@dataclass(frozen=True, slots=True)
class Guard:
    name: str
    why: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    def mutated(self, source: str) -> str:
        """The source without this guard; refused unless the text is there exactly once and the result compiles."""
        times = source.count(self.find)
        if times != 1:
            raise HarnessError(f"{self.name}: `find` occurs {times} times in src/placet/{self.file}, not once")
        mutant = source.replace(self.find, self.replace)
        if not self.file.endswith(".py"):  # a script or template of the pages: the browser's tests say if it breaks
            return mutant
        try:
            compile(mutant, self.file, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise HarnessError(
                f"{self.name}: src/placet/{self.file} does not compile without the guard: {error}"
            ) from error
        return mutant


@dataclass(frozen=True, slots=True)
class Outcome:
    guard: Guard
    failed: tuple[str, ...]
    seconds: float
    error: str = ""

    @property
    def verdict(self) -> str:
        if self.error:
            return "ERROR"
        return "killed" if self.failed else "SURVIVED"


# --- reading the list -----------------------------------------------------------------------------------------------


def read_guards(path: Path = GUARDS_FILE) -> list[Guard]:
    data = tomllib.loads(path.read_text())
    if unknown := data.keys() - {"guard"}:
        raise HarnessError(f"{path.name}: only [[guard]] entries are known, not {', '.join(sorted(unknown))}")
    guards = [read_guard(entry) for entry in data.get("guard", [])]
    names = [guard.name for guard in guards]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise HarnessError(f"{path.name}: names must be unique, and these are not: {', '.join(repeated)}")
    return guards


def read_guard(entry: dict[str, object]) -> Guard:
    name = entry.get("name", "an entry without a name")
    wanted = {field.name for field in fields(Guard)}
    if entry.keys() != wanted:
        raise HarnessError(f"{name}: the fields must be {', '.join(sorted(wanted))}; found {', '.join(sorted(entry))}")
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    tests = entry["tests"]
    if texts.keys() != wanted - {"tests"} or not isinstance(tests, list) or not tests:
        raise HarnessError(f"{name}: `tests` must be a list of pytest ids that is not empty, all other fields texts")
    if not texts["find"] or texts["find"] == texts["replace"]:
        raise HarnessError(f"{name}: `find` must not be empty, and `replace` must differ from it")
    if sum(str(test).startswith("-k ") for test in tests) > 1:
        raise HarnessError(f"{name}: pytest takes one -k expression; join them with `or`")
    return Guard(**texts, tests=tuple(str(test) for test in tests))


def pytest_arguments(tests: Iterable[str]) -> list[str]:
    arguments: list[str] = []
    for test in tests:
        arguments += ["-k", test.removeprefix("-k ")] if test.startswith("-k ") else [test]
    return arguments


# --- running --------------------------------------------------------------------------------------------------------


def copy_sources(folder: Path) -> Path:
    return Path(shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__")))


def run_tests(folder: Path, src: Path, tests: Sequence[str]) -> tuple[int, tuple[str, ...], str]:
    """Run these tests on the placet in src: pytest's exit code, the tests that failed, and what it printed."""
    (folder / "guards_witness.py").write_text(WITNESS)
    report = folder / "failed.json"
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(src), str(folder)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GUARDS_SRC": str(src),
        "GUARDS_REPORT": str(report),
        # Examples that fail on a mutant do not belong into the database of the real tests.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
    }
    options = [
        "-q",
        "--long",  # the tests of a guard are named: none of them is left out
        "-p",
        "guards_witness",
        "-n",
        "0",
        f"--timeout={SECONDS_FOR_ONE_TEST}",
        "-o",
        f"cache_dir={folder}/cache",
    ]
    command = [sys.executable, "-m", "pytest", *options, *pytest_arguments(tests)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS_FOR_ONE_GUARD, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"the tests did not end within {SECONDS_FOR_ONE_GUARD} s") from error
    failed = tuple(json.loads(report.read_text())) if report.exists() else ()
    return done.returncode, failed, (done.stdout + done.stderr).strip()


def try_guard(guard: Guard) -> Outcome:
    started = time.monotonic()
    try:
        failed = failures_without(guard)
    except HarnessError as error:
        return Outcome(guard, (), time.monotonic() - started, str(error))
    return Outcome(guard, failed, time.monotonic() - started)


def failures_without(guard: Guard) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory(prefix="placet-guards-") as name:
        src = copy_sources(Path(name))
        target = src / "placet" / guard.file
        if not target.is_file():
            raise HarnessError(f"{guard.name}: there is no src/placet/{guard.file}")
        target.write_text(guard.mutated(target.read_text()))
        code, failed, printed = run_tests(Path(name), src, guard.tests)
    if code == 0:
        return ()
    if code == 1 and failed:
        return failed
    reason = PYTEST_EXIT.get(code, f"pytest ended with exit code {code} and named no failed test")
    raise HarnessError(f"{guard.name}: {reason}\n{indented(printed)}")


def require_green(guards: Sequence[Guard]) -> None:
    """A test that fails anyway kills nothing: each guard's own selection must pass on an unchanged copy."""
    selections = sorted({guard.tests for guard in guards if any(test.startswith("-k ") for test in guard.tests)})
    plain = sorted({test for guard in guards if guard.tests not in selections for test in guard.tests})
    for tests in [*selections, *([tuple(plain)] if plain else [])]:
        with tempfile.TemporaryDirectory(prefix="placet-guards-") as name:
            code, failed, printed = run_tests(Path(name), copy_sources(Path(name)), tests)
        if code:
            what = ", ".join(failed) or PYTEST_EXIT.get(code, f"exit code {code}")
            raise HarnessError(
                f"the tests must pass before a guard is taken out, and they do not: {what}\n{indented(printed)}"
            )


# --- speaking -------------------------------------------------------------------------------------------------------


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-25:])


def row(outcome: Outcome, width: int) -> str:
    names = [test.rpartition("/")[2] for test in outcome.failed]
    by = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else "-"
    return f"{outcome.guard.name:<{width}}  {outcome.verdict:<8}  {outcome.seconds:5.1f} s  {by}"


def take_out(guards: Sequence[Guard], jobs: int) -> int:
    require_green(guards)
    width = max(len(guard.name) for guard in guards)
    print(f"{'guard':<{width}}  verdict   seconds  by")
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(try_guard, guards):
            print(row(outcome, width), flush=True)
            outcomes.append(outcome)
    for outcome in outcomes:
        if outcome.verdict == "SURVIVED":
            print(f"\n{outcome.guard.name} survived: no test notices that it is gone. {outcome.guard.why}")
        elif outcome.error:
            print(f"\n{outcome.error}")
    killed = sum(outcome.verdict == "killed" for outcome in outcomes)
    print(f"\n{killed} of {len(outcomes)} guards killed")
    return 0 if killed == len(outcomes) else 1


def say_that_none_is_chosen(everything: Sequence[Guard], word: str) -> int:
    if everything:
        print(f"none of the {len(everything)} guards has {word!r} in its name; --list shows them", file=sys.stderr)
        return 1
    print("tests/guards/guards.toml names no guard yet: there is nothing to take out")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="dev.py mutants", description="Take out each guard and expect a test to fail."
    )
    parser.add_argument("-k", metavar="WORD", default="", help="only guards whose name contains WORD")
    parser.add_argument("--list", action="store_true", help="print names and reasons, run nothing")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="guards tried at the same time")
    options = parser.parse_args(arguments)
    try:
        everything = read_guards()
        guards = [guard for guard in everything if options.k in guard.name]
        if not guards:
            return say_that_none_is_chosen(everything, options.k)
        if options.list:
            print("\n".join(f"{guard.name}: {guard.why}" for guard in guards))
            return 0
        return take_out(guards, options.jobs)
    except HarnessError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
