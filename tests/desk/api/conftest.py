"""A desk that serves, on SQLite; for some tests on a real PostgreSQL too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.desk_server import RunningDesk, running_desk


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
async def any_server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningDesk]:
    url = request.getfixturevalue("postgres").store_database() if request.param == "postgresql" else None
    async with running_desk(tmp_path, url=url) as running:
        yield running
