"""The contract of models, on the scripted one."""

from __future__ import annotations

from placet.facts.codec import JsonObject
from placet.testing import ModelContract, ModelStep, ScriptedModel


class TestScriptedModel(ModelContract):
    def make_model(self, output: list[JsonObject]) -> ScriptedModel:
        return ScriptedModel([ModelStep(output)])
