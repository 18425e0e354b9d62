from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.models.wire import Wire, wired


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with wired("anthropic") as found:
        yield found
