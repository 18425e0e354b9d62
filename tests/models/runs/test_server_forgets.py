"""What the server kept of a run is gone: the error names the way out, and the run goes on with its own history."""

from __future__ import annotations

from typing import Any

import pytest

from placet import (
    Agent,
    DeliveryUnknown,
    MemoryStore,
    RequestNotTaken,
    RunConfig,
    Runner,
    RunState,
    ServerHistoryNotFound,
    UserError,
    handoff,
)
from placet.core.delivery import outgoing
from placet.core.fold import apply, fold
from placet.facts.errors import IllegalTransition
from placet.facts.events import OwnHistoryChosen, RequestSent, RunStarted
from placet.models import OpenAIResponsesModel
from placet.testing import Crash, CrashingStore, ManualClock, ModelStep, ScriptedModel, assistant_message, function_call
from placet.testing.provider import FakeProvider, connection_cut
from tests.models.runs.scenes import DONE, THREE_CALLS, Shop, drive, shop
from tests.support.folds import facts_of

LOOK = [{"type": "reasoning", "summary": []}, function_call("look_up", {"order": "1"}, call_id="l1")]
REFUND = [function_call("refund", {"order": "2"}, call_id="r1")]
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


def shop_at(provider: FakeProvider) -> Shop:
    return shop(OpenAIResponsesModel("gpt-test", provider.openai_client()))


def begun(provider: FakeProvider, mode: str) -> dict[str, Any]:
    """The options of a run whose history this provider keeps."""
    if mode == "conversation":
        return {"conversation_id": provider.create_conversation()}
    return {"auto_previous_response_id": True}


async def gone(provider: FakeProvider, options: dict[str, Any], result: Any) -> None:
    """Somebody deletes what the server has of the run."""
    client = provider.openai_client()
    if "conversation_id" in options:
        await client.conversations.delete(options["conversation_id"])
    else:
        await client.responses.delete(result.last_response_id)


async def decided(agent: Agent[Any], paused: Any) -> RunState[Any]:
    """The state in another process, with everything approved."""
    state = await RunState.from_string(agent, paused.to_state().to_string())
    for item in state.get_interruptions():
        state.approve(item)
    return state


def outputs(request: Any) -> list[tuple[str, Any]]:
    return [(item["call_id"], item["output"]) for item in request.input if item.get("type") == "function_call_output"]


ALL = [
    ("l1", "order 1: 4200 cents"),
    ("r1", "order 2 is refunded"),
    ("c1", "order 7 is refunded"),
    ("c2", "order 8: 4200 cents"),
    ("c3", "order 9 is refunded"),
]


@pytest.mark.promise("P1")
@pytest.mark.promise("P2")
@pytest.mark.promise("P15")
@pytest.mark.parametrize("mode", ["auto", "conversation"])
@both_ways
async def test_a_run_goes_on_with_its_own_history_where_the_servers_is_gone(mode: str, streamed: bool) -> None:
    provider = FakeProvider([LOOK, REFUND, THREE_CALLS, [*LOOK[:1], *REFUND], DONE])
    here = shop_at(provider)
    options = begun(provider, mode)

    paused = await drive(here.agent, "The disk is full.", streamed=streamed, **options)
    paused = await drive(here.agent, await decided(here.agent, paused), streamed=streamed)
    state = await decided(here.agent, paused)
    await gone(provider, options, paused)
    with pytest.raises(ServerHistoryNotFound, match="own_history=True") as failed:
        await drive(here.agent, state, streamed=streamed)
    with pytest.raises(ServerHistoryNotFound):  # for good: nothing but the choice helps
        await drive(here.agent, failed.value.state, streamed=streamed)
    text = failed.value.state.to_string()
    state = await RunState.from_string(here.agent, text)
    paused = await drive(here.agent, state, streamed=streamed, own_history=True)
    result = await drive(here.agent, await decided(here.agent, paused), streamed=streamed)

    assert result.final_output == "It is done."
    answered = [request for request in provider.model_requests if request.status == 200]
    assert outputs(answered[-2]) == ALL
    assert outputs(answered[-1])[:-1] == ALL  # own history: all of it each time, and what is new
    assert not any("previous_response_id" in each.body or "conversation" in each.body for each in answered[-2:])
    assert here.effects[:3] == ["look_up 1", "refund 2", "look_up 8"]
    assert sorted(here.effects[3:5]) == ["refund 7", "refund 9"], "side by side, in any order"
    assert here.effects[5:] == ["refund 2"]
    provider.assert_complete()


