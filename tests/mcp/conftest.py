from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp import shop
from tests.mcp.scenes import Effects, children

HERE = Path(__file__).resolve().parent


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Effects:
    found = Effects(tmp_path / "effects.txt")
    monkeypatch.setattr(shop, "EFFECTS", found.path)
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starting servers takes its time where many tests run at once."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    """Every server that a test had started is gone when the test is over."""
    before = children()
    yield
    left = children() - before
    assert not left, f"processes {left} were left behind"
