"""A store of each kind that survives its process: a file, and a database of a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.desk.scenes import Witness
from tests.support.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'placet.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.store_database()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness")