async def test_who_knows_that_it_is_gone_says_so_together_with_the_decisions() -> None:
    provider = FakeProvider([LOOK, THREE_CALLS, DONE])
    here = shop_at(provider)
    paused = await Runner.run(here.agent, "Go.", auto_previous_response_id=True)
    provider.delete_response(str(paused.last_response_id))

    result = await Runner.run(here.agent, await decided(here.agent, paused), own_history=True)

    assert result.final_output == "It is done."
    assert outputs(provider.model_requests[-1]) == [ALL[0], *ALL[2:]]
    assert provider.refusals == []


async def test_what_was_chosen_stays_so_through_pauses_states_and_repetition() -> None:
    provider = FakeProvider([REFUND, [function_call("refund", {"order": "3"}, call_id="r1")], DONE])
    here = shop_at(provider)
    paused = await Runner.run(here.agent, "Go.", auto_previous_response_id=True)
    provider.delete_response(str(paused.last_response_id))
    paused = await Runner.run(here.agent, await decided(here.agent, paused), own_history=True)

    result = await Runner.run(here.agent, await decided(here.agent, paused), own_history=True)

    last = provider.model_requests[-1]
    labels = [item["call_id"] for item in last.input if item.get("type") == "function_call"]
    assert result.final_output == "It is done."
    assert len(set(labels)) == 2, "the provider repeated a label"
    assert [label for label, _ in outputs(last)] == labels
    assert sum(isinstance(fact, OwnHistoryChosen) for fact in facts_of(result.to_state())) == 1


async def test_sealed_thoughts_go_along_and_those_that_only_the_server_could_read_do_not() -> None:
    sealed = {"type": "reasoning", "summary": [], "id": "rs_1", "encrypted_content": "sealed"}
    bare = {"type": "reasoning", "summary": [], "id": "rs_2"}
    said = assistant_message("Wait.", item_id="msg_1")
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    call = {**function_call("look_up", {"order": "1"}, call_id="l1"), "id": "fc_1"}
    later = {**bare, "id": "rs_3"}
    model = ScriptedModel(
        [
            [sealed, said, search, bare, call],
            ModelStep(raises=ServerHistoryNotFound("gone"), delivered=False),
            [later, {**function_call("look_up", {"order": "2"}, call_id="l2"), "id": "fc_2"}],
            DONE,
        ]
    )
    here = shop(model)
    with pytest.raises(ServerHistoryNotFound) as failed:
        await Runner.run(here.agent, "Go.", auto_previous_response_id=True)

    await Runner.run(here.agent, failed.value.state, own_history=True)

    sent = [(item.get("type", "message"), item.get("id")) for item in model.calls[-1].input]
    assert sent == [
        ("message", None),
        ("reasoning", None),
        ("message", None),
        ("web_search_call", "ws_1"),
        ("function_call", None),
        ("function_call_output", None),
        ("reasoning", "rs_3"),
        ("function_call", "fc_2"),
        ("function_call_output", None),
    ]


async def test_a_filter_of_a_handoff_does_not_bring_the_servers_ids_back() -> None:
    model = ScriptedModel(
        [
            [assistant_message("Wait.", item_id="msg_1"), function_call("look_up", {"order": "1"}, call_id="l1")],
            ModelStep(raises=ServerHistoryNotFound("gone"), delivered=False),
            [function_call("transfer_to_boss", {}, call_id="h1")],
            DONE,
        ]
    )
    here = shop(model)
    boss = Agent("Boss", model=model)
    plain = here.agent.clone(handoffs=[handoff(boss)])
    filtering = here.agent.clone(handoffs=[handoff(boss, input_filter=lambda data: data)])
    with pytest.raises(ServerHistoryNotFound) as failed:
        await Runner.run(plain, "Go.", auto_previous_response_id=True)

    state = await RunState.from_string(filtering, failed.value.state.to_string())
    await Runner.run(filtering, state, own_history=True)

    assert not any("id" in item for item in model.calls[-1].input)


