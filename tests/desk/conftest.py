"""Stores for the desks of the tests: a file each, and for some tests a database of a real PostgreSQL too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.desk.scenes import Witness
from tests.support.postgres import PostgresServer


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'placet.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest, url: str) -> str:
    if request.param == "sqlite":
        return url
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.store_database()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness")
