"""Models of real providers, each behind the `Model` port, each with its SDK imported only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.models.anthropic_messages import AnthropicModel
    from placet.models.openai_chat import OpenAIChatCompletionsModel
    from placet.models.openai_responses import OpenAIResponsesModel

__all__ = ["AnthropicModel", "OpenAIChatCompletionsModel", "OpenAIResponsesModel"]


def __getattr__(name: str) -> Any:
    """An adapter is imported when it is asked for."""
    if name == "OpenAIResponsesModel":
        from placet.models.openai_responses import OpenAIResponsesModel

        return OpenAIResponsesModel
    if name == "OpenAIChatCompletionsModel":
        from placet.models.openai_chat import OpenAIChatCompletionsModel

        return OpenAIChatCompletionsModel
    if name == "AnthropicModel":
        from placet.models.anthropic_messages import AnthropicModel

        return AnthropicModel
    raise AttributeError(f"module 'placet.models' has no attribute {name!r}")
