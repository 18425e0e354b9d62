"""A rule is put into a policy's text with its place in the rollout; the rest stays as it was written."""

from __future__ import annotations

import pytest

from placet.facts.errors import UserError
from placet.policy import parse_policy
from placet.policy.adding import with_rule

RULE = '[[rule]]\nname = "new"\nallow = true\nrelax = true\n'
OLD = '# ours\n[[rule]]\nname = "old"\nask = true\n'


@pytest.mark.parametrize(
    "text", ["", OLD, f'{OLD}\n[rollout]\nold = "warn"\n', f'[rollout]  # first\nold = "warn"\n\n{OLD}']
)
def test_a_rule_is_added_in_shadow_wherever_the_rollout_stands(text: str) -> None:
    found = with_rule(text, RULE, "new", "shadow")

    modes = {rule.name: rule.mode for rule in parse_policy(found).rules}
    assert modes.pop("new") == "shadow"
    assert modes == {rule.name: rule.mode for rule in parse_policy(text).rules}
    assert all(line in found.splitlines() for line in text.splitlines())


def test_a_name_that_is_taken_and_a_rollout_in_one_line_are_refused() -> None:
    with pytest.raises(UserError, match="already"):
        with_rule(OLD, RULE, "old", "shadow")
    with pytest.raises(UserError, match="by hand"):
        with_rule(f'rollout = {{ old = "warn" }}\n{OLD}', RULE, "new", "shadow")
