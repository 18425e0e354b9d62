"""Calls through the gateway: asked about, executed once as approved, or answered without."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from placet.desk import Desk
from placet.desk.app import create_app
from placet.gate.mcp.serving import gate_at_desk
from tests.gate.mcp.scenes import Scene, client_of, handle_of, text_of
from tests.gate.scenes import serving as served
from tests.support.desk_server import FAST

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@ERAS
async def test_a_call_is_answered_with_a_handle_and_runs_once_when_it_is_approved(at: Scene, mode: str) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway, mode) as client:
        told = await client.call_tool("refund", {"order_id": "7", "cents": 4200})
        before = at.effects
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})
        again = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert "A person is asked whether 'shop/refund' may run; it has not run." in text_of(told)
    assert before == []
    assert text_of(done) == text_of(again) == "refunded 7"
    assert at.effects == ["refund 7 4200"]


@ERAS
async def test_a_rejected_call_never_reaches_the_server_and_its_message_is_read(at: Scene, mode: str) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway, mode) as client:
        told = await client.call_tool("refund", {"order_id": "7", "cents": 4200})
        await at.decide("reject", message="Not this month.")
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert done.is_error
    assert text_of(done) == "Not this month."
    assert at.effects == []


@ERAS
async def test_a_tool_that_was_reviewed_and_never_asks_runs_at_once_and_is_recorded(at: Scene, mode: str) -> None:
    server = at.shop_here(require_approval={"add": "never"})
    async with at.gateway({"shop": server}) as gateway:
        await at.pin(gateway)
        async with client_of(gateway, mode) as client:
            done = await client.call_tool("add", {"a": 1, "b": 2})

    assert text_of(done) == "3"
    assert done.structured_content == {"result": 3}
    assert await at.desk.pending() == []
    assert [run.agent for run in (await at.desk.runs()).rows] == ["mcp/mcp"]


async def test_what_goes_straight_through_is_neither_asked_about_nor_recorded(at: Scene) -> None:
    server = at.shop_here(require_approval={"add": "never"}, pass_through=["add", "refund"])
    async with at.gateway({"shop": server}, wait=["handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway) as client:
            done = await client.call_tool("add", {"a": 1, "b": 2})
            told = await client.call_tool("refund", {"order_id": "7", "cents": 1})

    assert text_of(done) == "3"
    assert "A person is asked" in text_of(told)  # «pass_through» lifts no ask
    assert len(await at.desk.pending()) == 1
    assert at.effects == []


POLICY = """
[[rule]]
name = "small"
server = "shop"
tool = "shop/refund"
args.cents = { at_most = 500 }
allow = true
relax = true
budget = { uses = 1 }

