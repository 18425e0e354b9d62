"""Each test has a default store of its own: nothing that one test decides reaches another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placet import MemoryStore, default_store, set_default_store


@pytest.fixture(autouse=True)
def fresh_default_store() -> Iterator[None]:
    before = default_store()
    set_default_store(MemoryStore())
    yield
    set_default_store(before)
