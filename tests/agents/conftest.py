"""The real SDK, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import dev

PLACE = dev.DEV / "bench" / "openai-agents"
SECONDS = 120


@pytest.fixture(scope="session")
def on_the_sdk() -> Callable[..., str]:
    """Runs a program with the SDK's own Python and gives what it prints."""
    dev.set_up_apart(PLACE, dev.PEERS / "openai-agents.lock", "openai-agents, for the tests")

    def run(program: Path, *arguments: str, **variables: str) -> str:
        quiet = os.environ | {"OPENAI_AGENTS_DISABLE_TRACING": "0", "OPENAI_API_KEY": ""} | variables
        done = subprocess.run(  # noqa: S603  # programs of our own
            [str(PLACE / "bin" / "python"), str(program), *arguments],
            env=quiet,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
