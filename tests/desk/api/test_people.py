"""Users and links: bound to the user as they are, single, listed, revocable, and all of it in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
import pytest

from placet.core.log import read_lines
from placet.core.operators import operators_of
from placet.desk.access.accounts import Accounts
from placet.desk.access.people import DecisionScope
from placet.facts.errors import AccessDenied, PlacetError, UserError
from placet.facts.events import AnyFact, InvitationChanged, PasswordChanged, TokenChanged, UserChanged
from placet.ports import OPERATORS, DeskStore
from placet.service.audit import verify
from placet.service.index_audit import operators_problem
from placet.service.records import records
from placet.stores.opening import open_store
from placet.testing import ManualClock
from tests.desk.api.scenes import problem
from tests.support.desk_server import PASSWORD, RunningDesk


@pytest.fixture(params=["sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DeskStore]:
    is_postgres = request.param == "postgresql"
    url = request.getfixturevalue("postgres").store_database() if is_postgres else f"sqlite:///{tmp_path}/placet.db"
    async with open_store(url) as found:
        yield found


@pytest.fixture
def accounts(store: DeskStore) -> Accounts:
    return Accounts(store)


async def is_refused(accounts: Accounts, key: str) -> bool:
    """Whether a link leads nowhere, looked at and followed."""
    try:
        await accounts.accept(key, PASSWORD)
    except AccessDenied:
        return await accounts.invitation(key) is None
    return False


def key_in(link: str) -> str:
    return parse_qs(urlsplit(link).query)["key"][0]


async def follow(client: httpx2.AsyncClient, link: str) -> int:
    """Follow a link and set a password, as a browser does."""
    form = {"key": key_in(link), "password": PASSWORD, "again": PASSWORD}
    return (await client.post("/invitation", data=form)).status_code


# -- links ------------------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Accounts], Awaitable[object]]] = {
    "removed": lambda accounts: accounts.remove_user("ben"),
    "given another role": lambda accounts: accounts.change_user("ben", role="viewer"),
    "given other patterns": lambda accounts: accounts.change_user("ben", decides=()),
    "switched off": lambda accounts: accounts.change_user("ben", is_active=False),
    "given a password": lambda accounts: accounts.set_password("ben", PASSWORD),
    "given a newer link": lambda accounts: accounts.invite("ben"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_link_is_void_when_its_user_was(accounts: Accounts, store: DeskStore, change: str) -> None:
    await accounts.add_user("root", "admin")
    await accounts.add_user("ben", "admin")
    key = await accounts.invite("ben", by="root")
    assert await accounts.invitation(key) is not None
    await CHANGES[change](accounts)
    before = await accounts.user("ben")

    assert await is_refused(accounts, key)
    assert await accounts.user("ben") == before
    assert await store.record("invitation", key.partition(".")[0]) is None


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "given a newer link"])
async def test_a_link_that_is_put_back_after_its_user_was_is_void(
    accounts: Accounts, store: DeskStore, change: str
) -> None:
    await accounts.add_user("root", "admin")
    await accounts.add_user("ben", "admin")
    key = await accounts.invite("ben", by="root")
    record = await store.record("invitation", key.partition(".")[0])
    assert record is not None
    await CHANGES[change](accounts)
    await store.add_record(record)  # as by a backup of a part of the store
    before = await accounts.user("ben")

    assert await is_refused(accounts, key)
    assert await accounts.invitations() == []
    assert await accounts.user("ben") == before


async def test_a_link_does_not_come_back_with_a_user_of_the_same_name(accounts: Accounts) -> None:
    await accounts.add_user("ben", "reviewer", decides=())
    key = await accounts.invite("ben")
    await accounts.remove_user("ben")
    await accounts.add_user("ben", "viewer", decides=())

    assert await is_refused(accounts, key)
    found = await accounts.user("ben")
    assert found is not None
    assert (found.role, found.decides, found.password) == ("viewer", (), None)


async def test_a_link_keeps_what_its_user_may_and_an_older_one_is_void_after_the_newer_was_used(
    accounts: Accounts,
) -> None:
    await accounts.add_user("ben", "reviewer", decides=(DecisionScope(tool="refund"),))
    old, new = await accounts.invite("ben"), await accounts.invite("ben")
    user = await accounts.accept(new, PASSWORD)

    assert (user.role, user.decides) == ("reviewer", (DecisionScope(tool="refund"),))
    assert await is_refused(accounts, old)
    assert await is_refused(accounts, new)


async def test_a_link_that_is_followed_while_its_user_is_removed_brings_nobody_back(accounts: Accounts) -> None:
    await accounts.add_user("root", "admin")
    for turn in range(5):
        await accounts.add_user(f"ben{turn}", "admin")
        key = await accounts.invite(f"ben{turn}")
        await asyncio.gather(accounts.accept(key, PASSWORD), accounts.remove_user(f"ben{turn}"), return_exceptions=True)

        assert await accounts.user(f"ben{turn}") is None


async def test_the_first_admins_link_is_void_as_soon_as_there_is_somebody(accounts: Accounts) -> None:
    key = await accounts.first_admin_key()
    assert key is not None
    await accounts.add_user("ana", "viewer")

    assert await is_refused(accounts, key)
    assert [user.name for user in await accounts.users()] == ["ana"]


async def test_the_first_admins_link_works_while_there_are_only_guests(accounts: Accounts) -> None:
    key = await accounts.first_admin_key()
    assert key is not None
    await accounts.add_user("jobs", "guest")
    again = await accounts.first_admin_key()
    assert again is not None
    with pytest.raises(UserError, match="a user jobs already"):
        await accounts.accept(again, PASSWORD, name="jobs")
    made = await accounts.accept(again, PASSWORD, name="ana")

    assert (made.name, made.role) == ("ana", "admin")
    assert await accounts.first_admin_key() is None


@pytest.mark.parametrize("becomes", ["added", "changed"])
async def test_a_first_admins_link_that_people_made_void_says_so(accounts: Accounts, becomes: str) -> None:
    await accounts.add_user("jobs", "guest")
    key = await accounts.first_admin_key()
    assert key is not None
    if becomes == "added":
        await accounts.add_user("ana", "viewer")
    else:
        await accounts.change_user("jobs", role="viewer")

    with pytest.raises(AccessDenied, match="this desk has users by now"):
        await accounts.accept(key, PASSWORD, name="zoe")
    assert await accounts.invitations() == []


async def test_a_guest_gets_no_link(any_server: RunningDesk) -> None:
    root = await any_server.person("root", "admin")
    made = await root.post("/v1/users", json={"name": "jobs", "role": "guest"})
    refused = await root.post("/v1/users/jobs/invitation", json={})

    assert (made.status_code, made.json()["link"]) == (201, None)
    assert "guests have tokens" in problem(refused, 422, "user_error")["detail"]
    assert (await root.get("/v1/invitations")).json()["data"] == []


async def test_the_page_of_a_void_first_link_says_why(any_server: RunningDesk) -> None:
    key = await any_server.web.accounts.first_admin_key()
    await any_server.person("root", "admin")
    page = await any_server.client().get(f"/invitation?key={key}")

    assert page.status_code == 404
    assert "this desk has users by now" in page.text


async def test_nobody_gets_a_link_who_is_not_there_or_is_switched_off(accounts: Accounts) -> None:
    await accounts.add_user("ben", "viewer")
    await accounts.change_user("ben", is_active=False)

    for name in ("ben", "nobody"):
        with pytest.raises(UserError):
            await accounts.invite(name)
    assert await accounts.invitations() == []


async def test_links_are_listed_and_revoked_over_the_api(any_server: RunningDesk) -> None:
    root = await any_server.person("root", "admin")
    made = (await root.post("/v1/users", json={"name": "ben", "role": "admin"})).json()
    other = (await root.post("/v1/users", json={"name": "zoe", "role": "viewer"})).json()
    listed = (await root.get("/v1/invitations")).json()["data"]
    revoked = await root.delete(f"/v1/invitations/{listed[0]['id']}")
    again = await root.delete(f"/v1/invitations/{listed[0]['id']}")
    browser = any_server.client()
    followed = [await follow(browser, each["link"]) for each in (made, other)]

    assert [(each["name"], each["role"], each["by"]) for each in listed] == [
        ("ben", "admin", "root"),
        ("zoe", "viewer", "root"),
    ]
    assert key_in(made["link"]).partition(".")[2] not in str(listed)
    assert revoked.status_code == 204
    problem(again, 404, "not_found")
    assert followed == [404, 303]
    assert (await root.get("/v1/invitations")).json()["data"] == []


async def test_an_admin_who_was_removed_does_not_come_back_by_their_link(any_server: RunningDesk) -> None:
    root = await any_server.person("root", "admin")
    link = (await root.post("/v1/users", json={"name": "mallory", "role": "admin", "decides": []})).json()["link"]
    await root.delete("/v1/users/mallory")
    answer = await follow(any_server.client(), link)

    assert answer == 404
    assert await any_server.web.accounts.user("mallory") is None


# -- one admin stays --------------------------------------------------------------------------------------------------


async def test_of_two_admins_who_demote_or_remove_each_other_at_once_one_stays(store: DeskStore) -> None:
    one, other = Accounts(store), Accounts(store)
    acts: list[Callable[[Accounts, str], Awaitable[object]]] = [
        lambda accounts, name: accounts.change_user(name, role="viewer"),
        lambda accounts, name: accounts.change_user(name, is_active=False),
        lambda accounts, name: accounts.remove_user(name),
    ]
    for turn, act in enumerate(acts * 3):
        ana, ben = f"ana{turn}", f"ben{turn}"
        await one.add_user(ana, "admin")
        await one.add_user(ben, "admin")
        await _leave_only(one, {ana, ben})
        outcomes = await asyncio.gather(act(one, ben), act(other, ana), return_exceptions=True)
        admins = [user.name for user in await one.users() if user.role == "admin" and user.is_active]

        assert len(admins) == 1
        assert sorted(isinstance(each, UserError) for each in outcomes) == [False, True]


async def _leave_only(accounts: Accounts, names: set[str]) -> None:
    for user in await accounts.users():
        if user.name not in names:
            await accounts.remove_user(user.name)


# -- what is written down ---------------------------------------------------------------------------------------------


async def facts_in(store: DeskStore) -> list[AnyFact]:
    return [fact for record in read_lines((await store.operators_log()).lines) for fact in record.facts]


async def test_every_change_of_who_may_what_is_a_fact_of_the_operators_log_without_a_secret(store: DeskStore) -> None:
    clock = ManualClock()
    accounts = Accounts(store, clock)
    now, day = clock.now(), 72 * 3600.0
    await accounts.add_user("ana", "admin", password=PASSWORD)
    await accounts.add_user("ben", "reviewer", decides=(DecisionScope(tool="refund"),), by="ana")
    first = (await accounts.invite("ben", by="ana")).partition(".")
    await accounts.revoke_invitation(first[0], by="ana")
    second = (await accounts.invite("ben", by="ana")).partition(".")
    await accounts.accept("".join(second), PASSWORD)
    text, token = await accounts.add_token("ben", "ci", role="viewer", decides=(), by="ben")
    await accounts.revoke_token(token.id, by="ana")
    await accounts.change_user("ben", role="viewer", is_active=False, by="ana")
    await accounts.change_user("ben", role="viewer", by="ana")
    await accounts.set_password("ana", "another sentence", by="ana")
    await accounts.remove_user("ben", by="ana")
    found, log = await facts_in(store), await store.operators_log()

    everything, refunds = [("*", "*")], [("*", "refund")]
    assert found == [
        UserChanged("ana", "added", None, now, "admin", everything),
        PasswordChanged("ana", None, now),
        UserChanged("ben", "added", "ana", now, "reviewer", refunds),
        InvitationChanged(first[0], "made", "ben", "reviewer", "ana", now, now + day),
        InvitationChanged(first[0], "revoked", "ben", "reviewer", "ana", now),
        InvitationChanged(second[0], "made", "ben", "reviewer", "ana", now, now + day),
        InvitationChanged(second[0], "used", "ben", "reviewer", "ben", now),
        PasswordChanged("ben", "ben", now, second[0]),
        TokenChanged(token.id, "made", "ben", "ci", "viewer", [], "ben", now),
        TokenChanged(token.id, "revoked", "ben", "ci", "viewer", [], "ana", now),
        UserChanged("ben", "changed", "ana", now, "viewer", refunds, False),
        PasswordChanged("ana", "ana", now),
        UserChanged("ben", "removed", "ana", now, "viewer", refunds, False),
    ]
    written = b"".join(log.lines).decode()
    for secret in (PASSWORD, "another sentence", first[2], second[2], text.split("_", 2)[2], "scrypt", token.digest):
        assert secret not in written
    assert [verdict.is_whole async for verdict in verify(store, [])] == [True]
    told = [(entry.what, entry.subject, entry.by) async for entry in records(store, OPERATORS)]
    assert told[0] == ("user added", "ana", None)
    assert ("user changed", "ben", "ana") in told
    assert len(told) == len(found)


async def test_a_change_that_is_refused_leaves_no_fact(accounts: Accounts, store: DeskStore) -> None:
    await accounts.add_user("ana", "admin")
    before = len(await store.operators_log())
    for act in (
        accounts.add_user("ana", "viewer"),
        accounts.change_user("ana", role="viewer"),
        accounts.remove_user("ana"),
        accounts.accept("inv-x.y", PASSWORD),
        accounts.change_user("nobody", role="viewer"),
    ):
        with pytest.raises(PlacetError):
            await act
    assert not await accounts.revoke_invitation("inv-x")
    assert not await accounts.revoke_token("tok-x")

    assert len(await store.operators_log()) == before


async def test_the_api_names_who_changed_what_and_lists_it_for_admins(server: RunningDesk) -> None:
    root, ana = await server.person("root", "admin"), await server.person("ana")
    await root.post("/v1/users", json={"name": "ben", "role": "viewer"})
    await root.patch("/v1/users/ben", json={"role": "reviewer"})
    await root.delete("/v1/users/ben")
    page = (await root.get("/v1/operators", params={"limit": 3})).json()
    rest = (await root.get("/v1/operators", params={"limit": 200, "cursor": page["next"]})).json()

    assert [(each["what"], each["subject"], each["by"]) for each in page["data"][:2]] == [
        ("user removed", "ben", "root"),
        ("user changed", "ben", "root"),
    ]
    assert page["data"][1]["detail"] == "reviewer, decides *:*"
    assert page["data"][2]["what"] == "link made"
    assert rest["next"] is None
    assert rest["data"][-1]["what"] == "user added"
    problem(await ana.get("/v1/operators"), 403, "access_denied")


async def people_problem(store: DeskStore) -> str | None:
    facts = (fact for record in read_lines((await store.operators_log()).lines) for fact in record.facts)
    return await operators_problem(store, operators_of(facts))


async def test_a_guest_has_an_owner_and_a_second_account_is_the_same_person(
    accounts: Accounts, store: DeskStore
) -> None:
    await accounts.add_user("root", "admin")
    await accounts.add_user("ana", "reviewer", by="root")
    await accounts.add_user("ana-at-night", "reviewer", same_as="Ana", by="root")
    jobs = await accounts.add_user("jobs", "guest", by="root")
    changed = await accounts.change_user("jobs", owner="ana", by="root")
    known = await store.people(["ana", "ana-at-night", "jobs"])

    assert (jobs.owner, changed.owner) == ("root", "ana")
    assert known["ana-at-night"].identity == known["ana"].identity == "ana"
    assert known["jobs"].owner == "ana"
    for wrong in (
        accounts.change_user("ana", owner="root"),  # no guest
        accounts.change_user("jobs", owner="jobs"),  # a guest answers for nobody
        accounts.change_user("jobs", owner="nobody"),
        accounts.change_user("ana", same_as="ana"),
        accounts.change_user("ana", same_as="root"),  # ana-at-night would be somebody else than root
        accounts.add_user("third", "reviewer", same_as="ana-at-night"),
    ):
        with pytest.raises(UserError):
            await wrong
    await accounts.change_user("ana-at-night", same_as="")
    assert (await store.people(["ana-at-night"]))["ana-at-night"].identity == "ana-at-night"
    assert await people_problem(store) is None


@pytest.mark.parametrize("field", ["groups", "same_as", "owner"])
async def test_the_audit_finds_a_group_owner_or_identity_that_nobody_recorded(
    accounts: Accounts, store: DeskStore, field: str
) -> None:
    await accounts.add_user("root", "admin")
    await accounts.add_user("jobs", "guest", by="root")
    record = await store.record("user", "jobs")
    assert record is not None
    forged = {**msgspec.json.decode(record.data), field: ["finance"] if field == "groups" else "eve"}
    await store.replace_record(msgspec.structs.replace(record, data=msgspec.json.encode(forged).decode()))

    assert await people_problem(store) == "user jobs may do something else than the operators' log says"
