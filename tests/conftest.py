"""Registers the marker with which a test says which promise it keeps (`tests/promises` checks the marks), and keeps the
PostgreSQL that all tests of a process share: each makes databases of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(*ids): the promises of tests/promises/promises.toml that this keeps")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server; who stops or restarts one makes one of their own."""
    server = PostgresServer()
    yield server
    server.close()
