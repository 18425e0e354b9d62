"""The policies of the documentation load, with all their examples, and an editor's schema takes them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from placet.core.policy import Subject
from placet.policy import parse_policy
from placet.policy.shape import SCHEMA

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
POLICIES = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_there_are_six() -> None:
    assert len(POLICIES) == 6


@pytest.mark.parametrize("text", POLICIES, ids=range(len(POLICIES)))
def test_each_loads_with_its_examples_and_without_a_warning(text: str) -> None:
    policy = parse_policy(text)

    assert policy.rules
    assert policy.warnings == ()
    assert jsonschema_rs.validator_for(SCHEMA).is_valid(tomllib.loads(text))


def test_force_is_denied_also_where_it_hides_in_a_longer_command() -> None:
    policy = parse_policy(POLICIES[1])

    def says(command: str) -> str | None:
        return policy.judge(
            Subject(tool="Bash", agent="claude-code/me", source="claude-code", arguments={"command": command})
        ).verdict

    assert says("git push -f origin main") == "deny"
    assert says("git status && rm -rf /") == "ask"
    assert says("git status") == "allow"
