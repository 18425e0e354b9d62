"""Policies of the SDK about what is tried again: functions, coroutine functions, and those that join others."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from placet import ProviderError
from placet.agents import Agent, ModelRetrySettings, ModelSettings, OpenAIResponsesModel, RetryDecision, Runner
from placet.agents import retry_policies as policies
from placet.testing import FakeProvider, assistant_message
from placet.testing.provider import rate_limited, server_error

DONE = [assistant_message("Done.")]
AT_ONCE = {"initial_delay": 0.0, "max_delay": 0.0, "jitter": False}


async def asked(policy: Any, *faults: Any) -> int:
    """How many requests were made until an answer came, or the policy said no."""
    provider = FakeProvider([*faults, DONE])
    model = OpenAIResponsesModel("gpt-5", openai_client=provider.openai_client(max_retries=0))
    retry = ModelRetrySettings(max_retries=3, backoff=AT_ONCE, policy=policy)
    with contextlib.suppress(ProviderError):
        await Runner.run(Agent(name="Clerk", model=model, model_settings=ModelSettings(retry=retry)), "hello")
    return len(provider.model_requests)


async def only_limits(context: Any) -> RetryDecision:
    return RetryDecision(retry=context.normalized.status_code == 429, reason="too many at once")


@pytest.mark.parametrize(
    ("policy", "requests"),
    [
        (only_limits, 2),
        (policies.http_status([429]), 2),
        (policies.any(policies.never(), only_limits), 2),
        (policies.any(policies.http_status([500]), only_limits), 3),
        (policies.all(policies.provider_suggested(), only_limits), 2),
        (policies.all(only_limits, policies.http_status([500])), 1),
        (policies.all(), 1),
        (policies.any(), 1),
    ],
)
async def test_a_policy_is_heard_whether_it_is_a_coroutine_function_or_not(policy: Any, requests: int) -> None:
    assert await asked(policy, rate_limited(), server_error()) == requests
