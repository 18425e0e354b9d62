"""Each test has a process-wide store of its own: no run and no grant of another test is in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placet import MemoryStore, default_store, set_default_store
from tests.tracing.scenes import Traces


@pytest.fixture(autouse=True)
def _fresh_default_store() -> Iterator[None]:
    before = default_store()
    set_default_store(MemoryStore())
    yield
    set_default_store(before)


@pytest.fixture
def traces() -> Traces:
    return Traces()
