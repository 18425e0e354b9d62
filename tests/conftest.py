"""Registers the marker with which a test says which promise it keeps (`tests/promises` checks the marks), and keeps the
PostgreSQL that all tests of a process share: each makes databases of its own in it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer


def pytest_configure(config: pytest.Config) -> None:
    _hear_interrupts()
    config.addinivalue_line("markers", "promise(*ids): the promises of tests/promises/promises.toml that this keeps")


def _hear_interrupts() -> None:
    """Programs that tests start are interrupted as in a terminal. A shell starts what it puts into the background with
    SIGINT ignored, and a program inherits that from us, so that Ctrl-C would not reach it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server; who stops or restarts one makes one of their own."""
    server = PostgresServer()
    yield server
    server.close()
