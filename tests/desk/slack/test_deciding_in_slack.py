"""Deciding in Slack, with the real client of Slack against a server that speaks its Web API and its sockets."""

from __future__ import annotations

import pytest

from placet.core.log import Log, read_lines
from placet.desk.slack import door
from placet.facts.events import AnyFact, DecisionMade
from tests.desk.pages.test_deciding_pages import browser
from tests.desk.pages.test_deciding_pages import post as post_page
from tests.desk.scenes import PATIENCE
from tests.desk.slack.scenes import asked, linked, newest_view
from tests.support.desk_server import RunningDesk
from tests.support.slack_server import SlackServer

pytestmark = pytest.mark.promise("P25")


def facts_of(log: Log) -> list[AnyFact]:
    return [fact for record in read_lines(log.lines) for fact in record.facts]


async def test_a_question_is_approved_in_slack_and_the_message_shows_who_did(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack, shows_arguments=True)
    waiting = (message.words, message.buttons)
    await slack.click("U0ANA", message, "Approve")
    await slack.until(lambda: "approved by ana" in message.words)
    ended = await desk.desk.wait(request.run_id, timeout=PATIENCE)
    kept = await desk.desk.request(request.id)

    assert "delete_folder waits for a yes" in waiting[0]
    assert request.digest in waiting[0]
    assert "/exports/2023" in waiting[0]
    assert waiting[1] == ["Approve", "Reject…", "Edit…", "Open at the desk"]
    assert (kept.status, kept.decided_by, kept.decided_via, kept.assurance) == ("approved", "ana", "slack", "chat")
    assert ended.status == "ended"
    assert message.buttons == ["Look"]
    assert slack.private[1:] == []


async def test_a_thin_message_shows_no_arguments_and_its_dialogue_shows_them_to_who_decides(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack)
    await slack.click("U0ANA", message, "Approve")
    view = await newest_view(slack)
    before = (await desk.desk.request(request.id)).status
    await slack.submit(view)
    await slack.until(lambda: "approved by ana" in message.words)

    assert "/exports" not in message.words
    assert "/exports/2023" in view.words
    assert before == "pending"
    assert (await desk.desk.request(request.id)).status == "approved"
    assert not view.is_open


async def test_a_rejection_has_a_message_that_the_agent_reads(desk: RunningDesk, slack: SlackServer) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack)
    await slack.click("U0ANA", message, "Reject")
    await slack.submit(await newest_view(slack), {"message": "Keep it until May."})
    await slack.until(lambda: "rejected by ana" in message.words)
    await desk.desk.wait(request.run_id, timeout=PATIENCE)
    run = await desk.desk.store.load(request.run_id)

    assert (await desk.desk.request(request.id)).status == "rejected"
    assert run is not None
    assert run.log is not None
    assert b"Keep it until May." in b"".join(run.log.lines)


async def test_an_edit_comes_from_the_tools_schema_and_what_nobody_touched_stays(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack)
    await slack.click("U0ANA", message, "Edit")
    view = await newest_view(slack)
    await slack.submit(view, {"f.older_than": "many"})
    wrong = dict(view.errors)
    await slack.submit(view, {"f.path": "/exports/2022", "f.mode": "erase", "f.older_than": "12.5"})
    await slack.until(lambda: "approved with changed arguments by ana" in message.words)
    await desk.desk.wait(request.run_id, timeout=PATIENCE)
    run = await desk.desk.store.load(request.run_id)

    assert "number" in wrong["f.older_than"]
    assert (await desk.desk.request(request.id)).status == "edited"
    assert run is not None
    assert run.log is not None
    (made,) = [fact for fact in facts_of(run.log) if isinstance(fact, DecisionMade)]
    assert made.arguments == {
        "path": "/exports/2022",
        "mode": "erase",
        "retention": {"keep_days": 7, "notify": ["ops"]},
        "older_than": 12.5,
    }


async def test_what_the_tool_refuses_is_said_beside_its_field(desk: RunningDesk, slack: SlackServer) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack)
    await slack.click("U0ANA", message, "Edit")
    view = await newest_view(slack)
    await slack.submit(view, {"f.retention": '{"keep_days": "long"}'})

    assert "f.retention" in view.errors
    assert view.is_open
    assert (await desk.desk.request(request.id)).status == "pending"


async def test_the_message_shows_what_was_decided_elsewhere(desk: RunningDesk, slack: SlackServer) -> None:
    message, request = await asked(desk, slack)
    ben = await browser(desk, "ben")
    await post_page(ben, "/inbox/decide", open=request.id, digest=request.digest, decision="reject")
    await slack.until(lambda: "rejected by ben" in message.words)

    assert message.buttons == ["Look"]
    assert "Known by a password" in message.words


async def test_an_approval_that_is_taken_back_is_taken_back_on_its_message_and_asked_anew(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await desk.desk.hold("agent", "Archivist", by="ops")
    message, request = await asked(desk, slack)
    await desk.desk.decide(request.id, "approve", by="ben")
    await slack.until(lambda: "approved by ben" in message.words)
    await desk.desk.revoke(request.id, by="ben")
    await slack.until(lambda: len(slack.of("C0FINANCE")) == 2 and "over" in message.words)
    again = slack.of("C0FINANCE")[1]

    assert message.buttons == ["Look"]
    assert again.buttons[0] == "Approve"


async def test_of_two_who_click_one_decides_and_the_other_is_told_who(desk: RunningDesk, slack: SlackServer) -> None:
    await linked(desk, slack)
    await linked(desk, slack, "ben", "U0BEN")
    message, request = await asked(desk, slack, shows_arguments=True)
    await slack.click("U0ANA", message, "Reject")
    late = await newest_view(slack)
    await slack.click("U0BEN", message, "Approve")
    await slack.submit(late, {"message": "no"})

    assert (await desk.desk.request(request.id)).decided_by == "ben"
    assert "approved by ben" in late.words
    assert late.view["blocks"][0]["type"] == "section"


async def test_a_message_that_somebody_deleted_in_slack_stops_nothing(desk: RunningDesk, slack: SlackServer) -> None:
    message, request = await asked(desk, slack)
    (hook,) = await desk.desk.outbox.subscriptions.all()
    del slack.messages[message.channel, message.ts]
    await desk.desk.decide(request.id, "reject", by="ben")
    await slack.until(lambda: "chat.update" in slack.calls)
    await desk.waiting_run("Archivist")
    after = await slack.written()

    assert "waits for a yes" in after.words
    assert await desk.desk.outbox.subscriptions.parked(hook.id) == []


async def test_while_slack_refuses_a_message_is_tried_again_and_comes_in_its_order(
    desk: RunningDesk, slack: SlackServer
) -> None:
    slack.fails = ["ratelimited", "internal_error"]
    message, request = await asked(desk, slack)
    await desk.desk.decide(request.id, "reject", by="ben")
    await slack.until(lambda: "rejected by ben" in message.words)

    assert len(slack.of("C0FINANCE")) == 1
    assert slack.fails == []


async def test_what_a_dialogue_had_to_say_comes_as_a_message_where_slack_did_not_wait_for_it(
    desk: RunningDesk, slack: SlackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(desk, slack)
    message, request = await asked(desk, slack)
    await slack.click("U0ANA", message, "Edit")
    view = await newest_view(slack)
    monkeypatch.setattr(door, "CONFIRM_SECONDS", 0)
    await slack.submit(view, {"f.older_than": "many"})
    await slack.until(lambda: any("Write a number" in each.words for each in slack.of("D0ANA")))

    assert not view.is_open
    assert (await desk.desk.request(request.id)).status == "pending"
