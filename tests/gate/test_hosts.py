"""The gate in the frameworks of others: their real packages, each in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import dev
import placet

HERE = Path(__file__).parent / "hosts"
SECONDS = 400
"""The first run fetches the packages of the host."""

pytestmark = [pytest.mark.promise("P23"), pytest.mark.timeout(2 * SECONDS)]


def run_with(host: str, file: str) -> None:
    """Run the scenarios in `file` with the packages of the host."""
    place = dev.DEV / "hosts" / host
    dev.set_up_apart(place, HERE / f"{host}.lock", f"{host}, for the tests")
    # Placet as this process has it, so that a guard that was taken out is missing there too.
    paths = (str(Path(placet.__file__).parents[1]), str(dev.ROOT))
    command = [str(place / "bin" / "python"), "-m", "pytest", "-q", "--noconftest", "-c", str(HERE / "pytest.ini")]
    done = subprocess.run(  # noqa: S603  # programs of our own
        [*command, "--rootdir", str(dev.ROOT), str(HERE / file)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENAI_API_KEY": "", "PYTEST_ADDOPTS": ""},
        cwd=dev.ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_openai_agents() -> None:
    run_with("openai-agents", "check_openai_agents.py")


def test_langchain() -> None:
    run_with("langchain", "check_langchain.py")


def test_pydantic_ai() -> None:
    run_with("pydantic-ai", "check_pydantic_ai.py")


def test_agent_framework() -> None:
    run_with("agent-framework", "check_agent_framework.py")
