"""Links inside the documentation lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, anchors_of, links_of, name_of


def problem_with(link: str, page: Path) -> str | None:
    """Why an internal link leads nowhere, or None."""
    if link.startswith(("https://", "mailto:")):
        return None
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"{link}: there is no such file"
    if anchor and anchor not in anchors_of(target):
        return f"{link}: {target.name} has no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_internal_link_of_the_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    problems = [found for link in links_of(page) if (found := problem_with(link, page)) is not None]

    assert problems == []


def test_a_link_to_a_file_or_a_heading_that_is_not_there_is_found() -> None:
    page = DOCS / "README.md"

    assert problem_with("nowhere.md", page) == "nowhere.md: there is no such file"
    assert problem_with("approvals.md#nothing-of-the-kind", page) is not None


def test_the_index_leads_to_every_page() -> None:
    listed = {link.partition("#")[0] for link in links_of(DOCS / "README.md")}

    assert {page.name for page in DOCS.glob("*.md") if page.name != "README.md"} <= listed


def test_every_picture_is_shown_on_some_page() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in links_of(page)}

    assert {picture.resolve() for picture in (DOCS / "img").iterdir()} <= shown
