"""The API against its own description, for a while: `python -m tests.desk.api.fuzz` does it for longer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.desk.api.openapi import TAGS
from tests.desk.api.fuzz import fuzz

SEED = int(os.environ.get("PLACET_SEED", "20260101"))
BRIEFLY = {
    "coverage,fuzzing": ["approvals", "grants"],
    "fuzzing": ["runs", "holds", "people", "subscriptions", "gate", "aap", "policy", "around"],
}
"""Where people decide, each bound of each field is tried, too."""


@pytest.mark.parametrize("phases", BRIEFLY)
def test_every_answer_is_as_described_and_none_is_a_500(phases: str, tmp_path: Path) -> None:
    code, said = fuzz(tmp_path, examples=3, seed=SEED, phases=phases, tags=BRIEFLY[phases], url="sqlite://:memory:")

    assert code == 0, f"seed {SEED}:\n{said}"
    assert "passed" in said


def test_no_part_of_the_description_is_left_out() -> None:
    assert sorted(tag for tags in BRIEFLY.values() for tag in tags) == sorted(TAGS)
