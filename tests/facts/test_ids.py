"""Ids that travel: minted from where a call stands, readable in the first form too, and keys that never change."""

from __future__ import annotations

import itertools
import re

import pytest

from placet.facts import ids

RUN = ids.mint("run")
LOCALS = [f"{turn}.{index}" for turn in (1, 2, 9, 10, 11, 99, 100) for index in (0, 1, 9, 10)]
NESTED = ["/".join(steps) for steps in itertools.product(["1.0", "2.11", "10.3"], LOCALS[:5])]


def test_ids_are_made_of_letters_digits_and_underscores_only() -> None:
    for local in [*LOCALS, *NESTED]:
        assert re.fullmatch(r"\w+", ids.call_id(RUN, local), re.ASCII)
        assert re.fullmatch(r"\w+", ids.request_id(RUN, local, 12), re.ASCII)


def test_every_place_has_an_id_of_its_own_that_leads_back_to_it() -> None:
    requests = {ids.request_id(RUN, local, number) for local in [*LOCALS, *NESTED] for number in (1, 2, 11)}

    assert len(requests) == 3 * len({*LOCALS, *NESTED})
    for local in [*LOCALS, *NESTED]:
        assert ids.split_call_id(ids.call_id(RUN, local)) == (RUN, local)
        assert ids.split_request_id(ids.request_id(RUN, local, 11)) == (RUN, local, 11)


def test_ids_of_one_run_sort_as_its_calls_and_questions_stand() -> None:
    requests = [ids.request_id(RUN, local, number) for local in LOCALS for number in (1, 2, 9, 10)]

    assert requests == sorted(requests)


def test_ids_of_the_first_form_are_read() -> None:
    assert ids.split_call_id("run_x:2.0/1.3") == ("run_x", "2.0/1.3")
    assert ids.split_request_id("run_x:2.0/1.3#12") == ("run_x", "2.0/1.3", 12)
    assert ids.key_of_request("run_x:2.0/1.3#12") == "run_x:2.0/1.3#12"


def test_keys_are_those_of_the_first_version_for_ever() -> None:
    """Receivers of tools, and stores on which older workers are at work, know calls by them."""
    assert ids.call_key("run_x", "12.0/1.3") == "run_x:12.0/1.3"
    assert ids.request_key("run_x", "12.0/1.3", 2) == "run_x:12.0/1.3#2"
    assert ids.key_of_request(ids.request_id("run_x", "12.0/1.3", 2)) == "run_x:12.0/1.3#2"


@pytest.mark.parametrize(
    "text",
    [
        "", "run_x", "call_abc", "t1c0", "run_x_t1c0", "run_x_t01c0_q1", "run_x_tt1c0_q1", "run_x_t1c0_q", "x_t1c0_q1",
        "run_x_t1c0_q1 ", "run_x_t1c0_q1_q1", "run_x:1.0", "run_x:1.0#", "run_x:1.0#x", "run_x:#1", "run_x:1.0#١",
        "run_x\x00_t1c0_q2\n", "run_" + "_t1c0" * 2000 + "_q1",
    ],
)  # fmt: skip
def test_only_the_very_text_that_would_be_minted_is_a_request(text: str) -> None:
    assert ids.split_request_id(text) is None
    assert ids.key_of_request(text) == text


@pytest.mark.parametrize("label", ["call_abc", "", "a:b", "toolu:1.0", ":1.0", "fc_run_x:1", "run_x", "x_t1c0"])
def test_a_provider_s_label_is_no_call_of_ours(label: str) -> None:
    assert ids.split_call_id(label) == ("", label)


def test_a_run_cannot_be_called_like_a_call() -> None:
    assert ids.can_be_run_id("run_nightly_2026")
    assert ids.can_be_run_id("run_t1c0")
    assert not ids.can_be_run_id("run_nightly_t1c0")
    assert not ids.can_be_run_id("run_nightly_t1c0_q1")
    assert not ids.can_be_run_id("nightly")
