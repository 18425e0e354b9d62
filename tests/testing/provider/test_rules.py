"""Each rule of the services: a request that breaks it is refused in the service's own form, one just inside is not."""

from __future__ import annotations

import re
from typing import Any

import anthropic
import openai
import pytest

from placet.testing.provider import FakeProvider
from tests.docs.pages import DOCS
from tests.testing.provider import chat_rules, messages_rules, responses_rules
from tests.testing.provider.rule import Rule

OPENAI = [
    *((f"responses/{rule}", rule) for rule in responses_rules.RULES),
    *((f"chat/{rule}", rule) for rule in chat_rules.RULES),
]
ANTHROPIC = [(f"messages/{rule}", rule) for rule in messages_rules.RULES]


def named(rules: list[tuple[str, Rule]]) -> Any:
    return pytest.mark.parametrize("rule", [rule for _, rule in rules], ids=[name for name, _ in rules])


@named(OPENAI)
async def test_a_rule_of_openai_is_kept(rule: Rule) -> None:
    provider = FakeProvider(rule.steps)

    async with provider.openai_client(max_retries=0) as client:
        with pytest.raises(openai.APIStatusError, match=rule.words) as refused:
            await rule.breaks(client)

    error: Any = refused.value
    assert (error.status_code, error.type) == (rule.status, "invalid_request_error")
    assert rule.code is None or error.code == rule.code
    assert rule.param is None or error.param == rule.param
    assert len(provider.refusals) == 1


@named(OPENAI)
async def test_just_inside_a_rule_of_openai_all_is_well(rule: Rule) -> None:
    provider = FakeProvider(rule.steps)

    async with provider.openai_client(max_retries=0) as client:
        await rule.keeps(client)

    assert provider.refusals == []


@named(ANTHROPIC)
async def test_a_rule_of_anthropic_is_kept(rule: Rule) -> None:
    provider = FakeProvider(rule.steps)

    async with provider.anthropic_client(max_retries=0) as client:
        with pytest.raises(anthropic.BadRequestError, match=rule.words) as refused:
            await rule.breaks(client)

    assert refused.value.type == "invalid_request_error"
    assert refused.value.request_id
    assert len(provider.refusals) == 1


@named(ANTHROPIC)
async def test_just_inside_a_rule_of_anthropic_all_is_well(rule: Rule) -> None:
    provider = FakeProvider(rule.steps)

    async with provider.anthropic_client(max_retries=0) as client:
        await rule.keeps(client)

    assert provider.refusals == []


def test_the_table_in_the_documentation_lists_exactly_these_rules() -> None:
    page = (DOCS / "fake-provider.md").read_text("utf-8")
    rows = re.findall(r"^\|.*\| `((?:responses|chat|messages)/[a-z0-9-]+)` \|$", page, re.MULTILINE)

    names = [name for name, _ in [*OPENAI, *ANTHROPIC]]
    assert sorted(rows) == sorted(names)
    assert len(names) == len(set(names))
