"""Passkeys, with Chromium's own authenticator: registered, used to log in and to confirm, and to sign single calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from placet import Agent, Needs, function_tool
from placet.core.log import read_lines
from placet.facts.events import DecisionMade, PasskeyChanged, VoteCast
from placet.facts.requirements import Assurance
from placet.testing import function_call
from tests.desk.browser.conftest import Arrive
from tests.desk.browser.scenes import armed, open_request, panel, send, sit_down
from tests.desk.scenes import PATIENCE, Planned
from tests.support.authenticators import Authenticator
from tests.support.desk_server import RunningDesk, running_desk

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("P25")]


def bank(name: str, least: Assurance) -> Agent[Any]:
    @function_tool(needs_approval=True, approvers=Needs(1, assurance=least))
    async def transfer(cents: int, to: str = "ben") -> str:
        """Pay somebody."""
        return f"paid {cents} to {to}"

    return Agent(name, tools=[transfer], model=Planned([function_call("transfer", {"cents": 500}, call_id="t1")]))


@pytest_asyncio.fixture(loop_scope="session")
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    """At a name: authenticators know no addresses."""
    async with running_desk(tmp_path, agents=[bank("Bank", "signed"), bank("Shop", "passkey")]) as running:
        running.url = running.url.replace("127.0.0.1", "localhost")
        yield running


async def facts(desk: RunningDesk, run_id: str) -> list[Any]:
    stored = await desk.desk.store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    return [fact for record in read_lines(stored.log.lines) for fact in record.facts]


async def operators(desk: RunningDesk) -> list[Any]:
    log = await desk.desk.store.operators_log()
    return [fact for record in read_lines(log.lines) for fact in record.facts]


async def with_passkey(arrive: Arrive, name: str = "ana", role: str = "reviewer") -> tuple[Page, Authenticator]:
    page = await arrive(name, role)
    authenticator = await Authenticator.plugged_into(page)
    await add_passkey(page, "Laptop")
    await expect(page.get_by_role("button", name="Remove Laptop")).to_be_visible()
    return page, authenticator


async def add_passkey(page: Page, name: str) -> None:
    await page.goto("/account")
    await page.get_by_label("What you call it").fill(name)
    await page.get_by_role("button", name="Add a passkey").click()


async def test_a_passkey_is_added_and_logs_its_person_in_without_a_password(desk: RunningDesk, arrive: Arrive) -> None:
    page, authenticator = await with_passkey(arrive)
    await page.context.clear_cookies()
    await page.goto("/login?next=/runs")
    await page.get_by_role("button", name="Sign in with a passkey").click()

    await expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    [fact] = [each for each in await operators(desk) if isinstance(each, PasskeyChanged)]
    assert (fact.change, fact.person, fact.name, fact.rp_id, fact.signatures) == (
        "registered", "ana", "Laptop", "localhost", [],
    )  # fmt: skip
    sessions = await desk.web.accounts.sessions("ana")
    assert {each.assurance for each in sessions} == {"password", "passkey"}
    [key] = await desk.web.passkeys.keys("ana")
    assert key.id == (await authenticator.credentials())[0]["credentialId"].translate(str.maketrans("+/", "-_")).rstrip(
        "="
    )


async def test_a_call_that_asks_for_it_is_signed_and_the_signature_stands_in_the_log(
    desk: RunningDesk, arrive: Arrive
) -> None:
    run = await desk.waiting_run("Bank")
    page, _ = await with_passkey(arrive)
    await sit_down(page)
    await open_request(page, "transfer")
    await expect(page.get_by_text("You sign this with your passkey")).to_be_visible()
    await armed(page)
    await page.get_by_role("button", name="Approve").click()
    ended = await desk.desk.wait(run.id, until="ended", timeout=PATIENCE)

    found = await facts(desk, run.id)
    [vote] = [each for each in found if isinstance(each, VoteCast)]
    [decision] = [each for each in found if isinstance(each, DecisionMade)]
    assert ended.status == "ended"
    assert (decision.by, decision.via, decision.assurance) == ("ana", "session", "signed")
    assert vote.signed is not None
    assert (vote.signed.digest, vote.signed.verdict) == (decision.digest, "approve")


async def test_an_edit_is_signed_with_what_it_makes_of_the_call(desk: RunningDesk, arrive: Arrive) -> None:
    run = await desk.waiting_run("Bank")
    page, _ = await with_passkey(arrive)
    await sit_down(page)
    await open_request(page, "transfer")
    await page.keyboard.press("e")
    await panel(page).get_by_label("cents").fill("700")
    await send(page)
    await desk.desk.wait(run.id, until="ended", timeout=PATIENCE)

    [vote] = [each for each in await facts(desk, run.id) if isinstance(each, VoteCast)]
    assert vote.signed is not None
    assert vote.signed.values == vote.arguments == {"cents": 700, "to": "ben"}


async def test_a_session_is_confirmed_where_a_rule_wants_it_and_nothing_is_decided_before(
    desk: RunningDesk, arrive: Arrive
) -> None:
    run = await desk.waiting_run("Shop")
    page, _ = await with_passkey(arrive)
    await sit_down(page)
    await open_request(page, "transfer")
    await expect(page.locator("#yes")).to_have_count(0)
    await page.get_by_role("button", name="Confirm with your passkey").click()
    await expect(page.locator("#yes")).to_have_count(1)
    await armed(page)
    await page.get_by_role("button", name="Approve").click()
    await desk.desk.wait(run.id, until="ended", timeout=PATIENCE)

    [decision] = [each for each in await facts(desk, run.id) if isinstance(each, DecisionMade)]
    assert decision.assurance == "passkey"


async def test_who_has_no_passkey_is_led_to_add_one(desk: RunningDesk, arrive: Arrive) -> None:
    await desk.waiting_run("Bank")
    page = await arrive("ana")
    await sit_down(page)
    await open_request(page, "transfer")
    await page.get_by_role("link", name="add one to your account").click()

    await expect(page.get_by_role("button", name="Add a passkey")).to_be_visible()


async def test_an_authenticator_that_does_not_know_its_person_signs_nothing(desk: RunningDesk, arrive: Arrive) -> None:
    run = await desk.waiting_run("Bank")
    page, authenticator = await with_passkey(arrive)
    await sit_down(page)
    await open_request(page, "transfer")
    await armed(page)
    await authenticator.person_is(verified=False)
    await page.get_by_role("button", name="Approve").click()

    await expect(page.locator("#toasts")).to_contain_text("Nothing was signed")
    assert (await desk.desk.pending(run_id=run.id))[0].status == "pending"


async def test_a_second_passkey_counts_once_the_first_one_has_signed_it(desk: RunningDesk, arrive: Arrive) -> None:
    page, laptop = await with_passkey(arrive)
    await laptop.unplugged(page)  # so that it is another device on which the second one is made
    phone = await Authenticator.plugged_into(page)
    await add_passkey(page, "Phone")
    await expect(page.locator("#toasts")).to_contain_text("Nothing was signed")
    assert [each.name for each in await desk.web.passkeys.keys("ana")] == ["Laptop"]
    await phone.unplugged(page)
    again = await Authenticator.plugged_into(page)
    await again.put(laptop.kept[0])
    await page.goto("/account")
    await page.get_by_role("button", name="Sign it").click()
    await expect(page.get_by_role("button", name="Remove Phone")).to_be_visible()

    keys = [each for each in await operators(desk) if isinstance(each, PasskeyChanged)]
    assert [each.name for each in keys] == ["Laptop", "Phone"]
    [signature] = keys[1].signatures
    assert (signature.by, signature.assertion.key) == ("ana", keys[0].id)


async def test_a_first_passkey_waits_for_two_admins_and_is_none_before(desk: RunningDesk, arrive: Arrive) -> None:
    ada, _ = await with_passkey(arrive, "ada", "admin")
    bob = await arrive("bob", "admin")
    await Authenticator.plugged_into(bob)
    await add_passkey(bob, "Laptop")
    await expect(bob.get_by_text("1 admin signs it")).to_be_visible()
    await sign_for(ada, "bob")
    ana = await arrive("ana")
    await Authenticator.plugged_into(ana)
    await add_passkey(ana, "Laptop")
    await expect(ana.get_by_text("2 admins sign it")).to_be_visible()
    await sign_for(ada, "ana")
    await expect(ada.get_by_text("ada , 1 missing")).to_be_visible()
    await expect(ada.get_by_role("button", name="Sign it for ana")).to_have_count(0)
    assert await desk.web.passkeys.keys("ana") == []
    await sign_for(bob, "ana")
    await expect(bob.get_by_role("heading", name="Passkeys that wait")).to_have_count(0)

    keys = [each for each in await operators(desk) if isinstance(each, PasskeyChanged)]
    assert [(each.person, [by.by for by in each.signatures]) for each in keys] == [
        ("ada", []), ("bob", ["ada"]), ("ana", ["ada", "bob"]),
    ]  # fmt: skip


async def sign_for(page: Page, name: str) -> None:
    await page.goto("/people")
    async with page.expect_navigation():
        await page.get_by_role("button", name=f"Sign it for {name}").click()


async def test_a_removed_passkey_signs_nothing_any_more(desk: RunningDesk, arrive: Arrive) -> None:
    await desk.waiting_run("Bank")
    page, _ = await with_passkey(arrive)
    await page.get_by_role("button", name="Remove Laptop").click()
    await expect(page.get_by_role("button", name="Remove Laptop")).to_have_count(0)
    await sit_down(page)
    await open_request(page, "transfer")

    await expect(page.get_by_text("You have none at this desk yet")).to_be_visible()
    changes = [
        (each.change, len(each.signatures)) for each in await operators(desk) if isinstance(each, PasskeyChanged)
    ]
    assert changes == [("registered", 0), ("removed", 1)]


async def test_a_copy_of_a_passkey_is_noticed_and_refused(desk: RunningDesk, arrive: Arrive) -> None:
    page, authenticator = await with_passkey(arrive)
    copied = (await authenticator.credentials())[0]
    for _ in range(2):
        await page.get_by_role("button", name="Confirm with your passkey that it is you").click()
        await page.get_by_text("This session is confirmed").wait_for()
        await page.context.clear_cookies()
        name, value = await desk.session("ana")
        await page.context.add_cookies([{"name": name, "value": value, "url": desk.url}])
        await page.goto("/account")
    await authenticator.clear()
    await authenticator.put(copied)
    await page.get_by_role("button", name="Confirm with your passkey that it is you").click()

    await expect(page.locator("#toasts")).to_contain_text("there is a copy of it")
    changes = [each.change for each in await operators(desk) if isinstance(each, PasskeyChanged)]
    assert changes == ["registered", "cloned"]
