"""The Responses adapter keeps the contract of models, in process and over HTTP."""

from __future__ import annotations

from placet.facts.codec import JsonObject
from placet.models import OpenAIResponsesModel
from placet.ports import Model
from placet.testing import ModelContract
from placet.testing.provider import FakeProvider


class TestOpenAIResponsesModel(ModelContract):
    def make_model(self, output: list[JsonObject]) -> Model:
        provider = FakeProvider([output])
        return OpenAIResponsesModel("gpt-test", provider.openai_client())
