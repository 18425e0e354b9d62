"""Stored states of format 1, as `tests/golden/make.py` wrote them once: they load and finish for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placet import RunState
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call
from tests.golden.agents import clerk
from tests.golden.make import KEY, MAKERS
from tests.runtime.scenes import OwnStore, done, go, model_of, outputs

GOLDEN = Path(__file__).parents[1] / "golden"


def text_of(name: str) -> str:
    return (GOLDEN / f"state-v1-{name}.json").read_text(encoding="utf-8").removesuffix("\n")


async def load(name: str, steps: list[Any], ran: list[Any], **options: Any) -> tuple[Any, RunState[Any]]:
    agent = clerk(ScriptedModel(steps), ran=ran)
    return agent, await RunState.from_string(agent, text_of(name), clock=ManualClock(), **options)


def test_every_file_has_a_maker_and_every_maker_a_file() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == {f"state-v1-{name}" for name in MAKERS}


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"sealed"}))
async def test_a_stored_state_verifies_and_is_written_back_as_it_was(name: str) -> None:
    _, state = await load(name, [], [])

    assert state._log.verify()
    assert without_what_is_new(state.to_string()) == without_what_is_new(text_of(name))


def without_what_is_new(text: str) -> Any:
    """The document without empty fields at the end of staged words and in entries, which newer versions add."""
    document = json.loads(text)
    for entry in document.get("entries", []):
        for name in ("decide_by", "ballot", "owner", "summary", "irreversible", "undo_window"):
            if not entry.get(name):
                entry.pop(name, None)
    for word in document.get("staged", []):
        while word[-1] in (None, "none"):
            word.pop()
    return document


async def test_a_stored_state_keeps_its_chain_in_a_store_that_takes_it_over() -> None:
    agent, state = await load("gated-and-free", [done("bye")], [])
    before = state._log.copy()
    for item in state.get_interruptions():
        state.reject(item)
    store = OwnStore()
    await go(agent, state, store=store)
    stored = await store.load(state.run_id)

    assert stored is not None
    assert stored.log is not None
    heads = stored.log.heads()
    assert heads is not None
    assert heads[len(before) - 1] == before.head


async def test_a_pause_with_gated_and_free_calls_goes_on() -> None:
    ran: list[Any] = []
    agent, state = await load("gated-and-free", [done("bye")], ran)
    first, second = state.get_interruptions()
    context = state.context.context  # type: ignore[union-attr]
    state.approve(first)
    state.respond(second, "done by hand")
    result = await go(agent, state, store=OwnStore())

    assert context == {"customer": "Zoë", "limits": {"eur": 50}}
    assert [item.call_id for item in (first, second)] == ["call_a", "call_a"]
    assert ran == [("refund", 7, "für Zoë 😀")]
    assert outputs(agent) == ["refunded 7", "order 7: 12 EUR", "done by hand"]
    assert result.final_output == "bye"
    sent = model_of(agent).calls[0].input
    assert sent[2]["unknown_field"] == {"x": [1]}
    labels = [item["call_id"] for item in sent if "call_id" in item]
    assert labels[:3] == labels[3:]
    assert len(set(labels)) == 3


async def test_staged_decisions_are_carried_out() -> None:
    ran: list[Any] = []
    agent, state = await load("staged", [done("bye")], ran)
    result = await go(agent, state, store=OwnStore())
    request = model_of(agent).calls[0]

    assert ran == [("refund", 7, "less")]
    assert request.previous_response_id == "resp_1"
    assert [item["call_id"] for item in request.input] == ["call_a", "call_b", "call_a"]
    assert outputs(agent)[0].endswith("\nrefunded 7")
    assert outputs(agent)[1:] == ["order 7: 12 EUR", "Order 8 was refunded before."]
    assert result.final_output == "bye"


async def test_grants_hold() -> None:
    ran: list[Any] = []
    later = [function_call("refund", {"order": 10}, call_id="x"), function_call("wipe", {"path": "/"}, call_id="y")]
    agent, state = await load("grants", [later, done("bye")], ran)
    result = await go(agent, state, store=OwnStore())

    assert result.final_output == "bye"
    assert ran == [("refund", 10, "")]
    assert outputs(agent)[-2:] == ["refunded 10", "Nothing is wiped here."]


@pytest.mark.parametrize(
    ("verb", "more", "read", "runs"),
    [
        ("approve", (), "transferred 1", 1),
        ("respond", ("it went through",), "it went through", 0),
        ("reject", (), None, 0),
    ],
)
async def test_a_call_in_doubt_can_be_decided(verb: str, more: Any, read: Any, runs: int) -> None:
    ran: list[Any] = []
    agent, state = await load("in-doubt", [done("bye")], ran)
    item = state.get_interruptions()[0]
    getattr(state, verb)(item, *more)
    result = await go(agent, state, store=OwnStore())

    assert item.kind == "in_doubt"
    assert ran == [("transfer", 1)] * runs
    assert read is None or outputs(agent) == [read]
    assert model_of(agent).calls[0].conversation_id == "conv_1"
    assert result.final_output == "bye"


async def test_a_state_made_by_hand_begins_with_its_decisions() -> None:
    ran: list[Any] = []
    steps = [[function_call("refund", {"order": 7}, call_id="call_a")], [assistant_message("bye")]]
    agent, state = await load("by-hand", steps, ran)
    result = await go(agent, state, store=OwnStore())

    assert ran == [("refund", 7, "")]
    assert result.final_output == "bye"


async def test_a_sealed_state_opens_with_its_key() -> None:
    ran: list[Any] = []
    agent, state = await load("sealed", [], ran, key=KEY)
    result = await go(agent, state, store=OwnStore())

    assert ran == [("refund", 7, "für Zoë 😀")]
    assert len(result.interruptions) == 1


async def test_an_ended_run_gives_its_result() -> None:
    agent, state = await load("ended", [], [])
    result = await go(agent, state, store=OwnStore())

    assert result.final_output == "Nothing to do."
    assert model_of(agent).calls == []


async def test_a_call_that_asks_goes_on_with_its_answer_and_the_other_is_still_asked_about() -> None:
    ran: list[Any] = []
    agent, state = await load("asking", [done("bye")], ran)
    result = await go(agent, state, store=OwnStore())
    second = result.to_state()
    second.reject("call_Genf", by="bob")
    ended = await go(agent, second, store=OwnStore())

    assert [(item.kind, item.call_id) for item in result.interruptions] == [("elicitation", "call_Genf")]
    assert ran == [
        ("book", "Bern", {"budget": {"action": "accept", "content": {"euros": 90}}}, "draft of Bern"),
        ("book", "Genf", {"budget": {"action": "decline"}}, "draft of Genf"),
    ]
    assert ended.final_output == "bye"
