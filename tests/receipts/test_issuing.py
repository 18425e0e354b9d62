"""Which calls get a receipt, what it says of them, and that a key that cannot sign lets nothing begin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Needs, RunConfig, Runner, RunState, ToolContext, ToolOutcomeUnknown, function_tool
from placet.facts.codec import JsonObject
from placet.facts.errors import ReceiptNotSigned, ReceiptRefused, UserError
from placet.policy import parse_policy
from placet.receipts import (
    HEADER,
    META,
    KeyFile,
    KeyText,
    Receipts,
    new_key,
    receipts_from_environment,
    verify,
)
from placet.receipts.keys import rotated
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call

KEYS = json.dumps({"keys": [new_key()]})
NAMES = {"refund": {"cents": 5}}


class Till:
    """A tool, and the receipts that its function was given."""

    def __init__(self, **options: Any) -> None:
        self.got: list[ToolContext[Any]] = []
        self.is_lost = False

        @function_tool(**{"needs_approval": True, **options})
        async def refund(ctx: ToolContext[Any], cents: int) -> str:
            """Pay money back."""
            self.got.append(ctx)
            if self.is_lost:
                raise ToolOutcomeUnknown("the line broke")
            return f"paid {cents}"

        self.tool = refund
        self.receipts = Receipts(KeyText(KEYS), issuer="desk")

    def agent(self, **call: Any) -> Agent[Any]:
        steps = [[function_call("refund", call or {"cents": 5}, call_id="c1")], [assistant_message("Done.")]]
        return Agent("Bank", tools=[self.tool], model=ScriptedModel(steps))

    async def paused(self, **more: Any) -> tuple[Agent[Any], RunState, RunConfig]:
        agent = self.agent()
        config = RunConfig(receipts=self.receipts, **more)
        return agent, (await Runner.run(agent, "Refund", run_config=config)).to_state(), config

    def said(self, **arguments: Any) -> Any:
        ctx = self.got[-1]
        return verify(ctx.receipt, "refund", arguments or {"cents": 5}, self.receipts.jwks())


async def test_an_approved_call_gets_a_receipt_that_says_who_approved_it() -> None:
    till = Till()
    agent, state, config = await till.paused()
    state.approve("c1", by="ana", reason="fine")
    await Runner.run(agent, state, run_config=config)
    found = till.said()

    assert found.jti == till.got[0].idempotency_key
    assert found.call == till.got[0].call
    assert (found.decision["by"], found.decision["verdict"], found.decision["assurance"]) == ("ana", "approve", "none")
    assert till.got[0].receipt_headers == {HEADER: till.got[0].receipt}
    assert till.got[0].receipt_meta == {META: till.got[0].receipt}


async def test_after_an_edit_the_receipt_is_about_what_runs() -> None:
    till = Till()
    agent, state, config = await till.paused()
    state.approve("c1", by="ana", arguments={"cents": 3})
    await Runner.run(agent, state, run_config=config)

    assert till.said(cents=3).decision["verdict"] == "edit"
    with pytest.raises(ReceiptRefused, match="another call"):
        till.said(cents=5)


async def test_all_whose_votes_carry_the_yes_stand_in_the_receipt() -> None:
    till = Till(approvers=Needs(2))
    agent, state, config = await till.paused()
    state.approve("c1", by="ana")
    state.approve("c1", by="ben")
    await Runner.run(agent, state, run_config=config)

    assert [vote["by"] for vote in till.said().decision["votes"]] == ["ana", "ben"]


async def test_a_standing_decision_stands_in_the_receipt() -> None:
    till = Till()
    steps = [[function_call("refund", {"cents": n}, call_id=f"c{n}")] for n in (5, 6)]
    agent = Agent("Bank", tools=[till.tool], model=ScriptedModel([*steps, [assistant_message("Done.")]]))
    config = RunConfig(receipts=till.receipts)
    state = (await Runner.run(agent, "Refund", run_config=config)).to_state()
    state.approve("c5", always_approve=True, by="ana")
    await Runner.run(agent, state, run_config=config)

    assert "grant" not in verify(till.got[0].receipt, "refund", {"cents": 5}, till.receipts.jwks()).decision
    assert till.said(cents=6).decision["grant"].startswith("grant_")


async def test_a_rule_that_allows_stands_in_the_receipt_with_the_policys_version() -> None:
    rules = parse_policy('[[rule]]\nname = "small"\nallow = true\ntool = "refund"\nrelax = true\n')
    till = Till()
    result = await Runner.run(till.agent(), "Refund", run_config=RunConfig(receipts=till.receipts, policy=rules))
    found = till.said()

    assert result.final_output == "Done."
    assert found.decision is None
    assert found.policy["rules"] == ["small"]
    assert found.policy["version"] == rules.current().version


async def test_a_call_that_nobody_approved_has_no_receipt() -> None:
    free, plain = Till(needs_approval=False), Till()
    await Runner.run(free.agent(), "Refund", run_config=RunConfig(receipts=free.receipts))
    agent, state, _ = await plain.paused()
    state.approve("c1", by="ana")
    await Runner.run(agent, state)  # and where no receipts are issued, there is none

    assert free.got[0].receipt is None
    assert plain.got[0].receipt is None
    assert (plain.got[0].receipt_headers, plain.got[0].receipt_meta) == ({}, None)


async def test_inside_a_nested_run_a_call_has_its_own_receipt() -> None:
    till = Till()
    outer = Agent(
        "Front",
        tools=[till.agent().as_tool("ask_bank", "Asks the bank.")],
        model=ScriptedModel(
            [[function_call("ask_bank", {"input": "pay"}, call_id="o1")], [assistant_message("Done.")]]
        ),
    )
    config = RunConfig(receipts=till.receipts)
    state = (await Runner.run(outer, "Refund", run_config=config)).to_state()
    state.approve(state.get_interruptions()[0], by="ana")
    await Runner.run(outer, state, run_config=config)

    assert till.said().agent == "Front/ask_bank(Bank)"
    assert till.said().jti == till.got[0].idempotency_key


class Service:
    """A key service: it is away until it is back, and something may happen while it signs."""

    def __init__(self) -> None:
        self.key = KeyText(KEYS).signing(0)
        self.algorithm = self.key.algorithm
        self.is_away = True
        self.meanwhile: Any = None

    def public(self) -> JsonObject:
        return self.key.public()

    async def sign(self, data: bytes) -> bytes:
        if self.is_away:
            raise ConnectionError("no route")
        if self.meanwhile is not None:
            work, self.meanwhile = self.meanwhile, None
            await work()
        return await self.key.sign(data)


async def test_while_the_key_cannot_be_used_nothing_begins_and_the_run_goes_on_later() -> None:
    till, service = Till(), Service()
    till.receipts = Receipts(service)
    agent, state, config = await till.paused()
    state.approve("c1", by="ana")
    with pytest.raises(ReceiptNotSigned, match="no route") as caught:
        await Runner.run(agent, state, run_config=config)
    assert till.got == []
    service.is_away = False
    result = await Runner.run(agent, caught.value.state, run_config=config)

    assert result.final_output == "Done."
    assert till.said().decision["by"] == "ana"
    assert len(till.got) == 1


async def test_an_approval_that_is_taken_back_while_its_receipt_is_signed_lets_nothing_run(tmp_path: Path) -> None:
    from placet.desk import Desk

    till, service = Till(), Service()
    service.is_away = False
    async with Desk(
        f"sqlite:///{tmp_path / 'placet.db'}", [till.agent()], run_config=RunConfig(receipts=Receipts(service))
    ) as desk:
        run = await desk.start("Bank", "Refund")
        await desk.wait(run.id, until="paused", timeout=60)
        (request,) = await desk.pending()

        async def regret() -> None:
            await desk.revoke(request.id, by="ana")

        service.meanwhile = regret
        await desk.decide(request.id, "approve", by="ana")
        await desk.wait(run.id, until="paused", timeout=60)
        asked = await desk.pending()

        assert till.got == []
        assert [each.run_id for each in asked] == [run.id]
        await desk.decide(asked[0].id, "approve", by="ben")
        await desk.wait(run.id, timeout=60)

    assert [
        verify(ctx.receipt, "refund", {"cents": 5}, Receipts(service).jwks()).decision["by"] for ctx in till.got
    ] == ["ben"]


async def test_an_approval_that_is_given_anew_while_its_receipt_is_signed_has_its_own(tmp_path: Path) -> None:
    from placet.desk import Desk

    till, service = Till(), Service()
    service.is_away = False
    async with Desk(
        f"sqlite:///{tmp_path / 'placet.db'}", [till.agent()], run_config=RunConfig(receipts=Receipts(service))
    ) as desk:
        run = await desk.start("Bank", "Refund")
        await desk.wait(run.id, until="paused", timeout=60)
        (request,) = await desk.pending()

        async def others_approve() -> None:
            await desk.revoke(request.id, by="ana")
            (asked,) = await desk.pending()
            await desk.decide(asked.id, "approve", by="ben")

        service.meanwhile = others_approve
        await desk.decide(request.id, "approve", by="ana")
        await desk.wait(run.id, timeout=60)

    (found,) = (verify(ctx.receipt, "refund", {"cents": 5}, Receipts(service).jwks()) for ctx in till.got)
    assert (found.decision or {})["by"] == "ben"


async def test_a_receipt_names_the_policy_that_was_in_force_when_the_call_began() -> None:
    old, new = (parse_policy(f'[[rule]]\nname = "{name}"\nask = true\ntool = "refund"\n') for name in ("old", "new"))

    class Changing:
        now = old

        def current(self) -> Any:
            return self.now.current()

    till, rules = Till(), Changing()
    agent, state, config = await till.paused(policy=rules)
    state.approve("c1", by="ana")
    rules.now = new
    await Runner.run(agent, state, run_config=config)

    assert (till.said().policy["rules"], till.said().policy["version"]) == (["new"], new.current().version)


async def test_a_second_attempt_has_a_new_receipt_with_the_same_jti() -> None:
    till = Till()
    till.is_lost = True
    agent, state, config = await till.paused()
    state.approve("c1", by="ana")
    doubtful = (await Runner.run(agent, state, run_config=config)).to_state()
    till.is_lost = False
    doubtful.approve("c1", by="ben")
    await Runner.run(agent, doubtful, run_config=config)
    first, second = (verify(ctx.receipt, "refund", {"cents": 5}, till.receipts.jwks()) for ctx in till.got)

    assert first.jti == second.jti
    assert [(found.decision or {})["by"] for found in (first, second)] == ["ana", "ben"]


# -- keys -------------------------------------------------------------------------------------------------------------


async def test_a_rotated_key_is_published_first_and_signs_when_its_time_has_come(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(KEYS)
    clock = ManualClock()
    receipts = Receipts(KeyFile(file))
    claims: JsonObject = {"jti": "j", "tool": "t", "digest": "", "call": "c", "agent": "a"}
    before = await receipts.issue(claims, clock.now())
    file.write_text(rotated(KEYS, signs_from=clock.now() + 100, drop_before=0))
    published = receipts.jwks()["keys"]
    still = await receipts.issue(claims, clock.now())
    after = await receipts.issue(claims, clock.now() + 101)

    assert len(published) == 2
    assert kid(before) == kid(still) != kid(after)
    assert {kid(before), kid(after)} == {key["kid"] for key in published}
    assert "d" not in published[0]


def test_a_key_that_stopped_signing_long_ago_is_left_out() -> None:
    twice = rotated(rotated(KEYS, signs_from=100, drop_before=0), signs_from=200, drop_before=0)

    assert len(KeyText(twice).published()) == 3
    assert len(KeyText(rotated(twice, signs_from=300, drop_before=150)).published()) == 3  # the first is gone
    assert len(KeyText(rotated(twice, signs_from=300, drop_before=250)).published()) == 2


def kid(token: str) -> str:
    import base64

    head = token.split(".", maxsplit=1)[0]
    return json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))["kid"]


def test_the_environment_names_a_file_or_holds_the_keys_and_wrong_ones_are_refused_at_once(tmp_path: Path) -> None:
    import base64

    file = tmp_path / "keys.json"
    file.write_text(KEYS)
    as_text = {"PLACET_RECEIPT_KEYS": KEYS, "PLACET_RECEIPT_ISSUER": "https://desk.example.com"}
    coded = {"PLACET_RECEIPT_KEYS": base64.b64encode(KEYS.encode()).decode()}
    found = receipts_from_environment(as_text)

    assert receipts_from_environment({}) is None
    assert found is not None
    assert found.issuer == "https://desk.example.com"
    for given in ({"PLACET_RECEIPT_KEYS_FILE": str(file)}, coded):
        again = receipts_from_environment(given)
        assert again is not None
        assert again.jwks() == found.jwks()
    public = json.dumps(found.jwks())
    secret = json.dumps({"kty": "oct", "k": "c2VjcmV0"})
    for wrong in ("{", "{}", "nonsense", '{"keys": []}', '{"keys": [7]}', public, secret, '{"keys": [{"kty": "EC"}]}'):
        with pytest.raises(UserError):
            receipts_from_environment({"PLACET_RECEIPT_KEYS": wrong})
    with pytest.raises(UserError):
        receipts_from_environment({"PLACET_RECEIPT_KEYS": KEYS, "PLACET_RECEIPT_KEYS_FILE": str(file)})
    with pytest.raises(UserError, match="cannot be read"):
        receipts_from_environment({"PLACET_RECEIPT_KEYS_FILE": str(tmp_path / "none")})
