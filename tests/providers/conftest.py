"""Each test has a default store of its own, and no key of the machine it runs on reaches any provider."""

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


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
