"""The words by which requests are found: cut up alike, whoever writes them."""

from __future__ import annotations

import msgspec
import pytest

from placet.core.index import RequestRecord
from placet.core.words import MAX_ASKED, MAX_WORDS, words_asked, words_in, words_of

REQUEST = RequestRecord(
    id="r1",
    run_id="run_7",
    call="1.0",
    number=1,
    kind="approval",
    agent="Support",
    tool="refund_order",
    arguments_text='{"order":"A-77","lines":[{"note":"Größe XL"}],"ok":true,"none":null}',
    digest="d",
    created_at=1.0,
    decided_by="ana@example.com",
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Refund_Order", ["refund", "order"]),
        ("Straße ÄRGER é", ["strasse", "arger", "e"]),
        ("a\u0308rger", ["arger"]),
        ("12.5 A-77", ["12", "5", "a", "77"]),
        ("返金 한국", ["返", "金", "한", "국"]),
        ("'; DROP TABLE \" * : & |", ["drop", "table"]),
        ("🙂 — …", []),
    ],
)
def test_words_are_small_without_accents_and_without_signs_of_any_query_language(text: str, words: list[str]) -> None:
    assert list(words_in(text)) == words


def test_a_request_is_known_by_its_tool_people_and_the_names_and_values_of_its_arguments() -> None:
    found = words_of(REQUEST, "carol")

    assert {"refund", "support", "ana", "77", "lines", "note", "grosse", "true", "carol", "7"} <= set(found)


def test_large_and_deep_arguments_give_a_bounded_number_of_words() -> None:
    many = ",".join(f'"field{n}":"value{n}"' for n in range(10_000))
    deep = '{"a":' * 200 + "1" + "}" * 200
    for text in (f"{{{many}}}", deep, "x" * 10_000_000, "not json at all"):
        assert len(words_of(msgspec.structs.replace(REQUEST, arguments_text=text))) <= MAX_WORDS
    assert len(words_asked(" ".join(f"w{n}" for n in range(100)))) == MAX_ASKED
