"""The pages about the policy: what is in force, why somebody is asked, and what people's decisions suggest."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from placet.gate import Gate
from placet.policy import PolicyFile, parse_policy
from placet.service.managed_policy import PolicyChanges
from placet.service.policy_keeping import note_in_force
from tests.desk.api.scenes import at
from tests.desk.pages.test_deciding_pages import browser, post
from tests.support.desk_server import RunningDesk, running_desk

TEXT = """
[change]
approve = 1

[[rule]]
name = "large"
tool = "refund"
args.cents = { above = 10000 }
ask = { because = "Above 100 €." }

[[rule]]
name = "small"
tool = "refund"
args.cents = { at_most = 10000 }
allow = true
relax = true

[rollout]
small = "shadow"
"""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    path = tmp_path / "policy.toml"
    path.write_text(TEXT, encoding="utf-8")
    async with running_desk(tmp_path, policy=path) as running:
        yield running


def words(markup: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup)))


async def test_the_page_shows_the_running_policy_its_rules_and_what_it_would_have_decided(desk: RunningDesk) -> None:
    viewer = await browser(desk, "vera", "viewer")
    await desk.waiting_run()
    (small, large) = sorted(await desk.desk.pending(), key=lambda each: each.arguments["cents"])  # type: ignore[index, return-value]
    await desk.desk.decide(small.id, "reject", by="ben")
    await desk.desk.decide(large.id, "approve", by="ben")

    page = words((await viewer.get("/policy")).text)
    tried = (await viewer.get("/policy", params={"backtest": "1"})).text

    assert parse_policy(TEXT).version in page
    assert "large ask enforce" in page
    assert "small allow shadow" in page
    assert "Above 100 €." in page
    assert "it would have spared 0 of 2 questions of the last 30 days, and contradicted 1 rejections" in words(tried)
    assert '<strong class="badge is-rejected">1</strong>' in tried


async def test_the_page_shows_how_much_is_left_of_budgets_as_bars(tmp_path: Path) -> None:
    text = (
        '[[rule]]\nname = "free"\ntool = "pay"\nallow = true\nrelax = true\nbudget = { sum = "cents", most = 1000 }\n'
    )
    policy = parse_policy(text)
    async with running_desk(tmp_path, policy=policy) as desk:
        async with Gate(desk.desk.store, guest="jobs", policy=policy) as gate:
            await gate.claim(await gate.propose("pay", {"cents": 250}, session="s", call_id="c"))
        viewer = await browser(desk, "vera", "viewer")
        page = (await viewer.get("/policy")).text

    assert "rule free 1000 cents 750 of 1000" in words(page)
    assert 'value="0.75">750 left</meter>' in page


async def test_the_card_says_why_somebody_is_asked_and_leads_to_every_rule(desk: RunningDesk) -> None:
    ana = await browser(desk)
    await desk.waiting_run()
    (small, large) = sorted(await desk.desk.pending(), key=lambda each: each.arguments["cents"])  # type: ignore[index, return-value]

    by_tool = words((await ana.get("/inbox", params={"open": small.id})).text)
    by_rule = words((await ana.get("/inbox", params={"open": large.id})).text)
    why_small = words((await ana.get("/inbox/why", params={"open": small.id})).text)
    why_large = words((await ana.get("/inbox/why", params={"open": large.id})).text)

    assert "Why you are asked: the tool's own rule asks." in by_tool
    assert "rule «large» (policy.toml, line 5) asks: Above 100 €." in by_rule
    assert "The tool's own rule (needs_approval) asks about it" in why_small
    assert "large ask enforce does not match" in why_small
    assert "small allow shadow matches" in why_small
    assert "large decides ask enforce matches" in why_large


async def test_a_suggestion_stands_as_a_card_and_is_put_to_the_vote_in_shadow(tmp_path: Path) -> None:
    async with running_desk(tmp_path, policy="managed") as desk:
        store, clock = desk.desk.store, desk.web.clock
        async with Gate(store, guest="jobs") as gate:
            for number in range(8):
                call = await gate.propose("pay", {"cents": 100 + number}, session="s", call_id=f"c{number}")
                await desk.desk.decide(call.request_id or "", "approve", by="ben")
        first = await PolicyChanges(store, clock).propose(parse_policy("[change]\napprove = 1\n"), by="ana")
        await desk.desk.decide(first.request or "", "approve", by="ben")
        await desk.desk._keeper.look()  # type: ignore[union-attr]
        root, viewer = await browser(desk, "root", "admin"), await browser(desk, "vera", "viewer")

        card = (await viewer.get("/inbox/suggested")).text
        page = (await root.get("/policy/suggested")).text
        (digest,) = re.findall(r'name="rule" value="([^"]+)"', page)
        hidden = await post(viewer, "/policy/suggested", rule=digest)
        moved = await post(root, "/policy/suggested", rule="another")
        sent = await post(root, "/policy/suggested", rule=digest)
        waits = [each for each in await desk.desk.pending() if each.tool == "apply_policy"]

    assert "A rule would have spared 8 of 8 questions" in words(card)
    assert (hidden.status_code, moved.status_code, sent.status_code) == (403, 409, 303)
    (asked,) = waits
    assert isinstance(asked.arguments, dict)
    changes = str(asked.arguments["changes"])
    assert '+name = "usual-pay"' in changes
    assert '+"usual-pay" = "shadow"' in changes


LARGE = '[[rule]]\nname = "large"\ntool = "pay"\nask = {{ approve = {} }}\n'


async def test_a_question_keeps_what_it_asked_for_and_says_so_when_the_policy_asks_for_fewer(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(LARGE.format(3), encoding="utf-8")
    source = PolicyFile(path, look_seconds=0)
    async with (
        running_desk(tmp_path, policy=source) as desk,
        Gate(desk.desk.store, guest="jobs", policy=source) as gate,
    ):
        ana, root = await browser(desk), await desk.person("root", "admin")
        asked = (await gate.propose("pay", {"cents": 5}, session="s", call_id="c1")).request_id or ""
        for name in ("ben", "flo"):
            await desk.desk.decide(asked, "approve", by=name)
        before = source.current()
        await note_in_force(desk.desk.store, before, 1.0)
        path.write_text(LARGE.format(3) + LARGE.format(1).replace("large", "other").replace("pay", "fly"))
        otherwise_the_same = (await ana.get("/inbox", params={"open": asked})).text
        path.write_text(LARGE.format(2), encoding="utf-8")
        relaxed = words((await ana.get("/inbox", params={"open": asked})).text)
        shown = (await root.get(at(asked))).json()
        await desk.desk.decide(asked, "reject", by="ben", reason="Ask anew.")
        again = (await gate.propose("pay", {"cents": 5}, session="s", call_id="c2")).request_id or ""
        first = await desk.desk.decide(again, "approve", by="ben")
        second = await desk.desk.decide(again, "approve", by="flo")
        anew = (await root.get(at(again))).json()

    assert "asked-under" not in otherwise_the_same
    assert f"Asked under version {before.version} of the policy, and it keeps what it asked for." in relaxed
    assert f"Version {source.current().version}, in force now, asks for 2 to approve." in relaxed
    assert "reject it and have the call proposed again" in relaxed
    assert (shown["status"], shown["missing"]) == ("pending", 1)
    assert shown["asked_under"] in relaxed
    assert (first.status, second.status, anew["asked_under"]) == ("pending", "approved", None)