[[rule]]
name = "no-sums"
tool = "shop/add"
args.a = { above = 100 }
deny = "Too large."
"""


async def test_a_policy_is_over_calls_through_the_gateway_and_its_deny_wins_over_what_passes(at: Scene) -> None:
    file = at.folder / "policy.toml"
    file.write_text(POLICY, encoding="utf-8")
    server = at.shop_here(require_approval={"add": "never"}, pass_through=["add"])
    async with at.gateway({"shop": server}, wait=["handle"], policy=str(file)) as gateway:
        await at.pin(gateway)
        async with client_of(gateway) as client:
            small = await client.call_tool("refund", {"order_id": "7", "cents": 400})
            beyond = await client.call_tool("refund", {"order_id": "8", "cents": 400})
            denied = await client.call_tool("add", {"a": 101, "b": 2})
            passed = await client.call_tool("add", {"a": 1, "b": 2})
        (asked,) = await at.desk.pending()

    assert text_of(small) == "refunded 7"
    assert "A person is asked" in text_of(beyond)
    assert "the budget of rule «small» (policy.toml, line 2) does not cover it" in (asked.why or "")
    assert (denied.is_error, text_of(denied)) == (True, "Too large.")
    assert text_of(passed) == "3"
    assert at.effects == ["refund 7 400"]


@ERAS
async def test_what_runs_is_what_the_reviewer_made_of_it_and_the_client_reads_so(at: Scene, mode: str) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway, mode) as client:
        told = await client.call_tool("refund", {"order_id": "7", "cents": 4200})
        await at.decide("edit", arguments={"order_id": "7", "cents": 1000})
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})
        again = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert at.effects == ["refund 7 1000"]
    assert text_of(done) == text_of(again)
    first, second = text_of(done).splitlines()
    assert first.startswith("A reviewer changed the arguments of this call to: ")
    assert '"cents": 1000' in first
    assert second == "refunded 7"


async def test_a_person_may_answer_in_the_tools_place(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway) as client:
        told = await client.call_tool("refund", {"order_id": "7", "cents": 4200})
        await at.decide("respond", output="It was paid back by hand.")
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert not done.is_error
    assert "It was paid back by hand." in text_of(done)
    assert at.effects == []


async def test_the_same_call_made_twice_is_two_calls_whatever_the_client_numbers_them(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway:
        for _ in range(2):  # each connection numbers its requests from one on
            async with client_of(gateway) as client:
                await client.call_tool("refund", {"order_id": "7", "cents": 4200})

    assert len(await at.desk.pending()) == 2


async def test_arguments_that_do_not_fit_are_answered_to_the_model_and_nobody_is_asked(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}) as gateway, client_of(gateway) as client:
        done = await client.call_tool("refund", {"order_id": 7})

    assert done.is_error
    assert "do not fit" in text_of(done)
    assert await at.desk.pending() == []


async def test_the_servers_failure_is_read_as_it_said_it_now_and_later(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway) as client:
        told = await client.call_tool("fail", {"why": "no money left"})
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})
        later = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert done.is_error
    assert later.is_error
    assert text_of(done) == text_of(later)
    assert "no money left" in text_of(done)


async def test_pictures_and_structured_results_come_as_the_server_sent_them(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway) as client:
        told = await client.call_tool("everything", {})
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})
        later = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert done.structured_content == {"kinds": 4}
    assert [block.type for block in done.content] == ["text", "audio", "resource", "resource_link"]
    assert later == done


async def test_a_handle_is_a_name_and_no_right(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}, guest="ana", wait=["handle"]) as gateway, client_of(gateway) as a:
        told = await a.call_tool("refund", {"order_id": "7", "cents": 4200})
    async with at.gateway({"shop": at.shop_here()}, guest="eve", wait=["handle"]) as gateway, client_of(gateway) as e:
        seen = await e.call_tool("placet_check", {"handle": handle_of(told)})

    assert seen.is_error
    assert text_of(seen) == "There is no such call of yours."


DESK_POLICY = """
[[rule]]
name = "small-only"
tool = "shop/refund"
args.cents = { above = 100 }
deny = "Too large."
"""


@ERAS
async def test_at_a_desk_what_passes_is_recorded_and_the_desks_policy_denies_it(at: Scene, mode: str) -> None:
    server = at.shop_here(require_approval={"refund": "never"}, heed_hints=False, pass_through=["refund"])
    policy = at.folder / "policy.toml"
    policy.write_text(DESK_POLICY, encoding="utf-8")
    async with Desk(at.store, run=False, policy=policy) as desk:
        app = create_app(desk, FAST)
        await app.state.web.accounts.add_user("ana", "guest")
        token, _ = await app.state.web.accounts.add_token("ana", "a test")
        async with served(app) as url, at.gateway({"shop": server}, door=lambda _: gate_at_desk(url, token)) as gateway:
            await at.pin(gateway)
            async with client_of(gateway, mode) as client:
                passed = await client.call_tool("refund", {"order_id": "7", "cents": 1})
                denied = await client.call_tool("refund", {"order_id": "8", "cents": 101})
        runs = (await desk.runs()).rows

    assert text_of(passed) == "refunded 7"
    assert (denied.is_error, text_of(denied)) == (True, "Too large.")
    assert at.effects == ["refund 7 1"]
    assert [run.agent for run in runs] == ["mcp/ana"]


@ERAS
async def test_a_tool_that_its_server_does_not_list_is_refused_and_nobody_is_asked(at: Scene, mode: str) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway, mode) as client:
            with pytest.raises(MCPError) as told:
                await client.call_tool("nosuch", {})

    assert (told.value.error.code, told.value.error.message) == (INVALID_PARAMS, "Unknown tool: nosuch")
    assert await at.desk.pending() == []
    assert list((await at.desk.runs()).rows) == []
