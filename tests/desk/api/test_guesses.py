"""Ids are not secret: whoever knows one, and guesses the rest, gets nothing; nor does who comes at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from placet.desk.access.accounts import Accounts
from placet.desk.access.secrets import new_secret
from placet.facts.errors import PlacetError
from placet.facts.events import AnyFact
from placet.ports import RecordStep
from placet.stores.opening import open_store
from placet.stores.sqlite import SQLiteStore
from tests.support.desk_server import PASSWORD


@pytest.fixture
async def accounts(tmp_path: Path) -> AsyncIterator[Accounts]:
    async with SQLiteStore(tmp_path / "placet.db") as store:
        yield Accounts(store)


async def test_the_id_of_a_token_a_session_or_an_invitation_with_another_secret_opens_nothing(
    accounts: Accounts,
) -> None:
    user = await accounts.add_user("ana", "reviewer", password=PASSWORD)
    text, token = await accounts.add_token("ana", "ci")
    _, session = await accounts.open_session(user)
    key = await accounts.invite("ana")
    wrong = new_secret()

    assert await accounts.actor_of_token(text) is not None
    for guess in ("", wrong, token.digest, text[:-1]):
        assert await accounts.actor_of_token(f"placet_{token.id}_{guess}") is None
        assert await accounts.actor_of_cookie(f"{session.id}.{guess}") is None
        assert await accounts.invitation(f"{key.partition('.')[0]}.{guess}") is None
    assert await accounts.actor_of_cookie(session.id) is None
    assert await accounts.actor_of_token("") is None


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_an_id_that_no_store_can_hold_is_nobodys(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres").store_database() if kind == "postgresql" else f"sqlite:///{tmp_path}/x.db"
    async with open_store(url) as store:
        accounts = Accounts(store)

        for odd in ("\x00", "a\x00b", "\ud800", "é", "\n", "x" * 100_000):
            assert await accounts.user(odd) is None
            assert await accounts.actor_of_cookie(f"{odd}.x") is None
            assert await accounts.actor_of_token(f"placet_{odd}_x") is None
            assert await accounts.invitation(f"{odd}.x") is None


@pytest.mark.parametrize("name", [None, "ben"], ids=["the first admin's", "a user's"])
async def test_of_many_who_follow_one_link_at_once_and_later_one_becomes_somebody(
    accounts: Accounts, name: str | None
) -> None:
    if name is not None:
        await accounts.add_user(name, "viewer")
    key = await accounts.first_admin_key() if name is None else await accounts.invite(name)
    assert key is not None

    async def follow(number: int) -> bool:
        try:
            await accounts.accept(key, PASSWORD, name=f"user-{number}")
        except PlacetError:
            return False
        return True

    became = [*await asyncio.gather(*(follow(number) for number in range(4))), await follow(9)]

    assert sum(became) == 1
    assert len(await accounts.users()) == 1


class OnlyTogether(SQLiteStore):
    """A store that changes who may what only when two are about to."""

    both: asyncio.Barrier

    async def change_records(self, steps: Sequence[RecordStep], facts: Sequence[AnyFact], **options: Any) -> bool:
        await self.both.wait()
        return await super().change_records(steps, facts, **options)


async def test_two_who_follow_the_first_link_in_the_same_moment_do_not_both_become_admins(tmp_path: Path) -> None:
    path, both = tmp_path / "placet.db", asyncio.Barrier(2)
    async with SQLiteStore(path) as store, OnlyTogether(path) as here, OnlyTogether(path) as there:
        key = await Accounts(store).first_admin_key()
        assert key is not None
        here.both = there.both = both
        async with asyncio.timeout(120):
            came = await asyncio.gather(
                Accounts(here).accept(key, PASSWORD, name="ana"),
                Accounts(there).accept(key, PASSWORD, name="mallory"),
                return_exceptions=True,
            )
        users = await Accounts(store).users()

    assert len(users) == 1
    assert sorted(type(each).__name__ for each in came) == ["AccessDenied", "User"]
