from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp import shop
from tests.mcp.scenes import Effects


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Effects:
    found = Effects(tmp_path / "effects.txt")
    monkeypatch.setattr(shop, "EFFECTS", found.path)
    return found


@pytest.fixture(autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    """Every server that a test had started is gone when the test is over."""
    before = _children()
    yield
    left = _children() - before
    assert not left, f"processes {left} were left behind"


def _children() -> set[int]:
    found: set[int] = set()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parts = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(parts[1]) == os.getpid() and parts[0] != "Z":
                found.add(int(each.name))
    return found
