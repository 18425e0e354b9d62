"""A part of an id means the one that has it: never one of several, never nothing."""

from __future__ import annotations

import pytest

from placet import NotPending
from placet.core.short_ids import find_id

FIRST, SECOND = "run_01aaaa_t1c0_q1", "run_01aabb_t1c0_q1"
NESTED = "run_01aabb_t1c1_tt10c0_q1"
IDS = [FIRST, SECOND, NESTED]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (FIRST, FIRST),
        ("run_01aaa", FIRST),
        ("01aaa", FIRST),
        ("aabb_t1c0_q1", SECOND),
        ("tt10c0_q1", NESTED),
        ("run_01aaaa:1.0#1", FIRST),
        ("run_01aaaa:1.0", FIRST),  # what is left of an old link whose «#1» a browser took for an anchor
        ("10.0#1", NESTED),
    ],
)
def test_a_whole_id_or_a_beginning_or_end_that_no_other_has(typed: str, meant: str) -> None:
    assert find_id(typed, IDS) == meant


def test_a_whole_id_means_itself_also_where_others_begin_with_it() -> None:
    assert find_id("run_01a", ["run_01a", "run_01ab"], "run") == "run_01a"


def test_what_several_have_is_refused_and_all_of_them_are_listed() -> None:
    with pytest.raises(NotPending, match="fits 2 requests: write more of it") as refused:
        find_id("t1c0_q1", IDS)

    assert list(refused.value.pending) == [FIRST, SECOND]
    assert FIRST in str(refused.value)
    assert SECOND in str(refused.value)


def test_of_very_many_only_some_are_named() -> None:
    with pytest.raises(NotPending, match="and 92 more"):
        find_id("run_0", [f"run_{number:03}" for number in range(100)], "run")


@pytest.mark.parametrize("typed", ["", "q2", "_t1c0", "xyz", "RUN_01AAAA"])
def test_what_none_has_is_not_there(typed: str) -> None:
    with pytest.raises(NotPending, match="There is no request"):
        find_id(typed, IDS)
