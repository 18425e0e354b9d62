"""Workers die at every durable write, at any await, and whenever an outside killer likes: nothing is lost, nothing
happens twice, and the witness of it is a file that the tools themselves write to.
"""

from __future__ import annotations

import random

import pytest

from tests.desk.scenes import Witness
from tests.kills.crew import problems_with
from tests.kills.processes import Moment
from tests.kills.story import dead_at_each, killed_from_outside, moments_of

SEED = 20261115
KILLS = 100
"""On each store; `python -m tests.kills.sweep --kills 2000` for more."""
AWAITS = 24
"""So many of the awaits, drawn by the seed; the sweep takes them all."""
PATIENCE = 150.0


@pytest.mark.promise("P1", "P2", "P3", "P4", "P5", "P6", "P7")
async def test_workers_that_an_outside_killer_strikes_again_and_again_lose_nothing_and_do_nothing_twice(
    url: str, witness: Witness
) -> None:
    found = await killed_from_outside(url, witness, kills=KILLS, seed=SEED, patience=PATIENCE)

    assert found == []


@pytest.mark.promise("P1", "P2", "P3", "P4", "P5", "P6", "P7")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_process_that_dies_at_any_durable_write_is_gone_on_from(
    url: str, witness: Witness, moment: Moment
) -> None:
    count = await moments_of(url, witness, moment)
    witness.path.unlink()
    numbers = range(1, count)

    deaths = await dead_at_each(url, witness, moment, numbers, patience=PATIENCE)

    assert count > 15
    assert deaths >= count - 3, "some lives did not get so far"
    assert problems(witness) == []


@pytest.mark.promise("P1", "P2", "P3", "P4", "P5", "P6", "P7")
async def test_a_process_that_dies_at_any_await_is_gone_on_from(url: str, witness: Witness) -> None:
    count = await moments_of(url, witness, "await")
    witness.path.unlink()
    numbers = sorted(random.Random(SEED).sample(range(1, count), AWAITS))

    deaths = await dead_at_each(url, witness, "await", numbers, patience=PATIENCE)

    assert count > 100
    assert deaths >= AWAITS - 4, "some lives did not get so far"
    assert problems(witness) == []


def problems(witness: Witness) -> list[str]:
    runs = {line.split()[-1].split(":")[0] for line in witness.lines() if not line.startswith("complaint")}
    return problems_with(witness, sorted(runs))
