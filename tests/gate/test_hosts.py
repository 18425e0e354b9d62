"""The gate in the frameworks of others: their real packages, each in an environment of its own."""

from __future__ import annotations

import pytest

from tests.gate.hosts.adapters import BEGIN, TABLE, rows_in, run, slips_of
from tests.gate.hosts.frameworks import FRAMEWORKS

pytestmark = [pytest.mark.promise("P23"), pytest.mark.timeout(1800)]


def run_with(host: str) -> None:
    """The checks of the framework's adapter; the first run fetches the packages."""
    is_well, printed, _ = run(FRAMEWORKS[host])
    assert is_well, printed


def test_openai_agents() -> None:
    run_with("openai-agents")


def test_langchain() -> None:
    run_with("langchain")


def test_pydantic_ai() -> None:
    run_with("pydantic-ai")


def test_agent_framework() -> None:
    run_with("agent-framework")


@pytest.mark.long
def test_google_adk() -> None:
    run_with("google-adk")


@pytest.mark.long
def test_claude_agent_sdk() -> None:
    run_with("claude-agent-sdk")


@pytest.mark.long
def test_crewai() -> None:
    run_with("crewai")


def test_the_table_of_the_page_names_every_framework_with_its_version_and_what_slips_past() -> None:
    """`python3 dev.py adapters` writes it."""
    rows = rows_in(TABLE.read_text())

    assert BEGIN in TABLE.read_text()
    assert list(rows) == list(FRAMEWORKS)
    for host, framework in FRAMEWORKS.items():
        assert f"| {framework.version} |" in rows[host]
        for cell in slips_of(framework):
            assert cell in rows[host]
