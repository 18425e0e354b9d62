"""The glossary names places in the code: they exist, and each word is explained once."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, prose_of
from tests.docs.test_tour import is_there

GLOSSARY = DOCS / "glossary.md"
_ROW = re.compile(
    r"^\| (?P<terms>[^|]+) \| (?P<meaning>[^|]+) \|(?: `(?P<file>[\w/]+\.py)(?:::(?P<name>[\w.]+))?`)? \|$"
)


def rows() -> list[re.Match[str]]:
    lines = [
        line for line in prose_of(GLOSSARY).splitlines() if line.startswith("| ") and "| in the code |" not in line
    ]
    found = [_ROW.match(line) for line in lines]

    assert [line for line, row in zip(lines, found, strict=True) if row is None] == []
    return [row for row in found if row is not None]


def test_every_class_function_and_file_that_the_glossary_names_exists() -> None:
    places = [(row["file"], row["name"]) for row in rows() if row["file"] is not None]

    assert len(places) > 30
    assert [place for place in places if not is_there(*place)] == []


def test_every_word_is_explained_once_and_in_the_order_of_the_alphabet() -> None:
    for part in prose_of(GLOSSARY).split("\n## ")[1:]:
        terms = [line.split("|")[1].strip() for line in part.splitlines() if line.startswith("| ")][1:]

        assert terms == sorted(terms, key=str.casefold)
    words = [word for row in rows() for word in row["terms"].split(", ")]
    assert len(words) == len(set(words))
