"""Which failed requests are sent again, and after how long: one budget for one question to the model.

The runtime is the only place that retries: the clients' own retries are off, because they know nothing of what a
conversation has taken.
"""

from __future__ import annotations

import inspect

from placet.facts.errors import ProviderError
from placet.facts.model_settings import ModelRetrySettings

DEFAULT_RETRY = ModelRetrySettings()


class Retrying:
    """What is left of the budget. A conversation that is locked has a budget of its own, in seconds."""

    def __init__(self, settings: ModelRetrySettings | None) -> None:
        self._settings = settings if settings is not None else DEFAULT_RETRY
        self._retries = 0
        self._lock_waits = 0
        self._waited_for_lock = 0.0

    async def delay_after(self, error: Exception) -> float | None:
        """Seconds to wait before the request is sent again; None: the error is for the caller."""
        if not isinstance(error, ProviderError) or not error.is_transient:
            return None
        if not await self._policy_agrees(error):
            return None
        if error.retry_after is not None and error.retry_after > self._settings.max_retry_after:
            return None
        return self._for_lock(error) if error.is_locked else self._for_failure(error)

    async def _policy_agrees(self, error: ProviderError) -> bool:
        policy = self._settings.policy
        if policy is None:
            return True
        answer = policy(error, self._retries + self._lock_waits)
        return (await answer if inspect.isawaitable(answer) else answer) is True

    def _for_failure(self, error: ProviderError) -> float | None:
        if self._retries >= self._settings.max_retries:
            return None
        self._retries += 1
        return self._wait(error, self._retries - 1)

    def _for_lock(self, error: ProviderError) -> float | None:
        left = self._settings.max_lock_wait - self._waited_for_lock
        if left <= 0:
            return None
        self._lock_waits += 1
        delay = min(self._wait(error, self._lock_waits - 1), left)
        self._waited_for_lock += delay
        return delay

    def _wait(self, error: ProviderError, before: int) -> float:
        import random  # it takes a millisecond and more to load, and few requests fail

        own = self._settings.delay(before, random.random())  # noqa: S311  # spreads waits; guards nothing
        return own if error.retry_after is None else error.retry_after
