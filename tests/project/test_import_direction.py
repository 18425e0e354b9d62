"""Imports go downwards only, without cycles: the contracts stand in pyproject.toml."""

from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[2]


def test_imports_keep_the_contracts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    exit_code = lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True)

    assert exit_code == 0, capsys.readouterr().out
