"""The gate in the frameworks of others: their real packages, each in an environment of its own."""

from __future__ import annotations

import pytest

from tests.gate import test_torture_hosts
from tests.gate.hosts.adapters import (
    ALIKE,
    BEGIN,
    CARRIED,
    HARM,
    TABLE,
    TORTURED,
    rows_in,
    run,
    slips_of,
    tortured_head,
)
from tests.gate.hosts.frameworks import FRAMEWORKS
from tests.gate.hosts.scenarios import HostScenarios

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


def test_the_table_of_the_torture_names_every_framework_and_nothing_ran_that_should_not_have() -> None:
    """`python3 dev.py adapters` writes it, with the rows of what passed."""
    rows = rows_in(TABLE.read_text(), TORTURED)

    assert tortured_head() in TABLE.read_text()
    assert list(rows) == list(FRAMEWORKS)
    for host, framework in FRAMEWORKS.items():
        cells = [each.strip() for each in rows[host].strip().strip("|").split("|")]
        assert cells[1] == framework.version
        assert cells[3:-4] == ["held"] * (len(ALIKE) + len(HARM))
        assert int(cells[-4]) >= 8
        assert cells[-3:] == ["0", "0", "0"]


def test_the_tables_are_read_off_tests_that_there_are() -> None:
    assert all(hasattr(test_torture_hosts, name) for name in HARM)
    assert all(hasattr(HostScenarios, name) for name in (*ALIKE, *CARRIED.values()))
