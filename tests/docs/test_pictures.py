"""The pictures can be read by everybody: in light and in dark, and by those who hear them read out."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS

PICTURES = sorted(set((DOCS / "img").glob("*.svg")) - set((DOCS / "img").glob("bench-*.svg")))
"""Those drawn by hand; the benchmark draws its own."""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_has_a_title_a_description_and_colours_for_the_dark(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()  # noqa: S314  # our own file

    assert root.findtext(f"{SVG}title")
    assert root.findtext(f"{SVG}desc")
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_fetches_nothing_from_elsewhere(picture: Path) -> None:
    text = picture.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")

    assert "http" not in text
    assert "<script" not in text
