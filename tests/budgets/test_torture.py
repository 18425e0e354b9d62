"""One budget under many processes that die: a slice of what `python -m tests.budgets.torture` does with a thousand."""

from __future__ import annotations

import pytest

from tests.budgets.torture import Plan, torture
from tests.desk.scenes import Witness

PATIENCE = 150.0


@pytest.mark.timeout(300)
async def test_processes_that_die_around_their_claims_never_overspend_and_the_logs_explain_what_is_left(
    any_url: str, witness: Witness
) -> None:
    plan = Plan(calls=48, processes=4, kills=3, seed=20261119)

    found = await torture(any_url, witness.path, plan, PATIENCE)

    assert found == []
