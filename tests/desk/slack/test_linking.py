"""Linking an account of Slack to a user of the desk: a word from the desk, typed there, confirmed on both sides."""

from __future__ import annotations

import pytest

from placet.core.log import read_line
from placet.facts.errors import AccessDenied
from placet.facts.events import ChatLinkChanged
from tests.desk.pages.test_deciding_pages import browser
from tests.desk.slack.scenes import asked, linked, links, newest_view, post, word_of
from tests.support.desk_server import RunningDesk
from tests.support.slack_server import SlackServer

pytestmark = pytest.mark.promise("P25")

ANA = "slack:T0OURS:U0ANA"


async def operators_text(desk: RunningDesk) -> bytes:
    return b"".join((await desk.desk.store.operators_log()).lines)


async def test_both_sides_confirm_and_the_log_says_who_is_who(desk: RunningDesk, slack: SlackServer) -> None:
    ana = await browser(desk, "ana")
    word = await word_of(ana)
    asked_there = await slack.command("U0ANA", f"link {word.lower().replace('-', ' ')}")
    page_before = (await ana.get("/account/chat")).text
    too_early = await post(ana, "/account/chat", action="confirm", account=ANA)
    await slack.click("U0ANA", asked_there, "Yes, I am ana")
    page = (await ana.get("/account/chat")).text
    confirmed = await post(ana, "/account/chat", action="confirm", account=ANA)
    shown = (await ana.get("/account/chat")).text
    log = await desk.desk.store.operators_log()
    facts = [fact for line in log.lines for fact in read_line(line).facts if isinstance(fact, ChatLinkChanged)]

    assert "«ana»" in asked_there.text
    assert "U0ANA" in page_before
    assert "Yes, that is me" not in page_before
    assert too_early.status_code == 422
    assert "Yes, that is me" in page
    assert confirmed.status_code == 303
    assert "Unlink" in shown
    assert [(fact.change, fact.channel, fact.account, fact.name) for fact in facts] == [
        ("made", "slack", "T0OURS:U0ANA", "ana")
    ]
    assert word.encode() not in await operators_text(desk)
    assert any("One step is left" in each.words for each in slack.of("D0ANA"))


async def test_the_button_of_a_private_answer_leads_to_the_same_ceremony(desk: RunningDesk, slack: SlackServer) -> None:
    message, _ = await asked(desk, slack)
    ana = await browser(desk, "ana")
    await slack.click("U0ANA", message, "Approve")
    await slack.click("U0ANA", slack.private[-1], "Link my account")
    view = await newest_view(slack)
    await slack.submit(view, {"word": await word_of(ana)})
    await slack.click("U0ANA", view, "Yes, I am ana")
    await post(ana, "/account/chat", action="confirm", account=ANA)
    found = await links(desk).actor_of(ANA)

    assert found is not None
    assert (found.name, found.via, found.assurance) == ("ana", "slack", "chat")


async def test_words_are_tried_five_times_an_hour_and_no_more(desk: RunningDesk, slack: SlackServer) -> None:
    ana = await browser(desk, "ana")
    word = await word_of(ana)
    told = [(await slack.command("U0EVE", f"link AAAA-AAA{n}")).text for n in range(2, 8)]
    right = await slack.command("U0EVE", f"link {word}")
    other = await slack.command("U0ANA", f"link {word}")

    assert ["not known" in each for each in told] == [True] * 5 + [False]
    assert "Too many words" in right.text
    assert "Are you «ana»" in other.text


async def test_a_word_is_of_one_account_and_only_that_one_answers(desk: RunningDesk, slack: SlackServer) -> None:
    ana = await browser(desk, "ana")
    word = await word_of(ana)
    asked_there = await slack.command("U0ANA", f"link {word}")
    stolen = await slack.command("U0EVE", f"link {word}")
    await slack.click("U0EVE", asked_there, "Yes")
    begun = await links(desk).begun("ana")
    of_others = await slack.command("U0ANA", f"link {word}", team="T0THEIRS")

    assert "not known" in stolen.text
    assert begun is not None
    assert (begun.account, begun.is_confirmed_there) == (ANA, False)
    assert of_others.text == ""


async def test_no_ends_it_on_either_side(desk: RunningDesk, slack: SlackServer) -> None:
    ana = await browser(desk, "ana")
    there = await slack.command("U0ANA", f"link {await word_of(ana)}")
    await slack.click("U0ANA", there, "No")
    after_no_there = await links(desk).begun("ana")
    again = await slack.command("U0ANA", f"link {await word_of(ana)}")
    await post(ana, "/account/chat", action="give-up")
    await slack.click("U0ANA", again, "Yes")

    assert after_no_there is None
    assert await links(desk).find(ANA) is None
    assert "not known" in slack.private[-1].text


async def test_an_account_is_linked_to_one_user_and_a_user_to_one_account(
    desk: RunningDesk, slack: SlackServer
) -> None:
    await linked(desk, slack)
    ben = await browser(desk, "ben")
    there = await slack.command("U0ANA", f"link {await word_of(ben)}")
    await slack.click("U0ANA", there, "Yes, I am ben")
    taken = await post(ben, "/account/chat", action="confirm", account=ANA)
    ana = await browser(desk, "ana")
    second = await slack.command("U0EVE", f"link {await word_of(ana)}")
    await slack.click("U0EVE", second, "Yes, I am ana")
    two = await post(ana, "/account/chat", action="confirm", account="slack:T0OURS:U0EVE")
    found = await links(desk).find(ANA)

    assert (taken.status_code, two.status_code) == (422, 422)
    assert found is not None
    assert found.owner == "ana"


async def test_who_unlinks_is_not_known_there_any_more(desk: RunningDesk, slack: SlackServer) -> None:
    ana = await linked(desk, slack)
    ben = await browser(desk, "ben")
    await post(ben, "/account/chat", action="unlink", account=ANA)
    kept = await links(desk).find(ANA)
    await post(ana, "/account/chat", action="unlink", account=ANA)

    assert kept is not None
    assert await links(desk).actor_of(ANA) is None
    assert b'"removed"' in await operators_text(desk)


async def test_a_token_links_nothing(desk: RunningDesk, slack: SlackServer) -> None:
    ana = await desk.person("ana")
    answer = await ana.post("/account/chat", data={"action": "begin"}, headers={"Accept": "text/html"})
    with pytest.raises(AccessDenied):
        await links(desk).answer_there(ANA, "lnk-none", is_me=True)

    assert answer.status_code == 403
    assert await links(desk).begun("ana") is None
