"""The contract of models, on the official client, over HTTP, against the strict provider."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from placet.facts.codec import JsonObject
from placet.ports import Model
from placet.testing import ModelContract
from tests.models.wire import Wire


class TestChatCompletions(ModelContract):
    @pytest.fixture(autouse=True)
    async def _served(self, wire: Wire) -> AsyncIterator[None]:
        self.wire = wire
        yield
        wire.provider.assert_complete()
        assert wire.provider.refusals == []

    def make_model(self, output: list[JsonObject]) -> Model:
        self.wire.provider.add(output)
        return self.wire.model
