"""The temporary folder in which copied tests run: it lies outside of every repository, and goes away afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.peer_tests.sources import ALIAS, PEER, Closure, Peer, PeerError, Target

HERE = Path(__file__).parent
LIST = HERE / "portable_tests.txt"
AGAINST = "placet.agents"
SETTINGS = (
    "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = session\naddopts = -p no:cacheprovider\n"
)


@dataclass(frozen=True, slots=True)
class Options:
    peer: Path
    """The unpacked source distribution."""
    only: Sequence[str] = ()
    """Parts of test ids; none: all tests of the list."""
    limit: float = 60
    """Seconds for one case of a test."""
    jobs: int = 2
    keep: bool = False
    """Keep the folder, and show what pytest prints."""


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one test."""

    outcome: str
    """passed, failed, or missing: a name that it needs is not there."""
    cases: int = 0
    passed: int = 0
    cause: str = ""
    names: list[str] = field(default_factory=list)


class Workplace:
    """The copied tests, the alias package, the settings."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="peer-tests-")).resolve()
        if any((parent / ".git").exists() for parent in self.folder.parents):
            self.folder.rmdir()
            raise PeerError("the temporary folder lies in a git repository: set TMPDIR to one outside")

    def __enter__(self) -> Self:
        (self.folder / ALIAS).mkdir()
        shutil.copy(HERE / "alias.py", self.folder / ALIAS / "__init__.py")
        shutil.copy(HERE / "conftest_of_copies.py", self.folder / "conftest.py")
        (self.folder / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
        return self

    def __exit__(self, *error: object) -> None:
        if self.options.keep:
            print(f"kept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def plan(self, peer: Peer, closures: Sequence[Closure]) -> None:
        soft = {(tail(each.module), each.name) for c in closures for each, hard in c.needs.items() if not hard}
        plan = {
            "modules": sorted(tail(name) for name in peer.library if name != PEER),
            "soft": sorted(soft),
        }
        (self.folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")

    def python(self, *command: str, quiet: bool = True, results: str = "") -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PEER_AGAINST": AGAINST,
            "PEER_PLAN": str(self.folder / "plan.json"),
            "PEER_RESULTS": str(self.folder / f"results-{results}.jsonl"),
            "PEER_LIMIT": str(self.options.limit),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run(  # noqa: S603  # our own interpreter
            [sys.executable, *command],
            cwd=self.folder,
            env=environment,
            capture_output=quiet,
            text=True,
            check=False,
        )

    def missing(self, needs: set[Target]) -> set[Target]:
        """The names that are not to be had here."""
        pairs = [(tail(target.module), target.name) for target in sorted(needs, key=lambda target: target.dotted)]
        (self.folder / "needs.json").write_text(json.dumps(pairs), encoding="utf-8")
        code = f"import json, {ALIAS} as alias\nprint('\\n' + json.dumps(alias.missing(json.load(open('needs.json')))))"
        done = self.python("-c", code)
        if done.returncode:
            raise PeerError(f"{AGAINST} cannot be asked for its names: {done.stderr.strip()[-400:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        return {Target(".".join(filter(None, [PEER, module])), name) for module, name in found}

    def run(self, folders: Mapping[str, str]) -> list[dict[str, str]]:
        """Run each file of the peer in a process of its own: what a test leaves behind reaches no other file."""
        files: dict[str, list[str]] = defaultdict(list)
        for folder, test in folders.items():
            files[test.partition("::")[0]].append(folder)
        with ThreadPoolExecutor(self.options.jobs) as pool:
            done = pool.map(self._run_file, map(str, range(len(files))), files.values())
        return [result for results in done for result in results]

    def _run_file(self, name: str, folders: list[str]) -> list[dict[str, str]]:
        """The results of one file's tests. A test that ends the process keeps nobody behind it from running."""
        found: list[dict[str, str]] = []
        left = list(folders)
        for attempt in range(len(folders)):
            command = ["-m", "pytest", "-q", "--tb=short", "--continue-on-collection-errors", *left]
            self.python(*command, quiet=not self.options.keep, results=f"{name}-{attempt}")
            path = self.folder / f"results-{name}-{attempt}.jsonl"
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            found += map(json.loads, lines)
            told = {result["test"].partition("/")[0] for result in found}
            left = [folder for folder in left if folder not in told]
            if left and not lines:
                left.pop(0)
            if not left:
                break
        return found


def tail(module: str) -> str:
    return module.removeprefix(PEER).lstrip(".")


def listed() -> list[str]:
    """The ids of the tests that use public names only."""
    return LIST.read_text(encoding="utf-8").split()


def run(options: Options) -> dict[str, Found]:
    """What became of the listed tests, by id."""
    peer = Peer(options.peer)
    wanted = [test for test in listed() if not options.only or any(part in test for part in options.only)]
    if not wanted:
        raise PeerError(f"no test of the list has {' or '.join(options.only)} in its id")
    closures = [peer.closure(test) for test in wanted]
    with Workplace(options) as place:
        place.plan(peer, closures)
        missing = place.missing({target for closure in closures for target in closure.needs})
        folders, blocked = _copied(peer, closures, missing, place)
        cases: dict[str, list[dict[str, str]]] = defaultdict(list)
        for result in place.run(folders):
            cases[folders.get(result["test"].partition("/")[0], "?")].append(result)
    return {test: blocked.get(test) or _verdict(cases[test]) for test in wanted}


def _copied(
    peer: Peer, closures: Sequence[Closure], missing: set[Target], place: Workplace
) -> tuple[dict[str, str], dict[str, Found]]:
    """The folder of each test that can be run, and what the others lack."""
    folders: dict[str, str] = {}
    blocked: dict[str, Found] = {}
    for number, closure in enumerate(closures):
        lacks = sorted(target.dotted for target, hard in closure.needs.items() if hard and target in missing)
        if lacks:
            blocked[closure.test] = Found("missing", names=lacks, cause=f"lacks {', '.join(lacks)}")
        else:
            folders[f"t{number:04}"] = closure.test
            peer.copy(closure, place.folder / f"t{number:04}")
    return folders, blocked


def _verdict(cases: Sequence[dict[str, str]]) -> Found:
    """Passed: no case failed, and one at least was run to its end."""
    counts = Counter(case["outcome"] for case in cases)
    causes = [case["cause"] for case in cases if case["outcome"] == "failed"]
    if not causes and counts["passed"]:
        return Found("passed", len(cases), counts["passed"])
    skipped = [case["cause"] for case in cases if case["outcome"] == "skipped"]
    cause = (causes or skipped or ["no result: pytest ended early"])[0]
    return Found("failed", len(cases), counts["passed"], cause)
