"""Single sign-on: who comes in by a provider, as whom, and every answer of a provider that lets nobody in."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet import UserError
from placet.core.log import read_lines
from placet.facts.events import IdentityTied, UserChanged
from placet.sso import oidc
from placet.sso.oidc import Client, Mapped, Provider
from placet.sso.settings import clients_of, read_sso_file, web_wire
from tests.desk.pages.test_deciding_pages import HTML, browser, post
from tests.support.desk_server import PASSWORD, RunningDesk, running_desk
from tests.support.identity_provider import IdentityProvider, identity_provider


@pytest.fixture
async def acme() -> AsyncIterator[IdentityProvider]:
    async with identity_provider() as provider:
        yield provider


@contextlib.asynccontextmanager
async def desk_at(folder: Path, acme: IdentityProvider, **more: Any) -> AsyncIterator[RunningDesk]:
    async with running_desk(folder) as running, web_wire() as wire:
        running.url = running.url.replace("127.0.0.1", "localhost")
        given = Provider(name="acme", issuer=acme.issuer, client_id="desk", label="Acme", **more)
        running.web.sso = {"acme": Client(given, "secret", wire)}
        yield running


@pytest.fixture
async def desk(tmp_path: Path, acme: IdentityProvider) -> AsyncIterator[RunningDesk]:
    async with desk_at(tmp_path, acme) as running:
        yield running


async def come(desk: RunningDesk, key: str = "", client: httpx2.AsyncClient | None = None) -> httpx2.Response:
    """A browser goes to the provider and comes back."""
    visitor = client or desk.client()
    visitor.headers.update(HTML)
    out = await visitor.get("/login/sso/acme", params={"key": key} if key else {})
    if out.status_code != 303:
        return out
    back = await desk.client().get(out.headers["location"])
    return await visitor.get(back.headers["location"])


async def facts(desk: RunningDesk) -> list[Any]:
    log = await desk.desk.store.operators_log()
    return [fact for record in read_lines(log.lines) for fact in record.facts]


async def tied(desk: RunningDesk, name: str = "ana") -> None:
    """A user whose identity is known."""
    await desk.web.accounts.add_user(name, "reviewer")
    assert (await come(desk, await desk.web.accounts.invite(name))).status_code == 303


async def test_who_was_invited_ties_their_identity_once_and_comes_in_by_it_from_then_on(
    desk: RunningDesk, acme: IdentityProvider
) -> None:
    await tied(desk)
    acme.person |= {"preferred_username": "somebody else", "email": "other@acme.example"}
    again = await come(desk)

    assert (again.status_code, again.headers["location"]) == (303, "/inbox")
    assert {each.assurance for each in await desk.web.accounts.sessions("ana")} == {"sso"}
    [fact] = [each for each in await facts(desk) if isinstance(each, IdentityTied)]
    assert (fact.name, fact.issuer, fact.subject) == ("ana", acme.issuer, "1")


async def test_an_address_or_a_name_makes_nobody_a_user_who_is_here(desk: RunningDesk, acme: IdentityProvider) -> None:
    await tied(desk)
    acme.person |= {"sub": "2", "email": "ana@acme.example", "email_verified": True}
    other = await come(desk)

    assert other.status_code == 403
    assert "ask an admin for a link" in other.text


async def test_an_identity_belongs_to_one_user_and_a_link_works_once(desk: RunningDesk, acme: IdentityProvider) -> None:
    await tied(desk)
    await desk.web.accounts.add_user("ben", "admin")
    key = await desk.web.accounts.invite("ben")
    as_ana = await come(desk, key)
    acme.person["sub"] = "2"
    as_ben, twice = await come(desk, key), None
    acme.person["sub"] = "3"
    twice = await come(desk, key)

    assert as_ana.status_code == 303
    assert [each.owner for each in await desk.web.accounts.sessions("ana")] == ["ana", "ana"]
    assert as_ben.status_code == 303
    assert twice.status_code == 403


@pytest.mark.parametrize("verified", [True, False])
async def test_a_verified_address_of_a_domain_that_may_come_makes_a_new_user(
    tmp_path: Path, acme: IdentityProvider, verified: bool
) -> None:
    async with desk_at(tmp_path, acme, domains=("acme.example",), role="viewer") as desk:
        acme.person["email_verified"] = verified
        came = await come(desk)
        user = await desk.web.accounts.user("ana")

    assert came.status_code == (303 if verified else 403)
    assert (user.role if user is not None else None) == ("viewer" if verified else None)


async def test_a_name_that_is_taken_is_not_taken_over(tmp_path: Path, acme: IdentityProvider) -> None:
    async with desk_at(tmp_path, acme, domains=("acme.example",)) as desk:
        await desk.web.accounts.add_user("ana", "admin", password=PASSWORD)
        acme.person["email_verified"] = True
        came = await come(desk)

        assert came.status_code == 403
        assert "There is a user ana already" in came.text
        assert await desk.web.accounts.sessions("ana") == []


def test_no_algorithm_is_taken_but_those_of_public_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def decode(token: str, key: object, algorithms: list[str]) -> object:
        asked.append(algorithms)
        raise ValueError(token)

    monkeypatch.setattr("joserfc.jwt.decode", decode)
    client = Client(Provider(name="a", issuer="https://a.example", client_id="d"), None, web_wire())
    client._keys = (time.time(), object())
    client._about = (time.time(), {"jwks_uri": "https://a.example"})
    with pytest.raises(oidc.AccessDenied):
        asyncio.run(client.claims("t", "n"))

    assert all(not each.startswith("HS") and each != "none" for algorithms in asked for each in algorithms)


async def test_groups_and_role_follow_the_provider_at_each_log_in(tmp_path: Path, acme: IdentityProvider) -> None:
    groups = {"fin": Mapped(groups=("finance",), role="reviewer"), "ops": Mapped(groups=("on-call",))}
    async with desk_at(tmp_path, acme, groups_claim="groups", groups=groups) as desk:
        acme.person["groups"] = ["fin", "ops", "unknown"]
        await tied(desk)
        first = await desk.web.accounts.user("ana")
        await desk.web.accounts.change_user("ana", groups=("finance", "on-call", "chess"))
        acme.person["groups"] = ["ops"]
        await come(desk)
        second = await desk.web.accounts.user("ana")
        told = [fact.by for fact in await facts(desk) if isinstance(fact, UserChanged)]

    assert first is not None
    assert second is not None
    assert (first.role, first.groups) == ("reviewer", ("finance", "on-call"))
    assert (second.role, second.groups) == ("viewer", ("chess", "on-call"))
    assert "sso:acme" in told


LIES: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example"},
    "another audience": {"aud": "other"},
    "several audiences": {"aud": ["desk", "other"]},
    "given to another": {"azp": "other"},
    "another nonce": {"nonce": "other"},
    "no nonce": {"nonce": None},
    "expired": {"exp": 5},
    "no end": {"exp": None},
    "old": {"iat": 5},
    "from the future": {"iat": int(time.time()) + 10_000},
    "not yet": {"nbf": int(time.time()) + 10_000},
    "nobody": {"sub": None},
    "a number": {"sub": 7},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_token_that_says_anything_wrong_lets_nobody_in(
    desk: RunningDesk, acme: IdentityProvider, lie: str
) -> None:
    await tied(desk)
    acme.lies = LIES[lie]
    refused = await come(desk)

    assert refused.status_code == 403
    assert len(await desk.web.accounts.sessions("ana")) == 1


@pytest.mark.parametrize("way", ["none", "hmac", "stranger"])
async def test_a_token_that_the_provider_did_not_sign_lets_nobody_in(
    desk: RunningDesk, acme: IdentityProvider, way: str
) -> None:
    await tied(desk)
    acme.way = way
    refused = await come(desk)

    assert refused.status_code == 403
    assert "does not verify" in refused.text


async def test_clocks_may_differ_by_a_minute(desk: RunningDesk, acme: IdentityProvider) -> None:
    await tied(desk)
    now = int(time.time())
    acme.lies = {"iat": now + 30, "exp": now - 30}

    assert (await come(desk)).status_code == 303


async def test_keys_that_were_rotated_are_fetched_again_and_an_old_one_counts_no_more(
    desk: RunningDesk, acme: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "REFRESH_SECONDS", -1.0)
    await tied(desk)
    old = acme.key
    acme.rotate()
    new = await come(desk)
    fresh, acme.key = acme.key, old
    published = acme.keys
    refused = await desk.web.sso["acme"]._key_set()

    assert new.status_code == 303
    assert [key.kid for key in refused.keys] == [fresh.kid]
    assert published is not None


@pytest.mark.parametrize("said", [None, "https://evil.example"])
async def test_an_answer_that_names_another_issuer_or_none_is_refused(
    desk: RunningDesk, acme: IdentityProvider, said: str | None
) -> None:
    await tied(desk)
    acme.says_issuer = said

    assert (await come(desk)).status_code == 403


async def test_an_answer_counts_once_and_only_in_the_browser_that_asked(desk: RunningDesk) -> None:
    await tied(desk)
    mine, other = desk.client(), desk.client()
    out = await mine.get("/login/sso/acme")
    back = (await desk.client().get(out.headers["location"])).headers["location"]
    elsewhere = await other.get(back)
    first = await mine.get(back)
    again = await mine.get(back)
    by_hand = await mine.get("/login/sso/acme/callback?state=%F0%9F%98%80&code=x")
    refused = await mine.get("/login/sso/acme/callback?error=access_denied&state=x")

    assert [each.status_code for each in (elsewhere, first, again, by_hand, refused)] == [403, 303, 403, 403, 403]


async def test_while_the_provider_is_away_who_is_in_stays_in_and_the_local_admin_gets_in(
    desk: RunningDesk, acme: IdentityProvider
) -> None:
    ana = desk.client()
    await desk.web.accounts.add_user("ana", "reviewer")
    await come(desk, await desk.web.accounts.invite("ana"), ana)
    await desk.web.accounts.add_user("root", "admin", password=PASSWORD)
    await desk.web.accounts.add_user("ben", "reviewer", password=PASSWORD)
    desk.web.settings = type(desk.web.settings)(
        **{name: getattr(desk.web.settings, name) for name in desk.web.settings.__struct_fields__}
        | {"passwords": ("root",)}
    )
    acme.is_away = True
    client = desk.web.sso["acme"]
    client._about = client._keys = None
    new = await come(desk)
    inside = await ana.get("/inbox")
    root = await with_password(desk, "root")
    ben = await with_password(desk, "ben")

    assert (new.status_code, inside.status_code, root.status_code, ben.status_code) == (503, 200, 303, 403)
    assert "does not answer" in new.text or "status 502" in new.text


async def with_password(desk: RunningDesk, name: str) -> httpx2.Response:
    client = desk.client()
    client.headers.update(HTML)
    return await client.post("/login", data={"name": name, "password": PASSWORD})


async def test_a_provider_that_says_it_is_another_one_is_not_asked(desk: RunningDesk, acme: IdentityProvider) -> None:
    acme.lies = {"issuer": "https://evil.example"}

    assert (await come(desk)).status_code == 503


async def test_signing_out_shows_the_way_out_at_the_provider(desk: RunningDesk, acme: IdentityProvider) -> None:
    ana = desk.client()
    await desk.web.accounts.add_user("ana", "reviewer")
    await come(desk, await desk.web.accounts.invite("ana"), ana)
    left = await post(ana, "/logout")
    ben = await browser(desk, "ben")
    local = await post(ben, "/logout")

    assert f"{acme.issuer}/end?id_token_hint=" in left.text
    assert await desk.web.accounts.sessions("ana") == []
    assert local.headers["location"] == "/login"


async def test_who_was_switched_off_or_removed_does_not_come_in(desk: RunningDesk) -> None:
    await tied(desk)
    await desk.web.accounts.change_user("ana", is_active=False)
    off = await come(desk)
    await desk.web.accounts.remove_user("ana")
    gone = await come(desk)

    assert (off.status_code, gone.status_code) == (403, 403)


FILE = """
passwords = ["root"]

[[provider]]
name = "acme"
issuer = "https://login.acme.example"
client_id = "desk"
client_secret = "env:ACME_SECRET"
groups_claim = "groups"
domains = ["acme.example"]
[provider.groups.fin]
groups = ["finance"]
role = "reviewer"
"""


async def test_the_file_names_providers_and_keeps_secrets_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sso.toml"
    file.write_text(FILE)
    monkeypatch.setenv("ACME_SECRET", "s")
    async with web_wire() as wire:
        [client] = clients_of(read_sso_file(str(file)), wire).values()
        monkeypatch.delenv("ACME_SECRET")
        with pytest.raises(UserError, match="is not in env:ACME_SECRET"):
            clients_of(read_sso_file(str(file)), wire)

    assert client.provider.groups["fin"].role == "reviewer"
    for wrong, otherwise, words in (
        ("https://login", "http://login", "an https address"),
        ("[[provider]]", "[[providers]]", "does not say"),
        ('"acme"\n', '"A b"\n', "cannot be a provider's name"),
    ):
        file.write_text(FILE.replace(wrong, otherwise, 1))
        with pytest.raises(UserError, match=words):
            read_sso_file(str(file))
