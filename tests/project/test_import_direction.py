"""Imports go downwards only, without cycles: the contracts stand in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_imports_keep_the_contracts() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--config", "pyproject.toml", "--no-cache"]

    # A process of its own: the linter silences the loggers of the process that it runs in.
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603

    assert found.returncode == 0, found.stdout
