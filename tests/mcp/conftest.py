from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp import shop
from tests.mcp.scenes import Effects, children


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Effects:
    found = Effects(tmp_path / "effects.txt")
    monkeypatch.setattr(shop, "EFFECTS", found.path)
    return found


@pytest.fixture(autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    """Every server that a test had started is gone when the test is over."""
    before = children()
    yield
    left = children() - before
    assert not left, f"processes {left} were left behind"
