"""Models of many services, by LiteLLM."""

from __future__ import annotations

from placet.agents.extensions.models.litellm_model import LitellmModel
from placet.agents.models.default_models import get_default_model
from placet.agents.models.interface import ModelProvider


class LitellmProvider(ModelProvider):
    """`RunConfig(model_provider=LitellmProvider())`: keys and addresses are in the variables that LiteLLM reads."""

    def get_model(self, model_name: str | None) -> LitellmModel:
        return LitellmModel(model_name or get_default_model())


__all__ = ["LitellmProvider"]
