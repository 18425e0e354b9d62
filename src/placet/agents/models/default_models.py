"""The model that is asked where nobody named one."""

from __future__ import annotations

from placet.models.default_models import (
    OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME,
    get_default_model,
    get_default_model_settings,
    gpt_5_reasoning_settings_required,
    is_gpt_5_default,
)

__all__ = [
    "OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME",
    "get_default_model",
    "get_default_model_settings",
    "gpt_5_reasoning_settings_required",
    "is_gpt_5_default",
]
