"""The conftest of the extracted tests: results as JSON lines, a time limit for each test, no tracing to outside."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import peer_alias
import pytest

import placet

os.environ.setdefault("OPENAI_API_KEY", "test_key")
for _name in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "http_proxy", "https_proxy"):
    os.environ.pop(_name, None)
LIMIT = float(os.environ["PEER_LIMIT"])


def _write(nodeid: str, outcome: str, cause: str = "") -> None:
    with Path(os.environ["PEER_RESULTS"]).open("a", encoding="utf-8") as results:
        results.write(json.dumps({"test": nodeid, "outcome": outcome, "cause": cause}) + "\n")


def _cause(report) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = [line for line in str(crash.message if crash else report.longrepr).splitlines() if line.strip()]
    if not lines:
        return "no message"
    line = lines[0] if crash else lines[-1].removeprefix("E").strip()
    return re.sub(r"0x[0-9a-f]+", "0x…", line.replace(str(Path.cwd()), "."))


def pytest_runtest_logreport(report) -> None:
    if report.failed:
        _write(report.nodeid, "failed", _cause(report))
    elif report.skipped:
        _write(report.nodeid, "skipped", str(report.longrepr[-1] if report.longrepr else ""))
    elif report.when == "call":
        _write(report.nodeid, "passed")


def pytest_collectreport(report) -> None:
    if report.failed:
        _write(report.nodeid, "failed", _cause(report))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    def stop(signum, frame):
        pytest.fail(f"no end after {LIMIT:g} s", pytrace=False)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _defaults():
    """What a test sets for the whole process ends with it. It finds no run that waits: the SDK keeps none between runs,
    Placet's default store does, and all those tests call their session «test»."""
    placet.set_default_store(placet.MemoryStore())
    yield
    for module, name, value in (
        ("run", "set_default_agent_runner", None),
        ("", "set_default_openai_api", "responses"),
        ("", "set_default_openai_responses_transport", "http"),
        ("tracing", "set_tracing_disabled", False),
    ):
        try:
            reset = peer_alias.resolve(module, name)
        except peer_alias.MissingName:
            continue
        reset(value)


@pytest.fixture(autouse=True)
def _spans(request):
    """Traces go to the test's own processor if it has one, else nowhere."""
    helper = sys.modules.get(request.module.__name__.partition(".")[0] + ".tests.testing_processor")
    own = getattr(helper, "SPAN_PROCESSOR_TESTING", None)
    if own is not None:
        own.clear()
    try:
        set_processors = peer_alias.resolve("tracing", "set_trace_processors")
    except peer_alias.MissingName:
        return
    set_processors([own] if own is not None else [])
