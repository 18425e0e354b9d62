"""What answers of authenticators are worth: each that is about something else is refused before any effect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet import Agent, Needs, UserError, function_tool
from placet.core.log import read_lines
from placet.desk import DeskRequest
from placet.facts.events import DecisionMade, PasskeyChanged, VoteCast
from placet.testing import function_call
from tests.desk.api.scenes import at, problem
from tests.desk.pages.test_deciding_pages import browser, csrf
from tests.desk.scenes import Planned
from tests.support.authenticators import SoftKey
from tests.support.desk_server import RunningDesk, running_desk


def bank() -> Agent[Any]:
    @function_tool(needs_approval=True, approvers=Needs(1, assurance="signed"))
    async def transfer(cents: int, to: str = "ben") -> str:
        """Pay somebody."""
        return f"paid {cents} to {to}"

    @function_tool(needs_approval=True)
    async def note(text: str) -> str:
        return text

    calls = [function_call("transfer", {"cents": cents}, call_id=f"t{cents}") for cents in (5, 6)]
    return Agent(
        "Bank", tools=[transfer, note], model=Planned([*calls, function_call("note", {"text": "hi"}, call_id="n")])
    )


@pytest.fixture(params=["sqlite", "postgresql"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningDesk]:
    url = request.getfixturevalue("postgres").store_database() if request.param == "postgresql" else None
    async with running_desk(tmp_path, url=url, agents=[bank()]) as running:
        running.url = running.url.replace("127.0.0.1", "localhost")
        yield running


async def say(client: httpx2.AsyncClient, path: str, given: Any = None) -> httpx2.Response:
    headers = {"X-CSRF-Token": await csrf(client), "Accept": "application/json"}
    return await client.post(path, json=given or {}, headers=headers)


async def with_key(desk: RunningDesk, name: str = "ana", role: str = "reviewer") -> tuple[httpx2.AsyncClient, SoftKey]:
    client = await browser(desk, name, role)
    key = SoftKey(desk.url)
    question = (await say(client, "/passkeys/register/options")).json()
    made = await say(client, "/passkeys/register", {**key.created(question), "name": "Key"})
    assert made.status_code == 200, made.text
    return client, key


async def requests(desk: RunningDesk) -> list[DeskRequest]:
    run = await desk.waiting_run("Bank")
    return [row for row in await desk.desk.pending(run_id=run.id) if row.tool == "transfer"]


async def question(client: httpx2.AsyncClient, row: DeskRequest, decision: str = "approve", **more: Any) -> Any:
    answer = await say(client, at(row.id, "/challenge"), {"decision": decision, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def decide(
    client: httpx2.AsyncClient, row: DeskRequest, decision: str = "approve", **more: Any
) -> httpx2.Response:
    return await say(client, at(row.id, "/decisions"), {"decision": decision, **more})


async def still_waits(desk: RunningDesk, row: DeskRequest) -> bool:
    return (await desk.desk.request(row.id)).status == "pending"


async def facts_of(desk: RunningDesk, run_id: str) -> list[Any]:
    stored = await desk.desk.store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    return [fact for record in read_lines(stored.log.lines) for fact in record.facts]


async def keys_told(desk: RunningDesk) -> list[PasskeyChanged]:
    log = await desk.desk.store.operators_log()
    facts = [fact for record in read_lines(log.lines) for fact in record.facts]
    return [fact for fact in facts if isinstance(fact, PasskeyChanged)]


async def test_a_signed_yes_decides_and_a_mere_session_or_token_does_not(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    first, _ = await requests(desk)
    token, _ = await desk.web.accounts.add_token("ana", "tests")
    by_token = await desk.client(token).post(at(first.id, "/decisions"), json={"decision": "approve"})
    by_session = await decide(ana, first)
    assert await still_waits(desk, first)
    signed = await decide(ana, first, signature=key.answer(await question(ana, first)))

    problem(by_token, 403, "access_denied")
    problem(by_session, 403, "access_denied")
    assert signed.json()["status"] == "approved", signed.text
    [decision] = [fact for fact in await facts_of(desk, first.run_id) if isinstance(fact, DecisionMade)]
    assert (decision.by, decision.assurance) == ("ana", "signed")


@pytest.mark.parametrize("wrong", ["call", "verdict", "values", "twice", "origin", "site", "unverified", "key", "text"])
async def test_a_signature_of_anything_else_is_refused_and_decides_nothing(desk: RunningDesk, wrong: str) -> None:
    ana, key = await with_key(desk)
    first, second = await requests(desk)
    row, verdict, more = first, "approve", {}
    asked = await question(ana, second if wrong == "call" else first)
    match wrong:
        case "verdict":
            verdict = "reject"
        case "values":
            asked = await question(ana, first, "edit", arguments={"cents": 7})
            verdict, more = "edit", {"arguments": {"cents": 700}}
        case "origin":
            key.origin = "http://localhost:1"
        case "site":
            key.rp_id = "elsewhere.example"
        case "unverified":
            key.flags = 0x01
        case "key":
            stranger = SoftKey(desk.url)
            stranger.id = key.id
            key = stranger
        case _:
            pass
    answer = key.answer(asked)
    if wrong == "twice":
        assert (await decide(ana, first, signature=answer)).status_code == 200
        row = second
    if wrong == "text":
        answer["credential"]["response"]["signature"] = "no signature"
    refused = await decide(ana, row, verdict, signature=answer, **more)

    problem(refused, 403, "access_denied")
    assert await still_waits(desk, row)


async def test_what_another_person_signed_decides_nothing_for_me(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    first, _ = await requests(desk)
    asked = await question(ana, first)
    ben = await browser(desk, "ben")
    of_hers = await decide(ben, first, signature=key.answer(asked))
    with_her_key = await say(ben, at(first.id, "/challenge"), {"decision": "approve"})

    problem(of_hers, 403, "access_denied")
    problem(with_her_key, 409, "no_passkey")
    assert await still_waits(desk, first)


async def test_a_question_in_one_session_confirms_no_other_one(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    elsewhere = await browser(desk)
    asked = (await say(ana, "/passkeys/confirm/options")).json()
    refused = await say(elsewhere, "/passkeys/confirm", key.answer(asked))
    asked = (await say(ana, "/passkeys/confirm/options")).json()
    confirmed = await say(ana, "/passkeys/confirm", key.answer(asked))

    problem(refused, 403, "access_denied")
    assert confirmed.status_code == 200
    assert sorted(each.assurance for each in await desk.web.accounts.sessions("ana")) == ["passkey", "password"]


async def test_a_signature_stands_for_no_later_call(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    first, _ = await requests(desk)
    always = await decide(ana, first, signature=key.answer(await question(ana, first)), always=True)

    problem(always, 422, "user_error")
    assert await still_waits(desk, first)


async def test_a_program_that_only_claims_a_signature_is_as_sure_as_a_passkey(desk: RunningDesk) -> None:
    await desk.web.accounts.add_user("ana", "reviewer")
    first, _ = await requests(desk)
    run = await desk.waiting_run("Bank")
    plain = next(row for row in await desk.desk.pending(run_id=run.id) if row.tool == "note")
    with pytest.raises(Exception, match="«passkey» is below «signed»"):
        await desk.desk.decide(first.id, "approve", by="ana", via="session", assurance="signed")
    await desk.desk.decide(plain.id, "approve", by="ana", via="session", assurance="signed")

    [decision] = [fact for fact in await facts_of(desk, run.id) if isinstance(fact, DecisionMade)]
    assert decision.assurance == "passkey"


async def test_a_standing_decision_of_who_signs_covers_no_call_that_asks_for_a_signature(desk: RunningDesk) -> None:
    await desk.web.accounts.add_user("ana", "reviewer")
    await desk.desk.grant("Bank", "transfer", "approve", by="ana", via="session", assurance="signed")
    first, _ = await requests(desk)

    assert await still_waits(desk, first)


async def test_an_answer_and_a_no_are_signed_with_what_they_say(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    first, second = await requests(desk)
    asked = await question(ana, first, "respond", output="done by hand")
    said = await decide(ana, first, "respond", output="done by hand", signature=key.answer(asked))
    asked = await question(ana, second, "reject")
    no = await decide(ana, second, "reject", message="too much", signature=key.answer(asked))

    assert (said.json()["status"], no.json()["status"]) == ("answered", "rejected"), (said.text, no.text)
    votes = [fact for fact in await facts_of(desk, first.run_id) if isinstance(fact, VoteCast)]
    assert [vote.signed and (vote.signed.verdict, vote.signed.values) for vote in votes] == [
        ("respond", "done by hand"), ("reject", None),
    ]  # fmt: skip


async def test_wrong_answers_cost_time_and_a_counter_that_goes_back_is_recorded(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    first, second = await requests(desk)
    assert (await decide(ana, first, signature=key.answer(await question(ana, first)))).status_code == 200
    key.count = 0
    copied = await decide(ana, second, signature=key.answer(await question(ana, second)))
    statuses = []
    while statuses[-1:] != [429] and len(statuses) < 60:  # tries come back with time, on a busy machine between two
        answer = key.answer(await question(ana, second, "reject"))
        statuses.append((await decide(ana, second, signature=answer)).status_code)

    assert "there is a copy of it" in problem(copied, 403, "access_denied")["detail"]
    assert [fact.change for fact in await keys_told(desk)] == ["registered", "cloned"]
    assert statuses[0] == 403
    assert statuses[-1] == 429
    assert await still_waits(desk, second)


async def test_a_passkey_of_somebody_who_is_switched_off_or_removed_opens_nothing(desk: RunningDesk) -> None:
    _, key = await with_key(desk)
    await desk.web.accounts.change_user("ana", is_active=False)
    off = await log_in(desk, key)
    await desk.web.accounts.change_user("ana", is_active=True)
    on = await log_in(desk, key)
    await desk.web.accounts.remove_user("ana")
    removed = await log_in(desk, key)

    assert (off.status_code, on.status_code, removed.status_code) == (403, 200, 403)
    assert await desk.web.passkeys.keys() == []


async def log_in(desk: RunningDesk, key: SoftKey) -> httpx2.Response:
    client = desk.client()
    asked = (await client.post("/login/passkey/options", json={})).json()
    return await client.post("/login/passkey", json={**key.answer(asked), "next": "//evil.example"})


async def test_a_first_passkey_is_added_by_who_has_just_logged_in(desk: RunningDesk) -> None:
    ana = await browser(desk)
    [session] = await desk.web.accounts.sessions("ana")
    record = await desk.desk.store.record("session", session.id)
    assert record is not None
    older = record.data.replace(f'"created_at":{session.created_at}', '"created_at":1.0')
    await desk.desk.store.replace_record(type(record)(kind="session", id=record.id, data=older, owner="ana"))
    refused = await say(ana, "/passkeys/register/options")

    problem(refused, 403, "access_denied")


async def test_one_admin_does_not_sign_twice_and_a_second_account_is_no_second_admin(desk: RunningDesk) -> None:
    ada, hers = await with_key(desk, "ada", "admin")
    bob = await browser(desk, "bob", "admin")
    his = SoftKey(desk.url)
    made = await say(bob, "/passkeys/register", his.created((await say(bob, "/passkeys/register/options")).json()))
    assert (await sign(ada, hers, made.json()["waiting"])).json() == {"missing": 0}
    ana = await browser(desk)
    new = SoftKey(desk.url)
    made = await say(ana, "/passkeys/register", new.created((await say(ana, "/passkeys/register/options")).json()))
    waiting = made.json()["waiting"]
    assert (await sign(ada, hers, waiting)).json() == {"missing": 1}
    again = await say(ada, "/passkeys/sign/options", {"id": waiting})
    await desk.web.accounts.change_user("bob", same_as="ada")
    as_bob = await sign(bob, his, waiting)
    assert await desk.web.passkeys.keys("ana") == []
    await desk.web.accounts.change_user("bob", same_as="")
    done = await sign(bob, his, waiting)

    assert again.status_code == 409
    problem(as_bob, 403, "access_denied")
    assert done.json() == {"missing": 0}
    assert [key.id for key in await desk.web.passkeys.keys("ana")] == [new.id]


async def sign(client: httpx2.AsyncClient, key: SoftKey, waiting: str) -> httpx2.Response:
    asked = (await say(client, "/passkeys/sign/options", {"id": waiting})).json()
    return await say(client, "/passkeys/sign", {**key.answer(asked), "id": waiting})


async def test_who_lost_the_last_key_gets_rid_of_it_on_the_store(desk: RunningDesk) -> None:
    await with_key(desk)
    assert await desk.web.passkeys.forget("ana", by="root") == 1

    told = [(fact.change, fact.by, fact.signatures) for fact in await keys_told(desk)]
    assert told == [("registered", "ana", []), ("removed", "root", [])]
    with pytest.raises(UserError, match="no such passkey"):
        await desk.web.passkeys.remove("x", by="ana")
