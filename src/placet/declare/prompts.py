"""Prompts that the provider keeps: an agent names one by its id, by a version and by values for its variables."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

from placet.declare.context import RunContextWrapper
from placet.facts.errors import UserError

if TYPE_CHECKING:
    from placet.facts.items import Named


class Prompt(TypedDict):
    """A prompt that the provider keeps."""

    id: str
    version: NotRequired[str]
    variables: NotRequired[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class GenerateDynamicPromptData:
    """What a function that chooses a prompt gets."""

    context: RunContextWrapper[Any]
    agent: Any  # Any: an Agent; that class is declared on top of this one


DynamicPromptFunction: TypeAlias = Callable[[GenerateDynamicPromptData], Prompt | Awaitable[Prompt]]


async def prompt_of(
    prompt: Prompt | DynamicPromptFunction | None, context: RunContextWrapper[Any], agent: Named
) -> dict[str, Any] | None:
    """The prompt as the provider gets it: given as a dict, or chosen by a function."""
    found: object = prompt
    if callable(prompt):
        found = prompt(GenerateDynamicPromptData(context, agent))
        found = await found if inspect.isawaitable(found) else found
    if found is None:
        return None
    if not isinstance(found, Mapping) or not isinstance(found.get("id"), str):
        raise UserError(f"Agent '{agent.name}': a prompt is a dict with an id, or a function that gives one.")
    return {name: found[name] for name in ("id", "version", "variables") if found.get(name) is not None}
