"""Votes are counted right under any interleaving: 300 generated offices, and some of them on each database."""

from __future__ import annotations

import pytest

from placet.stores.opening import open_store
from tests.ballots.play import check_in_memory, check_on

pytestmark = pytest.mark.promise("P24")


@pytest.mark.parametrize("first", range(0, 300, 20))
async def test_never_one_too_few_and_never_one_too_many(first: int) -> None:
    for seed in range(first, first + 20):
        await check_in_memory(seed)


async def test_the_same_on_each_database_with_two_desks(any_url: str) -> None:
    store = open_store(any_url)
    for seed in range(15):
        await check_on(store, seed)
    await store.close()
