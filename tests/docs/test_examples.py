"""Every example in the documentation runs, and prints what the page says it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import MemoryStore, default_store, set_default_store
from placet.policy import parse_policy
from tests.docs.pages import PAGES, blocks_of, compile_example, name_of, run_examples

KNOWN_KINDS = {"", "python", "python on-host", "python not-run", "output", "text", "json", "toml", "yaml"}
"""Whoever writes another word after the backticks should know that nothing checks that block."""


@pytest.fixture(autouse=True)
def _a_store_of_its_own() -> object:
    """So that a page's runs and grants are not seen by another page."""
    before = default_store()
    set_default_store(MemoryStore())
    yield
    set_default_store(before)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_of_toml_with_rules_is_a_policy_that_loads(page: Path) -> None:
    for block in blocks_of(page):
        if block.info == "toml" and "[[rule]]" in block.text:  # there are other files in TOML, too
            parse_policy(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_the_page_run_and_print_what_it_shows(page: Path) -> None:
    ran = run_examples(page)

    assert ran == sum(block.info == "python" for block in blocks_of(page))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_that_is_not_run_is_code_for_another_library_and_compiles(page: Path) -> None:
    kinds = {block.info for block in blocks_of(page)}
    not_run = [block for block in blocks_of(page) if block.info == "python not-run"]

    assert kinds <= KNOWN_KINDS
    for block in not_run:
        compile_example(block)
        assert "placet" not in block.text


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_an_example_for_a_framework_runs_with_it(page: Path) -> None:
    """`tests/gate/hosts` runs it, in the framework's own environment."""
    kinds = {block.info for block in blocks_of(page)}
    framework = page.stem.removeprefix("gate-").replace("-", "_")
    file = Path(__file__).parents[1] / "gate" / "hosts" / f"check_{framework}.py"

    assert "python on-host" not in kinds or f'run_examples(DOCS / "{page.name}", "python on-host")' in file.read_text()


def test_an_example_that_prints_something_else_than_its_page_shows_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nimport asyncio\nawait asyncio.sleep(0)\nprint('yes')\n```\n\n```output\nno\n```\n")

    with pytest.raises(AssertionError, match=r"page\.md:7 shows"):
        run_examples(page)


def test_dots_in_an_output_block_stand_for_anything_on_their_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('run_123 waits')\nprint('end')\n```\n\n```output\nrun_… waits\nend\n```\n")

    assert run_examples(page) == 1
