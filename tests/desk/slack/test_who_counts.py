"""Clicks that decide nothing: strangers, another workspace, repeated, late, about other things, not sure enough."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Needs, function_tool
from placet.desk.access.people import DecisionScope
from placet.facts.codec import JsonObject
from placet.testing import function_call
from tests.desk.scenes import PATIENCE, Planned
from tests.desk.slack.scenes import asked, linked, links, newest_view, tell_slack
from tests.support.decided import remembered
from tests.support.desk_server import RunningDesk, running_desk
from tests.support.slack_server import OTHER_TEAM, SlackServer

pytestmark = pytest.mark.promise("P25")


def bank(**options: Any) -> list[Agent[Any]]:
    @function_tool(needs_approval=True, **options)
    async def transfer(cents: int) -> str:
        """Pay somebody."""
        return f"paid {cents}"

    calls = [function_call("transfer", {"cents": 5}, call_id="t1")]
    return [Agent("Bank", tools=[transfer], model=Planned(calls))]


@pytest.fixture
async def bank_desk(request: pytest.FixtureRequest, slack: SlackServer, tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, agents=bank(**request.param)) as running:
        await slack.connected()
        yield running


async def transfer_asked(desk: RunningDesk, slack: SlackServer) -> tuple[Any, Any]:
    await tell_slack(desk, shows_arguments=True)
    run = await desk.waiting_run("Bank")
    (request,) = await desk.desk.pending(run_id=run.id)
    return await slack.written(), request


async def test_another_members_click_is_answered_in_private_and_does_not_count(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack, shows_arguments=True)
    before = (message.words, message.edits)
    for label in ("Approve", "Reject", "Edit"):
        await slack.click("U0EVE", message, label)
    told = [each for each in slack.private if each.seen_by == "U0EVE"]

    assert (await desk.desk.request(request.id)).status == "pending"
    assert (message.words, message.edits) == before
    assert len(told) == 3
    assert "does not count" in told[0].words
    assert slack.views == []


async def test_who_clicks_on_and_on_is_not_answered_on_and_on(desk: RunningDesk, slack: SlackServer) -> None:
    message, request = await asked(desk, slack)
    for _ in range(15):
        await slack.click("U0EVE", message, "Approve")

    assert len([each for each in slack.private if each.seen_by == "U0EVE"]) <= 11
    assert (await desk.desk.request(request.id)).status == "pending"


@pytest.mark.parametrize("where", ["team", "user"])
async def test_a_click_from_another_workspace_means_nothing_at_all(
    desk: RunningDesk, slack: SlackServer, where: str
) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack, shows_arguments=True)

    def of_others(payload: dict[str, Any]) -> None:
        if where == "team":
            payload["team"]["id"] = OTHER_TEAM
        else:  # somebody of a shared channel, who has the same id in another workspace
            payload["user"]["team_id"] = OTHER_TEAM

    count = len(slack.private)
    await slack.click("U0ANA", message, "Approve", change=of_others)

    assert (await desk.desk.request(request.id)).status == "pending"
    assert slack.private[count:] == []


async def test_a_click_for_another_question_or_digest_or_message_decides_nothing(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(desk, slack)
    message, first = await asked(desk, slack, shows_arguments=True)
    run = await desk.waiting_run("Archivist")
    (second,) = await desk.desk.pending(run_id=run.id)
    other = await slack.written(count=2)
    hook, shown, digest = json.loads(message.button("Approve")["value"])

    def with_value(*value: str) -> Callable[[dict[str, Any]], None]:
        return lambda payload: payload["actions"][0].update(value=json.dumps(value))

    def elsewhere(payload: dict[str, Any]) -> None:
        payload["container"]["message_ts"] = other.ts

    forged = [
        with_value(hook, second.id, second.digest),  # a button of this message, about another's question
        with_value(hook, shown, "v2-another"),
        with_value("hook_another", shown, digest),
        lambda payload: payload["actions"][0].update(value="approve!"),
        lambda payload: payload["actions"][0].update(action_id="placet_everything"),
        elsewhere,
        lambda payload: payload["container"].update(channel_id="C0OPS"),
    ]
    for change in forged:
        await slack.click("U0ANA", message, "Approve", change=change)
    waiting = {each.id for each in await desk.desk.pending()}

    assert waiting == {first.id, second.id}
    assert len([each for each in slack.private if each.seen_by == "U0ANA"]) >= len(forged)


async def test_a_click_that_is_older_than_ten_minutes_decides_nothing(desk: RunningDesk, slack: SlackServer) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack, shows_arguments=True)

    def old(payload: dict[str, Any]) -> None:
        action = payload["actions"][0]
        action["action_ts"] = str(float(action["action_ts"]) - 700)

    await slack.click("U0ANA", message, "Approve", change=old)

    assert (await desk.desk.request(request.id)).status == "pending"
    assert "too late" in slack.private[-1].words


@pytest.mark.parametrize("bank_desk", [{"approvers": Needs(2)}], indirect=True)
async def test_a_click_that_is_sent_again_after_its_vote_was_taken_back_does_not_vote_again(
    bank_desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(bank_desk, slack)
    message, request = await transfer_asked(bank_desk, slack)
    await slack.click("U0ANA", message, "Approve")
    await slack.until(lambda: "So far: ana" in message.words)
    clicked = slack.envelopes[-1]
    await bank_desk.desk.revoke(request.id, by="ana")
    await slack.until(lambda: "So far: nobody" in message.words)
    await slack.send(clicked)
    now = await bank_desk.desk.request(request.id)

    assert now.votes == ()
    assert now.status == "pending"


@pytest.mark.parametrize(
    "bank_desk", [{"approvers": Needs(1, assurance="password")}, {"irreversible": True}], indirect=True
)
async def test_what_a_chat_cannot_prove_or_show_has_no_button_but_the_way_to_the_desk(
    bank_desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(bank_desk, slack)
    message, request = await transfer_asked(bank_desk, slack)
    kept = message.button("Open at the desk")
    hook = (await bank_desk.desk.outbox.subscriptions.all())[0].id

    def forged(payload: dict[str, Any]) -> None:
        value = json.dumps([hook, request.id, request.digest])
        payload["actions"][0].update(action_id="placet_approve", value=value)

    await slack.click("U0ANA", message, "Open at the desk", change=forged)

    assert "Approve" not in message.buttons
    assert kept["url"] == f"https://desk.example.com/inbox?open={request.id}"
    assert (await bank_desk.desk.request(request.id)).status == "pending"
    assert "Open at the desk" in slack.private[-1].buttons


@pytest.mark.parametrize("bank_desk", [{"approvers": Needs(2, assurance="chat")}], indirect=True)
async def test_a_click_is_sure_enough_where_a_chat_is_and_says_how_sure(
    bank_desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(bank_desk, slack)
    await linked(bank_desk, slack, "ben", "U0BEN")
    message, request = await transfer_asked(bank_desk, slack)
    await slack.click("U0ANA", message, "Approve")
    await slack.click("U0BEN", message, "Approve")
    await slack.until(lambda: "approved by ben" in message.words)
    now = await bank_desk.desk.request(request.id)

    assert (now.status, now.decided_by, now.decided_via, now.assurance) == ("approved", "ben", "slack", "chat")
    assert "Known by a linked chat account" in message.words


ORDERS: list[JsonObject] = [{"cents": 4000 + n * 50} for n in range(24)]


@pytest.mark.parametrize("bank_desk", [{}], indirect=True)
async def test_what_is_unusual_is_looked_at_at_the_desk(bank_desk: RunningDesk, slack: SlackServer) -> None:
    await remembered(bank_desk.desk.store, "Bank", "transfer", ORDERS)
    await linked(bank_desk, slack)
    message, request = await transfer_asked(bank_desk, slack)
    await slack.click("U0ANA", message, "Approve")

    assert (await bank_desk.desk.request(request.id)).status == "pending"
    assert "unusual" in slack.private[-1].words


async def test_who_may_not_decide_the_call_may_not_in_slack_either(desk: RunningDesk, slack: SlackServer) -> None:
    await linked(desk, slack)
    await linked(desk, slack, "ben", "U0BEN")
    await desk.web.accounts.change_user("ana", decides=(DecisionScope(tool="refund"),))
    await desk.web.accounts.change_user("ben", role="viewer")
    message, request = await asked(desk, slack, shows_arguments=True)
    for user in ("U0ANA", "U0BEN"):
        await slack.click(user, message, "Approve")

    assert (await desk.desk.request(request.id)).status == "pending"
    assert "may not decide" in slack.private[-2].words
    assert "may look" in slack.private[-1].words


async def test_who_started_a_run_under_four_eyes_cannot_approve_it_in_slack(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(desk, slack)
    await desk.desk.set_four_eyes([("*", "*")], by="ops")
    await tell_slack(desk, shows_arguments=True)
    run = await desk.waiting_run("Archivist", by="ana")
    (request,) = await desk.desk.pending(run_id=run.id)
    await slack.click("U0ANA", await slack.written(), "Approve")

    assert (await desk.desk.request(request.id)).status == "pending"


async def test_a_dialogue_is_of_one_person_and_decides_once(desk: RunningDesk, slack: SlackServer) -> None:
    await linked(desk, slack)
    await linked(desk, slack, "ben", "U0BEN")
    message, request = await asked(desk, slack)
    await slack.click("U0ANA", message, "Approve")
    view = await newest_view(slack)
    view.user = "U0BEN"
    await slack.submit(view)
    stolen = (view.words, (await desk.desk.request(request.id)).status)
    await slack.click("U0ANA", message, "Approve")
    mine = await newest_view(slack, 2)
    before = mine.view
    await slack.submit(mine)
    await desk.desk.wait(request.run_id, timeout=PATIENCE)
    mine.view = before
    await slack.submit(mine)

    assert "not yours" in stolen[0]
    assert stolen[1] == "pending"
    assert "used already" in mine.words
    assert (await desk.desk.request(request.id)).decided_by == "ana"


async def test_who_was_removed_or_switched_off_decides_nothing_any_more(desk: RunningDesk, slack: SlackServer) -> None:
    await linked(desk, slack)
    await linked(desk, slack, "ben", "U0BEN")
    message, request = await asked(desk, slack, shows_arguments=True)
    await desk.web.accounts.change_user("ana", is_active=False)
    await desk.web.accounts.remove_user("ben")
    await desk.web.accounts.add_user("ben", "reviewer")
    await asyncio.gather(*(slack.click(user, message, "Approve") for user in ("U0ANA", "U0BEN")))

    assert (await desk.desk.request(request.id)).status == "pending"
    assert await links(desk).find("slack:T0OURS:U0BEN") is None
