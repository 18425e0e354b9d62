"""A desk that serves, and a Slack that it is connected to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.desk_server import RunningDesk, running_desk
from tests.support.slack_server import SlackServer, slack_server


@pytest.fixture
async def slack(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SlackServer]:
    async with slack_server() as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
async def desk(slack: SlackServer, tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path) as running:
        await slack.connected()
        yield running
