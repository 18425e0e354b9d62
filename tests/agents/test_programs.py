"""Programs written as users of the SDK write them print the same on both libraries."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from placet.agents.porting import port
from placet.testing.provider import FakeProvider

HERE = Path(__file__).parent / "programs"
PROGRAMS = sorted(HERE.glob("*.py"))
SERVED = sorted((HERE / "served").glob("*.py"))
SECONDS = 120


def moved(program: Path, folder: Path, **variables: str) -> str:
    """What the program prints here, once its imports were changed."""
    changed = folder / program.name
    changed.write_text(port(program.read_text()).after)
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, str(changed)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_a_program_prints_the_same_after_its_imports_were_changed(program, on_the_sdk, tmp_path):
    printed = moved(program, tmp_path)

    assert printed == on_the_sdk(program)
    assert printed.strip()


@pytest.mark.parametrize("program", SERVED, ids=[program.stem for program in SERVED])
async def test_a_program_prints_the_same_where_a_strict_provider_answers_it(program, on_the_sdk, tmp_path):
    """The provider refuses what the real service refuses: what each library sends is checked, too."""
    steps = json.loads(program.with_suffix(".json").read_text())
    printed = []
    for run in (lambda **given: moved(program, tmp_path, **given), lambda **given: on_the_sdk(program, **given)):
        provider = FakeProvider(steps)
        async with provider.serve() as url:
            variables = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-test"}
            printed.append(await asyncio.to_thread(lambda run=run, given=variables: run(**given)))
        assert provider.refusals == []
        provider.assert_complete()

    assert printed[0] == printed[1]
    assert printed[0].strip()
