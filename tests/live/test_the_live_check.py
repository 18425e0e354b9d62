"""The live check itself: it says what it skips, and its scenarios pass where the services are the fake provider's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from placet.testing import assistant_message, function_call
from placet.testing.provider import FakeProvider
from tests.live.__main__ import SERVICES
from tests.live.scenarios import EVERYWHERE, ON_RESPONSES

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


def live(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    command = [sys.executable, "-m", "tests.live", *arguments]
    return subprocess.run(command, env=kept | env, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603  # our own program


def test_without_keys_it_says_what_it_skipped_and_why() -> None:
    done = live()

    assert done.stdout.splitlines() == [
        f"skipped  OpenAI Responses: OPENAI_API_KEY is not set ({len(ON_RESPONSES)} scenarios)",
        f"skipped  OpenAI Chat Completions: OPENAI_API_KEY is not set ({len(EVERYWHERE)} scenarios)",
        f"skipped  Anthropic Messages: ANTHROPIC_API_KEY is not set ({len(EVERYWHERE)} scenarios)",
        f"0 passed, 0 failed, {len(ON_RESPONSES) + 2 * len(EVERYWHERE)} skipped",
    ]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("service", SERVICES, ids=lambda each: each.prefix)
def test_the_scenarios_pass_against_a_provider_that_does_as_it_is_told(service: Any) -> None:
    provider = FakeProvider([_obedient] * 40)
    with provider.serve() as url:
        env = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": url}
        if service.prefix == "anthropic":
            env = {"ANTHROPIC_API_KEY": "secret", "ANTHROPIC_BASE_URL": url.removesuffix("/v1")}
        done = live("-k", service.title, **env)

    assert done.stderr == ""
    assert f"{len(service.scenarios)} passed, 0 failed, 0 skipped" in done.stdout
    assert done.returncode == 0


def test_a_scenario_that_fails_is_named_and_is_the_exit_code() -> None:
    provider = FakeProvider([[assistant_message("hi")]] * 20)
    with provider.serve() as url:
        done = live("-k", "structured", OPENAI_API_KEY="secret", OPENAI_BASE_URL=url)

    assert "FAILED   OpenAI Responses, openai/gpt-5-mini: structured output" in done.stdout
    assert done.returncode == 1


def _obedient(request: Any) -> Any:
    """A model that does what the scenarios ask for."""
    text = json.dumps(request.body)
    if "no-such-model" in text:
        return _no_such_model()
    if "look_up for order 8" not in text:
        return [assistant_message('{"name": "Paris", "country": "France"}')]
    if "Not today." in text:
        return [assistant_message("DONE")]
    orders = [("refund", "7"), ("look_up", "8"), ("refund", "9")]
    return [function_call(name, {"order": order}, call_id=f"call_{order}") for name, order in orders]


def _no_such_model() -> Any:
    from placet.testing.provider.steps import Fault, ProviderStep

    return ProviderStep(fault=Fault("status", 404, "The model does not exist.", "model_not_found", "not_found_error"))
