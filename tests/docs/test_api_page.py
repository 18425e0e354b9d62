"""The reference on the page is what the API says of itself."""

from __future__ import annotations

from tests.docs.api_reference import PAGE, whole_page


def test_the_reference_is_made_from_the_description() -> None:
    assert PAGE.read_text("utf-8") == whole_page(), "run: python -m tests.docs.api_reference"
