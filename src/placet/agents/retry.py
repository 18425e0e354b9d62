"""Trying again: the SDK's policies over Placet's. They narrow what is tried again: the runtime itself knows which
requests were certainly not taken, and sends no other one twice."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import placet
from placet import ModelRetryBackoffSettings, ModelTimeoutError, ProviderError


@dataclass
class ModelRetryNormalizedError:
    """What is known of an error, whoever the provider is."""

    status_code: int | None = None
    error_code: str | None = None
    message: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    is_abort: bool = False
    is_network_error: bool = False
    is_timeout: bool = False


@dataclass
class ModelRetryAdvice:
    """What a provider says about trying again."""

    suggested: bool | None = None
    retry_after: float | None = None
    replay_safety: str | None = None
    reason: str | None = None
    normalized: ModelRetryNormalizedError | None = None
    response_started: bool = False


@dataclass
class ModelRetryAdviceRequest:
    """What a provider is asked for its advice about."""

    error: Exception
    attempt: int
    stream: bool
    previous_response_id: str | None = None
    conversation_id: str | None = None


@dataclass
class RetryDecision:
    """What a policy decides. The wait is the settings' own: a `delay` of a policy is not used."""

    retry: bool
    delay: float | None = None
    reason: str | None = None
    approve_unsafe_replay: bool = False


@dataclass
class RetryPolicyContext:
    """What a policy is told."""

    error: Exception
    attempt: int
    max_retries: int
    stream: bool
    normalized: ModelRetryNormalizedError
    provider_advice: ModelRetryAdvice | None = None
    previous_response_id: str | None = None
    conversation_id: str | None = None


RetryPolicyAnswer: TypeAlias = bool | RetryDecision
RetryPolicy: TypeAlias = Callable[[RetryPolicyContext], RetryPolicyAnswer | Awaitable[RetryPolicyAnswer]]


class ModelRetrySettings(placet.ModelRetrySettings):
    """As Placet's; the policy is a function of one context, as the SDK has it, or Placet's of an error and a count."""

    def __init__(self, max_retries: int | None = None, backoff: Any = None, policy: Any = None, **more: Any) -> None:
        given = {"max_retries": max_retries, "backoff": _backoff(backoff), "policy": _adapted(policy, max_retries)}
        super().__init__(**{name: each for name, each in given.items() if each is not None}, **more)


def _backoff(given: Any) -> Any:
    if isinstance(given, Mapping):
        return ModelRetryBackoffSettings(**{name: each for name, each in given.items() if each is not None})
    return given


def _adapted(policy: Any, max_retries: int | None) -> Any:
    if policy is None or len(inspect.signature(policy).parameters) != 1:
        return policy

    async def asked(error: ProviderError, retries: int) -> bool:
        return await _says_yes(
            policy, RetryPolicyContext(error, retries + 1, max_retries or 0, False, _normalized(error), _advice(error))
        )

    return asked


def _normalized(error: ProviderError) -> ModelRetryNormalizedError:
    is_timeout = isinstance(error, ModelTimeoutError)
    return ModelRetryNormalizedError(
        status_code=error.status,
        message=str(error),
        request_id=error.request_id,
        retry_after=error.retry_after,
        is_network_error=error.status is None and error.is_transient and not is_timeout,
        is_timeout=is_timeout,
    )


def _advice(error: ProviderError) -> ModelRetryAdvice:
    return ModelRetryAdvice(suggested=error.is_transient, retry_after=error.retry_after, normalized=_normalized(error))


async def _says_yes(policy: RetryPolicy, context: RetryPolicyContext) -> bool:
    given = policy(context)
    answer = await given if inspect.isawaitable(given) else given
    return bool(answer.retry if isinstance(answer, RetryDecision) else answer)


class _Policies:
    """Policies that are often wanted, and ways to join them."""

    def never(self) -> RetryPolicy:
        return lambda _context: False

    def provider_suggested(self) -> RetryPolicy:
        return lambda context: bool(context.provider_advice and context.provider_advice.suggested)

    def network_error(self) -> RetryPolicy:
        return lambda context: context.normalized.is_network_error or context.normalized.is_timeout

    def retry_after(self) -> RetryPolicy:
        return lambda context: context.normalized.retry_after is not None

    def http_status(self, statuses: Iterable[int]) -> RetryPolicy:
        wanted = frozenset(statuses)
        return lambda context: context.normalized.status_code in wanted

    def all(self, *policies: RetryPolicy) -> RetryPolicy:
        async def joined(context: RetryPolicyContext) -> bool:
            for policy in policies:
                if not await _says_yes(policy, context):
                    return False
            return bool(policies)

        return joined

    def any(self, *policies: RetryPolicy) -> RetryPolicy:
        async def joined(context: RetryPolicyContext) -> bool:
            for policy in policies:
                if await _says_yes(policy, context):
                    return True
            return False

        return joined


retry_policies = _Policies()

__all__ = [
    "ModelRetryAdvice",
    "ModelRetryAdviceRequest",
    "ModelRetryBackoffSettings",
    "ModelRetryNormalizedError",
    "ModelRetrySettings",
    "RetryDecision",
    "RetryPolicy",
    "RetryPolicyContext",
    "retry_policies",
]
