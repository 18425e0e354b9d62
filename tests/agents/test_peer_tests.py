"""The SDK's own tests: the page about them says what `judged.toml` says, and a slice of them does as it says.

All of them take minutes: `python3 dev.py peer-tests` runs them, and writes the page.
"""

from __future__ import annotations

import asyncio

import pytest

import dev
from tests.peer_tests.judged import GUIDE, KINDS, PAGE, differences, guide, judged, page, surprises
from tests.peer_tests.workplace import Options, listed, run

SLICE = ("test_run_context_wrapper.py", "test_run_context_approvals.py", "test_tool_origin.py")
"""Files of the SDK whose tests end quickly: two dozen tests that pass, and some that do not."""


def test_every_test_is_judged_once_and_is_one_of_the_list():
    tests = [test for each in differences() for test in each.tests]

    assert len(tests) == len(set(tests))
    assert judged().keys() <= set(listed())
    assert {each.kind for each in differences()} <= set(KINDS)


def test_the_page_is_what_the_judgements_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python3 dev.py peer-tests"
    assert GUIDE.read_text(encoding="utf-8") == guide(), "run: python3 dev.py peer-tests"


@pytest.mark.timeout(600)  # a busy machine starts three processes slowly
async def test_a_slice_of_the_sdks_own_tests_does_as_the_page_says():
    source = await asyncio.to_thread(dev.peer_source)
    found = await asyncio.to_thread(run, Options(source, SLICE))

    assert surprises(found) == []
    assert sum(each.outcome == "passed" for each in found.values()) >= 15
