"""Generated teams keep what is promised: nested agents, handoffs, guardrails and a session whose writes fail, together.

`python -m tests.teams.sweep` looks much further.
"""

import pytest

from tests.teams.sweep import check_seed

SEEDS_IN_ONE = 30


@pytest.mark.promise("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P13", "P15", "P17")
@pytest.mark.parametrize("first", range(0, 180, SEEDS_IN_ONE))
async def test_the_teams_of_these_seeds_keep_every_promise_streamed_and_not(first: int) -> None:
    for seed in range(first, first + SEEDS_IN_ONE):
        await check_seed(seed)
