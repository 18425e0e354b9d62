"""Words for people, and text that cannot pretend to be something else."""

from __future__ import annotations

import pytest

from placet.desk.pages.text_format import (
    age,
    agent_steps,
    date_and_time,
    hides_something,
    json_text,
    shortened,
    size,
    span,
    visible,
    visible_text,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("a\u202eb", 'a<span class="mark" title="U+202E right-to-left override">U+202E</span>b'),
        ("a\u200bb", 'a<span class="mark" title="U+200B zero width space">U+200B</span>b'),
        ("a\x00b", 'a<span class="mark" title="U+0000 control character">U+0000</span>b'),
        ("a\xa0b", 'a<span class="mark" title="U+00A0 no-break space">U+00A0</span>b'),
        ("<\u202e>", '&lt;<span class="mark" title="U+202E right-to-left override">U+202E</span>&gt;'),
        ("שלום", "שלום"),
        ("a\u2800b", 'a<span class="mark" title="U+2800 braille pattern blank">U+2800</span>b'),
        ("a\u3164b", 'a<span class="mark" title="U+3164 hangul filler">U+3164</span>b'),
        ("\uffa0", '<span class="mark" title="U+FFA0 halfwidth hangul filler">U+FFA0</span>'),
        ("a\ufe01b", 'a<span class="mark" title="U+FE01 variation selector-2">U+FE01</span>b'),
        ("a\ufe0f", 'a<span class="mark" title="U+FE0F variation selector-16">U+FE0F</span>'),
        ("a\U000e0100", 'a<span class="mark" title="U+E0100 variation selector-17">U+E0100</span>'),
        ("☀\ufe0f", "☀\ufe0f"),
        (
            "p\u0430ypal",
            'p<span class="mark" title="U+0430 cyrillic small letter a, among letters of another alphabet">\u0430 U+0430</span>ypal',  # noqa: E501 - one text
        ),
        ("Привет, world и κόσμος", "Привет, world и κόσμος"),
        ("東京 Tower の", "東京 Tower の"),
    ],
)
def test_text_is_escaped_and_what_does_not_show_itself_is_marked(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_on_one_line_a_line_break_is_a_quiet_sign_and_no_alarm() -> None:
    assert visible("a\nb", one_line=True) == 'a<span class="break" title="line break">↵</span>b'


def test_where_no_markup_may_stand_escapes_stand_for_what_hides() -> None:
    assert visible_text("a\u202eb\nc") == "a\\u202eb\\nc"


def test_json_for_eyes_keeps_letters_and_escapes_what_hides() -> None:
    assert json_text({"name": "Zoë \u202e"}, indent=None) == '{"name": "Zoë \\u202e"}'
    assert json_text("a\u2800\u3164\n☀\ufe0f") == '"a\\u2800\\u3164\\n☀\ufe0f"'


@pytest.mark.parametrize(
    ("text", "hides"), [("a\nb\tc", False), ("שלום", False), ("a\u200b", True), ("a\rb", True), ("a\u2800", True)]
)
def test_a_field_would_hide_some_texts(text: str, hides: bool) -> None:
    assert hides_something(text) is hides


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 ms"),
        (0.0123, "12 ms"),
        (1, "1 s"),
        (2.44, "2.4 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "60 min"),
        (3660, "1 h 1 min"),
        (40 * 3600, "40 h"),
        (4 * 86400, "4 days"),
    ],
)
def test_spans_are_said_in_one_or_two_words(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_ages_sizes_moments_and_short_texts() -> None:
    assert (age(100.0, 102.0), age(100.0, 190.0)) == ("just now", "2 min ago")
    assert (size(12), size(12_345), size(2_000_000)) == (
        "12 characters",
        "12 thousand characters",
        "2.0 million characters",
    )
    assert date_and_time(0.0) == "1 Jan 1970, 00:00:00 UTC"
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab…")


def test_the_address_of_an_agent_is_read_as_the_way_to_it() -> None:
    assert agent_steps("Support") == ["Support"]
    assert agent_steps("Support>Billing/ask_clerk(Clerk)") == ["Support", "Billing", "Clerk"]
    assert agent_steps("A%2FB") == ["A/B"]
