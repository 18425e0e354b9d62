"""From a model's name to a model: `gpt-…`, `openai/…`, `openai-chat/…`, `anthropic/…`, `litellm/…`, or a provider that
another package adds by an entry point of the group `placet.models`.

Nothing of a provider is imported before its first name is used.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from placet.facts.errors import UserError
from placet.ports import Model

GROUP = "placet.models"
"""The group of entry points. The name of one is the word before the slash; its object takes the word behind it."""

DEFAULT = "openai"
_OURS = {
    "openai": "placet.models.openai_responses:OpenAIResponsesModel",
    "openai-chat": "placet.models.openai_chat:OpenAIChatCompletionsModel",
    "anthropic": "placet.models.anthropic_messages:AnthropicModel",
    "litellm": "placet.models.litellm_chat:LitellmModel",
}


@functools.cache
def resolve(name: str) -> Model:
    """The model with this name: one object per name and process."""
    provider, slash, model = name.partition("/")
    if not slash:
        provider, model = DEFAULT, name
        if name.startswith("claude"):
            raise UserError(f"The model '{name}' is not OpenAI's: write 'anthropic/{name}'.")
    if not model.strip():
        raise UserError(f"The model '{name}' names no model: write '{provider}/…', as in 'openai/gpt-5'.")
    found: object = _maker(provider, name)(model)
    if not hasattr(found, "get_response"):
        raise UserError(
            f"The provider '{provider}' made a {type(found).__name__} of '{name}': a model has get_response and "
            "stream_response."
        )
    return found  # type: ignore[return-value]  # looked at above


def _maker(provider: str, name: str) -> Callable[[str], Any]:  # Any: what a foreign package makes is looked at
    if provider in _OURS:
        module, _, attribute = _OURS[provider].partition(":")
        made: Callable[[str], Any] = getattr(importlib.import_module(module), attribute)
        return made
    found = list(entry_points(group=GROUP, name=provider))
    if not found:
        raise UserError(
            f"No provider '{provider}' for the model '{name}': there are {', '.join(known_providers())}. Install the "
            f"package that adds it (an entry point in the group '{GROUP}'), write 'openai/{name}' if OpenAI's API "
            "knows the whole name, or pass a model object."
        )
    packages = sorted({_package(each) for each in found})
    if len(packages) > 1:
        raise UserError(f"The provider '{provider}' is added by {' and '.join(packages)}: uninstall one of them.")
    return _load(found[0])


def _load(entry: EntryPoint) -> Callable[[str], Any]:
    try:
        found: object = entry.load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"The provider '{entry.name}' of {_package(entry)} cannot be loaded: {error}.") from error
    if not callable(found):
        raise UserError(f"The provider '{entry.name}' of {_package(entry)} is no function or class.")
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def known_providers() -> list[str]:
    return sorted({*_OURS, *(each.name for each in entry_points(group=GROUP))})
