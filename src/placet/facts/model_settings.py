"""Settings that go with a request to a model; what is None is left to the provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from placet.facts.errors import ProviderError, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetryBackoffSettings:
    """How long to wait before a request is sent again, in seconds: longer each time, up to a bound."""

    initial_delay: float = 0.5
    max_delay: float = 8.0
    multiplier: float = 2.0
    jitter: bool = True
    """Wait a random part of the time, at least half: then many who failed together do not come back together."""

    def __post_init__(self) -> None:
        if self.initial_delay < 0 or self.max_delay < 0 or self.multiplier < 1:
            raise UserError("A backoff's delays are 0 or more, and its multiplier is 1 or more.")


RetryPolicy: TypeAlias = Callable[[ProviderError, int], bool | Awaitable[bool]]
"""`(error, retries so far)`: whether to try again, sync or async. It can only narrow what is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetrySettings:
    """Which failed requests are sent again: those whose `ProviderError.is_transient`, unless a policy says no."""

    max_retries: int = 3
    """After the first attempt. 0: none."""
    backoff: ModelRetryBackoffSettings = field(default_factory=ModelRetryBackoffSettings)
    policy: RetryPolicy | None = None
    max_retry_after: float = 60.0
    """The longest wait that a provider may ask for; if it asks for more, the error is raised at once."""
    max_lock_wait: float = 60.0
    """How long in all to wait for a conversation on which another request is at work."""

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.max_retry_after < 0 or self.max_lock_wait < 0:
            raise UserError("A retry's max_retries, max_retry_after and max_lock_wait are 0 or more.")

    def delay(self, retries: int, portion: float) -> float:
        """Seconds before retry number `retries` + 1, if the provider names none. `portion`: a random number, 0 to 1."""
        longest = min(self.backoff.initial_delay * self.backoff.multiplier**retries, self.backoff.max_delay)
        return longest * (0.5 + portion / 2) if self.backoff.jitter else longest


@dataclass(frozen=True, slots=True)
class MCPToolChoice:
    """The model is to call this tool of this MCP server, which the provider talks to."""

    server_label: str
    name: str


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is asked; what is None is left to its provider."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | Mapping[str, Any] | MCPToolChoice | None = None
    """'auto', 'required', 'none', the name of a tool, or the provider's own shape."""
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
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    retry: ModelRetrySettings | None = None
    """Which failed requests are sent again, how often, after how long."""
    context_management: list[dict[str, Any]] | None = None
    """What the provider does with a context that grows too long, in its own words."""
    prompt_cache_options: dict[str, Any] | None = None

    @classmethod
    def of(cls, given: ModelSettings | Mapping[str, Any] | None) -> ModelSettings:
        """Settings that may also be given as a dict. Anything else is left to the check that follows."""
        if not isinstance(given, Mapping):
            return given if given is not None else cls()
        unknown = sorted(set(given) - {each.name for each in fields(cls)})
        if unknown:
            raise UserError(f"ModelSettings has no setting {', '.join(map(repr, unknown))}.")
        return cls(**given)

    def resolve(self, override: ModelSettings | None) -> ModelSettings:
        """These settings, with those of `override` that are set laid over them."""
        if override is None:
            return self
        given = {each.name: getattr(override, each.name) for each in fields(override)}
        return replace(self, **{name: value for name, value in given.items() if value is not None})
