"""Which model is asked where nobody named one, and with which settings: as the OpenAI Agents SDK chooses."""

from __future__ import annotations

import os
import re

from placet.facts.model_settings import ModelSettings

OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME = "OPENAI_DEFAULT_MODEL"
DEFAULT_MODEL = "gpt-5.6-luna"

_THINKS_ONLY_IF_TOLD = re.compile(r"gpt-5\.\d+(?!.*(?:codex|nano|pro))")
"""Models that can be asked not to think at all."""
_EFFORTS = {"gpt-5": "low", "gpt-5.2-codex": "low", "gpt-5.2-pro": "medium", "gpt-5.3-codex": "none"}
"""How much these think at the least; of those that are not named here, that is left to the provider."""
_CHAT = re.compile(r"gpt-5(?:\.\d+)?-chat")


def get_default_model() -> str:
    """The name in OPENAI_DEFAULT_MODEL, or the SDK's default."""
    return os.environ.get(OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME, DEFAULT_MODEL).lower()


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Whether this is a model of the fifth generation that thinks before it answers."""
    return model_name.startswith("gpt-5") and _CHAT.match(model_name) is None


def is_gpt_5_default() -> bool:
    return gpt_5_reasoning_settings_required(get_default_model())


def get_default_model_settings(model: str | None = None) -> ModelSettings:
    """The settings that suit a model which was not chosen: of those that think, little thought and few words."""
    name = model if model is not None else get_default_model()
    if not gpt_5_reasoning_settings_required(name):
        return ModelSettings()
    effort = _EFFORTS.get(name) or ("none" if _THINKS_ONLY_IF_TOLD.match(name) else None)
    return ModelSettings(reasoning=None if effort is None else {"effort": effort}, verbosity="low")
