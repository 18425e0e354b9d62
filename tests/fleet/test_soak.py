"""One minute of the soak. `python3 dev.py soak` does ten, with any seed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.fleet.soak import Plan, Soak, contradictions, leftovers, report
from tests.support.postgres import PostgresServer


@pytest.mark.promise("P4", "P5")
@pytest.mark.timeout(400)
async def test_a_minute_of_kills_freezes_and_a_restarted_database_costs_time_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    monkeypatch.setenv("PLACET_SOAK_WITNESS", "")
    server = PostgresServer()  # one of its own: it is restarted
    began = time.monotonic()
    try:
        soak = Soak(Plan(seconds=60, seed=seed, workers=4, patience=240), server, tmp_path)
        tally = await soak.run()
        found = await contradictions(soak)
        left = await leftovers(soak)
    finally:
        server.close()
    with capsys.disabled():
        print(f"\n{report(soak, time.monotonic() - began)}")  # noqa: T201  # seeds are printed

    assert found == [], f"seed {seed}"
    assert tally.done["database restarted"] == 1
    assert tally.done["killed"] >= 2
    assert tally.done["frozen and thawed"] >= 2
    assert len(tally.runs) > 300, "too few runs to prove anything"
    assert left["jobs"] < len(tally.runs) / 5, "jobs that have ended are deleted; those of killed workers may be left"
