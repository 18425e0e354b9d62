"""Settings that go with a request to a model; what is None is left to the provider."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is asked; what is None is left to its provider."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_tokens: int | None = None
    reasoning: Any = None  # Any: the provider's own shape
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    include_usage: bool | None = None
    response_include: list[str] | None = None
    top_logprobs: int | None = None
    extra_query: dict[str, Any] | None = None
    extra_body: Any = None
    extra_headers: dict[str, str] | None = None
    extra_args: dict[str, Any] | None = None
    timeout: float | None = None

    def resolve(self, override: ModelSettings | None) -> ModelSettings:
        """These settings, with those of `override` that are set laid over them."""
        if override is None:
            return self
        given = {each.name: getattr(override, each.name) for each in fields(override)}
        return replace(self, **{name: value for name, value in given.items() if value is not None})
