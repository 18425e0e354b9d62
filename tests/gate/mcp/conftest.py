from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gate.mcp.scenes import Scene, scene
from tests.mcp import shop


@pytest.fixture
async def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as found:
        monkeypatch.setattr(shop, "EFFECTS", found.effects_file)
        yield found
