"""The forms of a card: what an edit form becomes, and what «always» asks for."""

from __future__ import annotations

import json
from typing import Any

from placet import function_tool
from placet.core.baseline import NOTHING
from placet.declare.tool import FunctionTool
from placet.desk.desk import DeskRequest
from placet.desk.pages.arguments import argument_table
from placet.desk.pages.cards import RequestCard
from placet.desk.pages.differences import Differences, care_of
from placet.desk.pages.form_data import Form
from placet.desk.pages.panels import Values, always_of, fill_edit, panel_of, read_edit, scope_sentences
from placet.desk.web.deciding import Always, call_of


@function_tool
def label(words: list[str]) -> str:
    """Print labels."""
    return ""


def card(arguments: dict[str, Any], tool: FunctionTool | None = label, **options: Any) -> RequestCard:
    request = DeskRequest(
        id="run_x_t2c0_t1c3_q2",
        run_id="run_x",
        agent="Office",
        tool="label",
        call="2.0/1.3",
        number=2,
        arguments_text=json.dumps(arguments),
        digest="d",
        kind=options.pop("kind", "approval"),
        status="pending",
        created_at=0.0,
    )
    return RequestCard(
        request=request,
        table=argument_table(arguments),
        steps=[],
        steps_left_out=0,
        tool=tool,
        why_not=options.pop("why_not", None),
        may_reject=True,
        who_may="ana",
        decision=None,
        decided_by_me=False,
        differs=Differences("", NOTHING, care_of(request, NOTHING)),
    )


def test_a_form_with_hundreds_of_fields_is_json() -> None:
    small = panel_of(card({"words": ["a"] * 10}), "edit")
    large = panel_of(card({"words": ["a"] * 500}), "edit")

    assert (small.as_json, large.as_json, large.only_json) == (False, True, True)
    assert large.json.startswith('{\n  "words": [')


def test_a_desk_without_the_agents_code_edits_json_and_leaves_the_check_to_the_tool() -> None:
    without_code = card({"words": ["a"]}, tool=None)

    panel = panel_of(without_code, "edit")
    reading = read_edit(without_code, Form([("j.", '{"words": 7}')]))

    assert panel.only_json
    assert (reading.arguments, reading.problems) == ({"words": 7}, {})


def test_what_is_too_large_for_a_page_is_not_in_it_and_cannot_be_sent_empty() -> None:
    large = card({"words": ["a" * 200_000]})

    panel = panel_of(large, "edit", as_json=True)
    reading = read_edit(large, Form([("as", "json")]))

    assert (panel.too_large, panel.json) == ("200 thousand characters", "")
    assert reading.problems


def test_what_somebody_wrote_stays_in_the_form_however_large_it_is() -> None:
    small = card({"words": ["a"]})
    written = '{"words": ["' + "a" * 200_000

    panel = panel_of(small, "edit", as_json=True)
    fill_edit(panel, small, read_edit(small, Form([("as", "json"), ("j.", written)])))

    assert (panel.too_large, panel.json) == ("", written)


def test_json_is_checked_by_the_tool_too() -> None:
    reading = read_edit(card({"words": ["a"]}), Form([("as", "json"), ("j.", '{"words": 7, "other": 1}')]))

    assert set(reading.problems) == {"words", ""}


def test_a_call_in_doubt_has_words_of_its_own_and_no_edit() -> None:
    doubt = card({"words": []}, kind="in_doubt")

    assert doubt.panels == [
        ("respond", "w", "It happened…"),
        ("reject", "r", "Give up…"),
        ("more", "", "Run it again…"),
    ]
    assert not doubt.can_be_approved
    assert panel_of(doubt, "respond").title == "It happened"


def test_who_may_only_say_no_gets_only_that_form() -> None:
    assert [verb for verb, _, _ in card({}, why_not="four eyes").panels] == ["reject"]


def test_the_scope_of_always_is_spelled_out() -> None:
    sentences = dict(scope_sentences(card({}), "more"))

    assert sentences["run"] == "In this run, every further call of label by Office is approved without asking."
    assert "all later runs" in sentences["agent"]
    assert "rejected" in dict(scope_sentences(card({}), "reject"))["run"]


def test_always_takes_its_bounds_from_the_form_and_its_values_from_what_was_shown() -> None:
    arguments = {"a": 1, "b": 2}

    always, problems = always_of(Values(always="agent", uses="3", until="1", same=["a", "zzz"]), arguments, 1000.0)

    assert problems == []
    assert isinstance(always, Always)
    assert (always.scope, always.uses, always.arguments) == ("agent", 3, {"a": 1})
    assert always.until is not None
    assert always.until.timestamp() == 4600.0
    assert always_of(Values(), arguments, 0.0) == (False, [])


def test_a_request_names_its_call() -> None:
    assert call_of("run_x_t2c0_t1c3_q2") == call_of("run_x:2.0/1.3#2") == ("2.0/1.3", 2)
