"""One page says how to install; the others link to it. No page sends its readers to a registry by name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import DOCS

ROOT = DOCS.parent
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
_REGISTRY = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.com|ghcr\.io|docker\.io")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_that_speaks_of_installing_links_to_the_one_that_says_how(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    speaks = "pip install" in text or re.search(r"\bextra `\w+`", text) is not None

    assert not speaks or page.name == "installing.md" or "installing.md" in text
    assert "pip install 'placet[" not in text or page.name == "installing.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_registry_s_host(page: Path) -> None:
    assert _REGISTRY.search(page.read_text(encoding="utf-8")) is None


def test_every_extra_stands_on_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (DOCS / "installing.md").read_text(encoding="utf-8")

    named = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)

    assert sorted(named) == sorted(project["optional-dependencies"])
