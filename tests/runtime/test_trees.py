"""Whatever the tree of nested runs and the order of decisions: each effect at most once, rejected never, all end."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.trees import a_tree, check, check_seed

pytestmark = pytest.mark.promise("P4", "P7", "P13")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_a_random_tree_decided_in_a_random_order_with_round_trips_does_what_was_decided_once(data):
    def number(low, high):
        return data.draw(st.integers(low, high))

    tree = a_tree(number)

    asyncio.run(check(tree, number))


@pytest.mark.parametrize("seed", range(40))
async def test_the_tree_of_a_seed_does_what_was_decided_once(seed):
    await check_seed(seed)
