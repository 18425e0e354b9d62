"""What protects a session in a browser: the cookie's marks, the word that forms carry, origin, host, headers."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from placet.desk.web.settings import WebSettings
from tests.desk.api.scenes import at, problem, two_refunds
from tests.support.desk_server import PASSWORD, RunningDesk, running_desk

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def in_a_browser(server: RunningDesk, name: str = "ana") -> tuple[httpx2.AsyncClient, str]:
    """A client with the cookie of a session, and the word of that session."""
    await server.person(name)
    cookie = await server.session(name)
    actor = await server.web.accounts.actor_of_cookie(cookie[1])
    assert actor is not None
    return server.client(cookies=dict([cookie])), actor.csrf


async def test_a_cookie_decides_with_the_word_of_its_session(server: RunningDesk) -> None:
    browser, word = await in_a_browser(server)
    _, (first, _) = await two_refunds(server)
    given = {"json": {"decision": "approve"}}
    origin = {"Origin": server.url}
    without = await browser.post(at(first.id, "/decisions"), headers=origin, **given)
    wrong = await browser.post(at(first.id, "/decisions"), headers=origin | {"X-CSRF-Token": "x" * 43}, **given)
    right = await browser.post(at(first.id, "/decisions"), headers=origin | {"X-CSRF-Token": word}, **given)

    problem(without, 403, "csrf")
    problem(wrong, 403, "csrf")
    assert right.json()["decided_by"] == "ana"


async def test_the_word_of_another_session_is_worth_nothing(server: RunningDesk) -> None:
    browser, _ = await in_a_browser(server, "ana")
    _, others = await in_a_browser(server, "eve")
    _, (first, _) = await two_refunds(server)
    answer = await browser.post(
        at(first.id, "/decisions"), json={"decision": "approve"}, headers={"X-CSRF-Token": others}
    )

    problem(answer, 403, "csrf")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_request_from_another_sites_page_is_refused_even_with_the_word(
    server: RunningDesk, headers: dict[str, str]
) -> None:
    browser, word = await in_a_browser(server)
    _, (first, _) = await two_refunds(server)
    answer = await browser.post(
        at(first.id, "/decisions"), json={"decision": "approve"}, headers={**headers, "X-CSRF-Token": word}
    )

    problem(answer, 403, "foreign_origin")
    assert (await server.desk.request(first.id)).status == "pending"


async def test_a_form_carries_the_word_in_a_field_and_reaches_its_page_whole(server: RunningDesk) -> None:
    browser, word = await in_a_browser(server)
    forged = await browser.post("/logout", content="csrf_token=nonsense", headers=FORM)
    still = await browser.get("/v1/me")
    left = await browser.post("/logout", content=f"a=b&csrf_token={word}", headers=FORM)
    over = await browser.get("/v1/me", headers={"Accept": "application/json"})

    problem(forged, 403, "csrf")
    assert still.status_code == 200
    assert left.status_code in (200, 303)
    problem(over, 401, "not_authenticated")


async def test_a_form_with_more_fields_than_any_of_ours_is_refused(server: RunningDesk) -> None:
    browser, word = await in_a_browser(server)
    answer = await browser.post("/logout", content=f"csrf_token={word}&" + "a=b&" * 3000, headers=FORM)

    assert "at most 2000 fields" in problem(answer, 413, "too_large")["detail"]


async def test_a_session_that_was_ended_is_refused_at_once_also_to_a_copy_of_its_cookie(server: RunningDesk) -> None:
    browser, word = await in_a_browser(server)
    thief = server.client(cookies=dict(browser.cookies))
    before = await thief.get("/v1/me")
    await browser.post("/logout", content=f"csrf_token={word}", headers=FORM)
    after = await thief.get("/v1/me")

    assert before.status_code == 200
    problem(after, 401, "not_authenticated")


async def test_a_new_password_ends_all_sessions(server: RunningDesk) -> None:
    browser, _ = await in_a_browser(server)
    await server.web.accounts.set_password("ana", "another password")

    problem(await browser.get("/v1/me"), 401, "not_authenticated")


async def log_in(client: httpx2.AsyncClient, name: str, password: str, **headers: str) -> httpx2.Response:
    return await client.post("/login", data={"name": name, "password": password}, headers=headers)


async def test_logging_in_sets_a_cookie_that_scripts_and_other_sites_do_not_get(tmp_path: Path) -> None:
    tls = WebSettings(public_url="https://desk.example.com")
    async with running_desk(tmp_path, settings=tls) as server:
        await server.person("ana", can_log_in=True)
        answer = await log_in(server.client(), "ana", PASSWORD, Origin="https://desk.example.com")
        foreign = await log_in(server.client(), "ana", PASSWORD, Origin="https://evil.example")

    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-placet_session=ses-")
    for mark in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
        assert mark.lower() in cookie.lower()
    problem(foreign, 403, "foreign_origin")


async def test_guessing_passwords_is_slowed_down_even_for_who_then_knows_the_right_one(tmp_path: Path) -> None:
    settings = WebSettings(logins_per_minute=3, requests_per_second=1e6, burst=10**6)
    async with running_desk(tmp_path, settings=settings) as server:
        await server.person("ana", can_log_in=True)
        client = server.client()
        tries = [await log_in(client, "ana", "wrong password") for _ in range(3)]
        right = await log_in(client, "ana", PASSWORD)

    assert 429 not in [each.status_code for each in tries]
    assert right.status_code == 429
    assert "set-cookie" not in right.headers


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "localhost.evil"])
async def test_a_name_that_is_not_ours_is_refused_against_dns_rebinding(server: RunningDesk, host: str) -> None:
    ana = await server.person("ana")

    problem(await ana.get("/v1/me", headers={"Host": host}), 421, "unknown_host")
    problem(await ana.get("/healthz", headers={"Host": host}), 421, "unknown_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "[::1]:80", "127.0.0.1", "localhost."])
async def test_names_of_this_machine_are_ours(server: RunningDesk, host: str) -> None:
    assert (await server.client().get("/healthz", headers={"Host": host})).status_code == 200


async def test_every_answer_forbids_scripts_of_others_frames_and_caches(server: RunningDesk) -> None:
    ana = await server.person("ana")

    for path in ("/v1/me", "/nothing", "/healthz", "/login"):
        headers = (await ana.get(path)).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "no-store" in headers["cache-control"]
        assert "server" not in headers


async def test_headers_of_a_proxy_are_believed_only_from_a_proxy_that_is_named(tmp_path: Path) -> None:
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
    seen = []
    for proxies in ((), ("127.0.0.1",)):
        folder = tmp_path / str(len(proxies))
        folder.mkdir()
        async with running_desk(folder, trusted_proxies=proxies) as server:
            answer = await server.client().get("/healthz", headers=forwarded)
            seen.append("strict-transport-security" in answer.headers)

    assert seen == [False, True]


async def test_somebody_at_a_browser_who_is_not_known_is_led_to_the_login_and_back(server: RunningDesk) -> None:
    answer = await server.client().get("/inbox", headers={"Accept": "text/html"})

    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Finbox"
