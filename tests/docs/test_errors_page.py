"""The page on errors lists the whole tree, each with its code and its parent."""

from __future__ import annotations

import re

import placet
from placet.facts import errors
from tests.docs.pages import DOCS, prose_of

_ROW = re.compile(r"^\| `(?P<name>\w+)` \| `(?P<code>\w+)` \| (?:`(?P<parent>\w+)`|—) \|", re.MULTILINE)


def classes() -> list[type[errors.PlacetError]]:
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, errors.PlacetError)]


def test_the_table_lists_every_error_with_its_code_and_its_parent() -> None:
    rows = {(match["name"], match["code"], match["parent"]) for match in _ROW.finditer(prose_of(DOCS / "errors.md"))}

    assert rows == {
        (each.__name__, each.code, None if each is errors.PlacetError else each.__bases__[0].__name__)
        for each in classes()
    }


def test_what_the_page_says_about_where_to_import_errors_from_is_true() -> None:
    only_in_errors = {each.__name__ for each in classes()} - set(placet.__all__)
    sentence = re.search(r"Only (.+) are not in `placet`", prose_of(DOCS / "errors.md"))

    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence[1])) == only_in_errors
