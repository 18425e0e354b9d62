"""Programs written as users of the SDK write them print the same on both libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from placet.agents.porting import port

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
SECONDS = 120


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_a_program_prints_the_same_after_its_imports_were_changed(program, on_the_sdk, tmp_path):
    moved = tmp_path / program.name
    moved.write_text(port(program.read_text()).after)
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, str(moved)], capture_output=True, text=True, check=False, timeout=SECONDS
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == on_the_sdk(program)
    assert done.stdout.strip()
