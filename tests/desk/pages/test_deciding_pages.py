"""The views behind the pages, asked over HTTP: what a page would send by mistake or malice is refused in words."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest

from placet.desk.access.people import DecisionScope
from placet.desk.pages.login import home_of
from placet.desk.pages.people import scope_text, scopes_of
from tests.support.desk_server import RunningDesk, running_desk

HTML = {"Accept": "text/html"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path) as running:
        yield running


async def browser(desk: RunningDesk, name: str = "ana", role: str = "reviewer") -> httpx2.AsyncClient:
    if await desk.web.accounts.user(name) is None:
        await desk.web.accounts.add_user(name, role)  # type: ignore[arg-type]
    client = desk.client()
    cookie, value = await desk.session(name)
    client.cookies.set(cookie, value)
    client.headers.update(HTML)
    return client


async def csrf(client: httpx2.AsyncClient) -> str:
    page = await client.get("/inbox")
    found = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert found is not None
    return found[1]


async def post(client: httpx2.AsyncClient, path: str, **fields: object) -> httpx2.Response:
    body = urlencode({"csrf_token": await csrf(client), **fields}, doseq=True)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return await client.post(path, content=body, headers=headers)


async def test_a_decision_about_another_digest_than_was_shown_is_refused(desk: RunningDesk) -> None:
    await desk.waiting_run()
    (first, _) = await desk.desk.pending()
    ana = await browser(desk)

    answer = await post(ana, "/inbox/decide", open=first.id, digest="0" * 32, decision="approve")

    assert answer.status_code == 409
    assert "look again" in answer.text
    assert (await desk.desk.request(first.id)).status == "pending"


async def test_a_form_that_does_not_say_what_was_shown_decides_nothing(desk: RunningDesk) -> None:
    await desk.waiting_run()
    (first, _) = await desk.desk.pending()
    ana = await browser(desk)

    answer = await post(ana, "/inbox/decide", open=first.id, decision="approve")

    assert answer.status_code == 409
    assert (await desk.desk.request(first.id)).status == "pending"


async def test_together_only_what_was_on_the_screen_is_decided(desk: RunningDesk) -> None:
    await desk.waiting_run()
    (first, second) = await desk.desk.pending()
    ana = await browser(desk)
    picks = [f"{first.id} {first.digest}", f"{second.id} {'0' * 32}"]

    shown = await post(ana, "/inbox/together", pick=picks)
    done = await post(ana, "/inbox/decide-together", pick=picks, decision="approve")

    assert "it changed since it was on your screen" in shown.text
    assert "1 decided, 1 not" in done.text
    assert [(await desk.desk.request(each.id)).status for each in (first, second)] == ["approved", "pending"]


async def test_a_form_with_thousands_of_fields_is_refused_in_words(desk: RunningDesk) -> None:
    ana = await browser(desk)

    answer = await post(ana, "/inbox/together", pick=["x y"] * 6000)

    assert answer.status_code == 413
    assert "at most 2000 fields" in answer.text


async def test_a_page_without_the_sessions_word_decides_nothing(desk: RunningDesk) -> None:
    await desk.waiting_run()
    (first, _) = await desk.desk.pending()
    ana = await browser(desk)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    answer = await ana.post("/inbox/decide", content=f"open={first.id}&decision=approve", headers=headers)

    assert answer.status_code == 403
    assert (await desk.desk.request(first.id)).status == "pending"


async def test_a_viewer_who_sends_the_form_by_hand_is_refused(desk: RunningDesk) -> None:
    await desk.waiting_run()
    (first, second) = await desk.desk.pending()
    vera = await browser(desk, "vera", "viewer")

    one = await post(vera, "/inbox/decide", open=first.id, digest=first.digest, decision="approve")
    several = await post(vera, "/inbox/decide-together", pick=[f"{second.id} {second.digest}"], decision="approve")
    started = await post(vera, "/runs", agent="Support", input="Hello")

    assert (one.status_code, started.status_code) == (403, 403)
    assert "vera may look, not decide" in several.text
    assert {row.status for row in await desk.desk.pending()} == {"pending"}


async def test_whoever_started_a_run_may_not_say_yes_where_four_eyes_are_asked_for(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as desk:
        await desk.desk.set_four_eyes([("*", "*")], by="root")
        await desk.waiting_run("Archivist", by="ana")
        (waiting,) = await desk.desk.pending()
        ana = await browser(desk)

        page = await ana.get("/inbox", params={"open": waiting.id})
        yes = await post(ana, "/inbox/decide", open=waiting.id, digest=waiting.digest, decision="approve")
        no = await post(ana, "/inbox/decide", open=waiting.id, digest=waiting.digest, decision="reject", panel="reject")

    assert "four eyes are demanded" in page.text
    assert 'value="approve"' not in page.text
    assert "Reject…" in page.text
    assert (yes.status_code, no.status_code) == (403, 303)


@pytest.mark.parametrize(
    "fields",
    [
        {"decision": "maybe"},
        {"decision": ""},
        {"decision": "edit", "panel": "edit", "as": "json", "j.": "[1]"},
        {"decision": "respond", "panel": "respond", "output": "  "},
        {"decision": "respond", "panel": "respond", "output": "done by hand", "always": "run"},
        {"decision": "respond", "panel": "respond", "output": "done by hand", "always": "agent"},
        {"decision": "approve", "panel": "more", "always": "run", "uses": "0"},
        {"decision": "approve", "panel": "more", "always": "run", "until": "12345"},
        {"decision": "approve", "panel": "nonsense"},
    ],
)
async def test_forms_that_say_nothing_sensible_are_refused_and_decide_nothing(
    desk: RunningDesk, fields: dict[str, str]
) -> None:
    await desk.waiting_run()
    (first, _) = await desk.desk.pending()
    ana = await browser(desk)

    answer = await post(ana, "/inbox/decide", open=first.id, digest=first.digest, **fields)

    assert answer.status_code == 422
    assert (await desk.desk.request(first.id)).status == "pending"


@pytest.mark.parametrize(
    "path",
    [
        "/inbox?open=nothing",
        "/inbox/arguments?open=run_x:1.0%231",
        "/runs/run_nothing",
        "/runs/run_nothing/lines/3",
        "/invitation?key=x.y",
        "/static/../routes.py",
        "/static/%2e%2e/routes.py",
        "/people/x",
    ],
)
async def test_what_is_not_there_is_a_page_that_says_so(desk: RunningDesk, path: str) -> None:
    ana = await browser(desk, role="admin")

    answer = await ana.get(path)

    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "<h1" in answer.text


@pytest.mark.parametrize("path", ["/inbox?cursor=junk", "/runs?cursor=junk", "/audit?cursor=junk"])
async def test_a_cursor_of_nowhere_is_refused_in_words(desk: RunningDesk, path: str) -> None:
    answer = await (await browser(desk)).get(path)

    assert answer.status_code == 422
    assert "is not a cursor" in answer.text


async def test_pages_come_with_a_strict_policy_and_files_may_be_kept(desk: RunningDesk) -> None:
    ana = await browser(desk)
    page = await ana.get("/inbox")
    (address,) = re.findall(r'href="(/static/desk.css\?v=[0-9a-f]+)"', page.text)
    file = await ana.get(address)

    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert "immutable" in file.headers["cache-control"]


async def test_a_live_page_listens_from_where_it_read(desk: RunningDesk) -> None:
    run = await desk.waiting_run()
    latest = await desk.desk.store.latest_sequence()
    ana = await browser(desk)

    for path in ("/inbox", f"/runs/{run.id}"):
        assert f'data-live="/v1/events?after={latest}"' in (await ana.get(path)).text


async def test_a_list_of_many_requests_goes_on_on_the_next_page(desk: RunningDesk) -> None:
    for _ in range(26):
        await desk.waiting_run()
    ana = await browser(desk)

    first = await ana.get("/inbox?view=each")
    (following,) = re.findall(r'href="(/inbox\?[^"]*cursor=[^"]+)" rel="next"', first.text)
    second = await ana.get(html.unescape(following))

    assert (first.text.count('class="row '), first.text.count("<li class=")) != (0, 0)
    assert first.text.count('name="pick"') == 50
    assert second.text.count('name="pick"') == 2


@pytest.mark.parametrize(
    ("given", "leads_to"),
    [
        ("/runs", "/runs"),
        ("/inbox?open=x%231", "/inbox?open=x%231"),
        ("", "/inbox"),
        ("https://elsewhere.example", "/inbox"),
        ("//elsewhere.example", "/inbox"),
        ("/\\elsewhere.example", "/inbox"),
        ("/a\nb", "/inbox"),
        ("javascript:alert(1)", "/inbox"),
    ],
)
def test_signing_in_leads_to_a_place_at_this_desk_only(given: str, leads_to: str) -> None:
    assert home_of(given) == leads_to


def test_patterns_are_written_one_a_line() -> None:
    scopes = scopes_of("Support refund\n* look_*\nArchivist")

    assert [(scope.agent, scope.tool) for scope in scopes] == [
        ("Support", "refund"),
        ("*", "look_*"),
        ("Archivist", "*"),
    ]
    assert scopes_of(scope_text(scopes)) == scopes
    assert [(scope.agent, scope.tool) for scope in scopes_of(" \n")] == [("*", "*")]


async def approved_and_held(desk: RunningDesk) -> str:
    """A refund that was approved, and that an operator keeps from starting."""
    await desk.desk.hold("tool", "refund", by="ops")
    await desk.waiting_run()
    (first, _) = await desk.desk.pending()
    await desk.desk.decide(first.id, "approve", by="ana")
    return first.id


async def test_undo_takes_an_approval_back_and_opens_the_question_in_its_place(desk: RunningDesk) -> None:
    first = await approved_and_held(desk)
    ana = await browser(desk)

    before = (await ana.get("/inbox", params={"open": first})).text
    answer = await post(ana, "/inbox/revoke", open=first)
    asked = await ana.get(answer.headers["location"])
    after = (await ana.get("/inbox", params={"open": first})).text

    assert 'action="/inbox/revoke"' in before
    assert answer.status_code == 303
    assert "its approval was taken back by ana" in asked.text
    assert "May this run?" in asked.text
    assert "Taken back by <bdi>ana</bdi>" in after
    assert "It is asked about anew" in after
    assert 'action="/inbox/revoke"' not in after


@pytest.mark.parametrize("role", ["viewer", "reviewer"])
async def test_undo_is_for_those_who_may_say_no(role: str, desk: RunningDesk) -> None:
    first = await approved_and_held(desk)
    await desk.web.accounts.add_user("vic", role, decides=(DecisionScope(tool="nothing"),))  # type: ignore[arg-type]
    vic = await browser(desk, "vic")

    shown = (await vic.get("/inbox", params={"open": first})).text
    answer = await post(vic, "/inbox/revoke", open=first)

    assert 'action="/inbox/revoke"' not in shown
    assert answer.status_code == 403
    assert (await desk.desk.request(first)).status == "approved"


async def test_what_has_begun_cannot_be_undone_and_the_page_says_so(desk: RunningDesk) -> None:
    run = await desk.waiting_run()
    (first, second) = await desk.desk.pending()
    for each in (first, second):
        await desk.desk.decide(each.id, "approve", by="ana")
    await desk.desk.wait(run.id, timeout=120)
    ana = await browser(desk)

    shown = (await ana.get("/inbox", params={"open": first.id})).text
    answer = await post(ana, "/inbox/revoke", open=first.id)

    assert 'action="/inbox/revoke"' not in shown
    assert answer.status_code == 409
    assert "Too late." in answer.text


async def test_what_stands_about_a_tool_is_named_where_always_is_said_and_a_contradiction_is_told(
    desk: RunningDesk,
) -> None:
    await desk.waiting_run()
    (first, _) = await desk.desk.pending()
    await desk.desk.grant("Support", "refund", "reject", by="ben")
    ana = await browser(desk)

    form = (await ana.get("/inbox", params={"open": first.id, "do": "more"})).text
    fields = {
        "open": first.id,
        "digest": first.digest,
        "decision": "approve",
        "panel": "more",
        "always": "agent",
        "confirm": "refund",
    }
    body = urlencode({"csrf_token": await csrf(ana), **fields})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "HX-Request": "true"}
    answer = await ana.post("/inbox/decide", content=body, headers=headers)

    assert 'Stands already: always reject, by <bdi dir="auto">ben</bdi>' in form
    assert "by which ben has such calls rejected: the newer one wins" in answer.text
