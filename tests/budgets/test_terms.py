"""The terms of standing decisions: values, ranges, prefixes, sets, patterns, shell commands."""

from __future__ import annotations

import time

import pytest

from placet import Agent, Grant, MemoryStore, Runner, function_tool
from placet.core.shell_words import plain_words
from placet.core.terms import fits
from placet.testing import ScriptedModel, assistant_message, function_call

DONE = [assistant_message("done")]


def is_within(matching, **arguments):
    terms = Grant(matching=matching).terms()
    assert terms is not None
    return fits(terms, arguments)


async def test_a_grant_with_terms_covers_only_what_is_within_them():
    ran = []

    @function_tool(needs_approval=True)
    async def shell(command: str) -> str:
        ran.append(command)
        return "done"

    def call(command, label=None):
        return function_call("shell", {"command": command}, call_id=label)

    steps = [[call("git fetch")], [call("git push origin main")], [call("git push && rm -rf /", "evil")]]
    agent = Agent(name="Coder", tools=[shell], model=ScriptedModel([*steps, DONE]))
    store = MemoryStore()
    first = await Runner.run(agent, "Go.", store=store)
    state = first.to_state()
    state.approve(first.interruptions[0], always_approve=Grant(matching={"command": {"shell": ["git push **"]}}))

    result = await Runner.run(agent, state, store=store)

    assert ran == ["git fetch", "git push origin main"]
    assert [item.call_id for item in result.interruptions] == ["evil"]


@pytest.mark.parametrize(
    "command",
    [
        "git push && rm -rf /",
        "git push; rm x",
        "git push | sh",
        "git push & true",
        "git push\nrm -rf /",
        "git push\r rm",
        "git push $(rm x)",
        "git push `rm x`",
        "git push ${HOME}",
        "git push > /etc/passwd",
        "git push < x",
        "git push 'a b'",
        'git push "a"',
        "git push a\\ b",
        "git push *",
        "git push ?",
        "git push ~/x",
        "git push {a,b}",
        "git push # no",
        "git push !1",
        "GIT_SSH=evil git push",
        "git push =ls",
        "(git push)",
        "git push \N{NO-BREAK SPACE}x",
        "git push \N{FULLWIDTH SEMICOLON} rm",
        "",
        "   ",
        "git push " + "a" * 5000,
    ],
)
def test_what_a_shell_may_read_otherwise_is_no_plain_command(command):
    assert plain_words(command) is None
    assert not is_within({"command": {"shell": ["git push **", "git push"]}}, command=command)


@pytest.mark.parametrize(
    ("granted", "command", "does"),
    [
        ("git push", "git push", True),
        ("git push", "  git   push ", True),
        ("git push", "git push --force", False),
        ("git push", "git pushx", False),
        ("git push", "/opt/git push", False),
        ("git push *", "git push origin", True),
        ("git push *", "git push", False),
        ("git push *", "git push --force", False),
        ("git push *", "git push origin main", False),
        ("git push **", "git push", True),
        ("git push **", "git push origin main --force-with-lease=x", True),
        ("git push **", "git pull", False),
        ("npm run *", "npm run test:unit", True),
    ],
)
def test_a_command_is_granted_by_its_words(granted, command, does):
    assert is_within({"command": {"shell": granted}}, command=command) is does


@pytest.mark.parametrize(
    ("matching", "value", "does"),
    [
        ({"max": 5000}, 5000, True),
        ({"max": 5000}, 5001, False),
        ({"max": 5000}, -1, True),
        ({"min": 0, "max": 5000}, -1, False),
        ({"max": 5000}, True, False),
        ({"max": 5000}, None, False),
        ({"max": 5000}, [1], False),
        ({"max": "50.10"}, "50.1", True),
        ({"max": "50.10"}, "50.11", False),
        ({"max": 0.3}, 0.1 + 0.2, False),
        ({"max": 5000}, "1_0", False),
        ({"max": 5000}, " 1", False),
        ({"max": 5000}, "nan", False),
        ({"max": 5000}, "-inf", False),
        ({"max": 5000}, "\N{ARABIC-INDIC DIGIT ONE}", False),
        ({"min": 1}, 10**30, True),
        ({"prefix": "/srv/"}, "/srv/a/b", True),
        ({"prefix": "/srv/"}, "/srv", False),
        ({"prefix": "/srv/"}, "/srv/../etc/passwd", False),
        ({"prefix": "/srv/"}, "/srv/a\\..\\..\\x", False),
        ({"prefix": "/srv/"}, "/srv/a..b", True),
        ({"prefix": ["/srv/", "/opt/"]}, "/opt/x", True),
        ({"one_of": ["EUR", "CHF"]}, "EUR", True),
        ({"one_of": ["EUR", "CHF"]}, "eur", False),
        ({"one_of": [1]}, True, False),
        ({"one_of": [{"a": 1, "b": 2}]}, {"b": 2, "a": 1}, True),
        ({"pattern": "[A-Z]{2}[0-9]+"}, "AB12", True),
        ({"pattern": "[A-Z]{2}[0-9]+"}, "AB12\n", False),
        ({"pattern": "[A-Z]{2}[0-9]+"}, "xAB12", False),
        ({"pattern": "a|b"}, "ax", False),
        ({"pattern": "a|b"}, "b", True),
        ({"min": 1, "one_of": [1, 2]}, 2, True),
        ({"min": 1, "one_of": [0, 2]}, 0, False),
    ],
)
def test_a_value_is_within_or_not(matching, value, does):
    assert is_within({"x": matching}, x=value) is does
    assert not is_within({"x": matching}, y=value)


def test_no_pattern_takes_longer_than_its_text_is_long():
    started = time.process_time()

    assert not is_within({"x": {"pattern": "(a*)*(a|aa)+b"}}, x="a" * 9999)

    assert time.process_time() - started < 20  # an engine that goes back would not come to an end


def test_a_text_that_is_too_long_for_a_pattern_does_not_fit():
    assert not is_within({"x": {"pattern": "a*"}}, x="a" * 10_001)
