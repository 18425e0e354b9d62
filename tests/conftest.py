"""What all tests share: the mark with which a test names its promise (`tests/promises` checks the marks), a default
store and an environment that nothing of another test or of the machine has touched, stores, and a witness outside.

All tests of a process share one PostgreSQL; each makes databases of its own in it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet import MemoryStore, default_store, set_default_store
from tests.desk.scenes import Witness
from tests.support.postgres import PostgresServer

KEYS_AND_ADDRESSES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
)


def pytest_configure(config: pytest.Config) -> None:
    _listen_to_interrupts()
    config.addinivalue_line("markers", "promise(*ids): the promises of tests/promises/promises.toml that this keeps")
    config.addinivalue_line("markers", "long: takes too long for every change; run by `dev.py test --all`")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests that are marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests are left out, not skipped, unless they are asked for."""
    if config.getoption("--long"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def _listen_to_interrupts() -> None:
    """Programs that tests start are interrupted as in a terminal. A shell starts what it puts into the background with
    SIGINT ignored, and a program inherits that from us, so that Ctrl-C would not reach it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def fresh_default_store() -> Iterator[None]:
    """Each test has a process-wide store of its own: no run and no grant of another test is in it."""
    before = default_store()
    set_default_store(MemoryStore())
    yield
    set_default_store(before)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of the machine reaches a provider."""
    for name in KEYS_AND_ADDRESSES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server. A test that stops or restarts a server makes one of its own."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'placet.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of each kind that survives its process: a file, and a database of a real PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'placet.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.store_database()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness")
