"""The help texts on the page are those of the command."""

from __future__ import annotations

import pytest

from placet.cli.main import main
from tests.cli.commands import every_command
from tests.docs.pages import DOCS, blocks_of

PAGE = DOCS / "cli.md"


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*command.split(), "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", every_command())
def test_the_page_shows_the_help_text_as_it_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [block.text for block in blocks_of(PAGE) if block.info == "text"]

    assert help_of(command, capsys) in shown