async def test_a_lost_request_in_a_conversation_that_is_gone_has_the_same_way_out() -> None:
    lost = connection_cut(answered=DONE)
    provider = FakeProvider([REFUND, lost, DONE])
    here = shop_at(provider)
    conversation = provider.create_conversation()
    config = RunConfig(clock=ManualClock())
    paused = await Runner.run(here.agent, "Go.", conversation_id=conversation)
    provider.interrupt("GET", "/conversations/*", connection_cut(), times=50)
    with pytest.raises(DeliveryUnknown) as failed:
        await Runner.run(here.agent, await decided(here.agent, paused), run_config=config)

    result = await Runner.run(here.agent, failed.value.state, own_history=True)

    assert result.final_output == "It is done."
    assert outputs(provider.model_requests[-1]) == [("r1", "order 2 is refunded")]
    assert here.effects == ["refund 2"]


async def test_a_driver_that_died_in_the_middle_of_a_request_leaves_the_choice() -> None:
    model = ScriptedModel([REFUND, ModelStep(raises=Crash()), DONE])
    here = shop(model)
    store = MemoryStore()
    paused = await Runner.run(here.agent, "Go.", auto_previous_response_id=True, store=store)
    state = await decided(here.agent, paused)
    with pytest.raises(Crash):
        await Runner.run(here.agent, state, store=CrashingStore(store))

    result = await Runner.run(here.agent, await decided(here.agent, paused), store=store, own_history=True)

    assert result.final_output == "It is done."
    assert here.effects == ["refund 2"]


# -- what is refused --------------------------------------------------------------------------------------------------


async def test_a_new_run_has_its_own_history_anyway() -> None:
    with pytest.raises(UserError, match="own_history"):
        await Runner.run(shop(ScriptedModel([DONE])).agent, "Go.", own_history=True)
    with pytest.raises(UserError, match="own_history"):
        await Runner.run(shop(ScriptedModel([DONE])).agent, "Go.", own_history="yes")  # type: ignore[typeddict-item]


async def test_outputs_for_calls_that_only_the_server_had_cannot_stand_alone() -> None:
    given = [{"type": "function_call_output", "call_id": "before", "output": "done"}]
    model = ScriptedModel([ModelStep(raises=ServerHistoryNotFound("gone"), delivered=False)])
    here = shop(model)
    with pytest.raises(ServerHistoryNotFound) as failed:
        await Runner.run(here.agent, given, previous_response_id="resp_0")

    with pytest.raises(UserError, match=r"only the server had \(before\)"):
        await Runner.run(here.agent, failed.value.state, own_history=True)


def test_the_choice_is_no_choice_twice_nor_while_a_request_is_on_its_way() -> None:
    run = fold([RunStarted("Shop", "Go.", None, "auto"), RequestSent()])
    with pytest.raises(IllegalTransition, match="on its way"):
        apply(run, OwnHistoryChosen(None, 0.0))

    run = fold([RunStarted("Shop", "Go.", None, "auto"), OwnHistoryChosen("ana", 0.0)])
    with pytest.raises(IllegalTransition, match="already"):
        apply(run, OwnHistoryChosen("ana", 0.0))
    assert outgoing(run).items == [{"role": "user", "content": "Go."}]
    assert outgoing(run).previous_response_id is None


@pytest.mark.parametrize("name", ["previous_response_id", "conversation_id"])
async def test_an_id_that_never_was_is_told_in_the_same_way(name: str) -> None:
    provider = FakeProvider([])
    with pytest.raises(ServerHistoryNotFound, match="not found") as failed:
        await Runner.run(shop_at(provider).agent, "Go.", **{name: "resp_1" if name[0] == "p" else "conv_1"})  # type: ignore[arg-type]

    assert isinstance(failed.value, RequestNotTaken)
    assert failed.value.code == "server_history_not_found"
    assert len(provider.model_requests) == 1, "no retry would help"
