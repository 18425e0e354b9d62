"""Deciding: who is asked, whose word counts, and what the model reads of it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from placet import (
    Agent,
    FunctionTool,
    Grant,
    MaxTurnsExceeded,
    NotPending,
    RequestNotTaken,
    RunConfig,
    RunContextWrapper,
    RunState,
    StaleApproval,
    ToolApprovalItem,
    ToolContext,
    ToolsToFinalOutputResult,
    UserError,
    function_tool,
)
from placet.core.log import read_line
from placet.facts.events import CallEnded, DecisionMade
from placet.testing import ManualClock, ModelStep, assistant_message, function_call
from tests.runtime.scenes import (
    Interrupted,
    OwnStore,
    Tools,
    call,
    done,
    go,
    model_of,
    outputs,
    reloaded,
    scripted,
    shown,
)

NOT_APPROVED = "Tool execution was not approved."


def facts(state: RunState[Any], kind: type) -> list[Any]:
    return [fact for line in state._log.lines for fact in read_line(line).facts if isinstance(fact, kind)]


async def paused(agent: Agent[Any], **options: Any) -> RunState[Any]:
    result = await go(agent, "go", **options)
    assert result.interruptions
    return result.to_state()


# -- who is asked ------------------------------------------------------------------------------------------------------


async def test_only_the_calls_that_need_a_person_wait_and_their_siblings_run_at_once() -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("look", 2, "b"), call("pay", 3, "c"), call("look", 4, "d")]],
        tools.gated(),
        tools.free(),
    )
    result = await go(agent, "go")

    assert tools.ran == [("look", 2), ("look", 4)]
    assert [item.call_id for item in result.interruptions] == ["a", "c"]
    assert result.final_output is None


@pytest.mark.parametrize(
    "answer", [None, 0, 1, "", "no", "False", [], {}, object(), 0.0], ids=lambda value: repr(value)[:12]
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_predicate_that_answers_something_else_than_true_or_false_asks_a_person(
    answer: Any, is_async: bool
) -> None:
    async def later(ctx: Any, params: Any, call_id: str) -> Any:
        return answer

    tools = Tools()
    agent = scripted([[call("pay", 1, "a")]], tools.gated(needs_approval=later if is_async else lambda *_: answer))
    result = await go(agent, "go")

    assert len(result.interruptions) == 1
    assert tools.ran == []
    assert result.interruptions[0].why


async def test_a_predicate_that_raises_asks_a_person_and_says_why() -> None:
    def rule(ctx: Any, params: Any, call_id: str) -> bool:
        raise LookupError("no such account")

    tools = Tools()
    result = await go(scripted([[call("pay", 1, "a")]], tools.gated(needs_approval=rule)), "go")

    assert "LookupError" in result.interruptions[0].why
    assert tools.ran == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"n": 1, "n": 2}', '{"n": NaN}', "nonsense"], ids=lambda text: text or "empty"
)
async def test_a_predicate_is_not_asked_about_arguments_that_are_not_one_json_object(text: str) -> None:
    asked: list[Any] = []

    def rule(ctx: Any, params: Any, call_id: str) -> bool:
        asked.append(params)
        return False

    tools = Tools()
    agent = scripted([[function_call("pay", text, call_id="a")], done()], tools.gated(needs_approval=rule))
    result = await go(agent, "go")

    if text == "":  # an empty text means: no arguments
        assert asked == [{"n": 0}]
        assert tools.ran == [("pay", 0)]
    else:
        assert asked == []
        assert len(result.interruptions) == 1
        assert tools.ran == []


async def test_a_predicate_that_says_false_lets_the_call_run_and_true_asks() -> None:
    tools = Tools()
    tool = tools.gated(needs_approval=lambda ctx, params, call_id: params["n"] > 10)
    result = await go(scripted([[call("pay", 5, "a"), call("pay", 50, "b")]], tool), "go")

    assert tools.ran == [("pay", 5)]
    assert [item.call_id for item in result.interruptions] == ["b"]
    assert result.interruptions[0].why is None


async def test_a_predicate_is_given_the_context_the_arguments_and_the_providers_label() -> None:
    seen: list[Any] = []

    async def rule(ctx: RunContextWrapper[Any], params: Any, call_id: str) -> bool:
        seen.append((ctx.context, params, call_id))
        return False

    tools = Tools()
    await go(scripted([[call("pay", 5, "a")], done()], tools.gated(needs_approval=rule)), "go", context={"who": "me"})

    assert seen == [({"who": "me"}, {"n": 5}, "a")]


async def test_a_predicate_that_changes_its_arguments_does_not_change_what_runs() -> None:
    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        params["n"] = 999
        return False

    tools = Tools()
    await go(scripted([[call("pay", 5, "a")], done()], tools.gated(needs_approval=rule)), "go")

    assert tools.ran == [("pay", 5)]


async def test_a_rule_that_was_replaced_by_something_else_asks_a_person() -> None:
    tools = Tools()
    tool = tools.gated()
    tool.needs_approval = "never"  # type: ignore[assignment]
    result = await go(scripted([[call("pay", 5, "a")]], tool), "go")

    assert len(result.interruptions) == 1
    assert tools.ran == []


@pytest.mark.parametrize("word", ["never", "always", None, 0, 1, [], {}], ids=repr)
def test_an_unknown_policy_word_is_refused_where_it_is_written(word: Any) -> None:
    with pytest.raises(UserError, match="needs_approval"):
        Tools().free(needs_approval=word)


@pytest.mark.parametrize("gated", [True, False])
async def test_a_tool_that_does_not_exist_never_reaches_a_person(gated: bool) -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("ghost", 1, "b")], done()], tools.gated() if gated else tools.free("pay")
    )
    result = await go(agent, "go")

    assert [item.name for item in result.interruptions] == (["pay"] if gated else [])
    if not gated:
        assert outputs(agent) == ["pay 1", "Tool 'ghost' not found."]


# -- one by one, in any order, in any process --------------------------------------------------------------------------


def three_gated(tools: Tools, *more: Any) -> Agent[Any]:
    return scripted([[call("pay", 1, "a"), call("pay", 2, "b"), call("pay", 3, "c")], done(), *more], tools.gated())


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]], ids=str)
@pytest.mark.parametrize("streamed", [False, True])
async def test_decisions_come_one_by_one_in_any_order_and_the_model_is_asked_when_all_calls_have_an_output(
    order: list[int], streamed: bool
) -> None:
    tools = Tools()
    agent = three_gated(tools)
    result = await go(agent, "go")
    items = result.interruptions
    for position, index in enumerate(order):
        state = await reloaded(agent, result.to_state())
        state.approve(items[index])
        result = await go(agent, state, streamed)

        assert len(result.interruptions) == 2 - position
        assert [n for _, n in tools.ran] == [i + 1 for i in order[: position + 1]]
        assert len(model_of(agent).calls) == (1 if position < 2 else 2)

    assert result.final_output == "done"
    assert outputs(agent) == ["pay 1", "pay 2", "pay 3"]


async def test_decided_calls_go_on_and_the_others_stay_pending() -> None:
    tools = Tools()
    agent = three_gated(tools)
    state = await paused(agent)
    first, second, third = state.get_interruptions()
    state.approve(second)
    result = await go(agent, state)

    assert [item.id for item in result.interruptions] == [first.id, third.id]
    assert tools.ran == [("pay", 2)]


# -- changing one's mind -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["approve", "reject"], ["reject", "approve", "reject"]], ids=str)
async def test_the_last_word_on_a_state_counts(words: list[str]) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    item = state.get_interruptions()[0]
    for word in words:
        getattr(state, word)(item)
    await go(agent, await reloaded(agent, state))

    assert tools.ran == []
    assert outputs(agent) == [NOT_APPROVED]


async def test_the_last_word_may_be_yes() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    item = state.get_interruptions()[0]
    state.reject(item, rejection_message="no")
    state.respond(item, "instead")
    state.approve(item)
    await go(agent, state)

    assert tools.ran == [("pay", 1)]


async def test_once_in_the_store_an_equal_decision_is_ignored() -> None:
    tools = Tools()
    agent = three_gated(tools)
    state = await paused(agent)
    old = await reloaded(agent, state)
    item = state.get_interruptions()[0]
    state.approve(item, by="ann")
    await go(agent, state)
    old.approve(item, by="bob", reason="me too")
    result = await go(agent, old)

    assert len(result.interruptions) == 2
    assert tools.ran == [("pay", 1)]
    assert [fact.by for fact in facts(result.to_state(), DecisionMade)] == ["ann"]


async def test_once_in_the_store_a_contradicting_decision_is_an_error_that_names_who_decided_what() -> None:
    tools = Tools()
    agent = three_gated(tools)
    state = await paused(agent)
    old = await reloaded(agent, state)
    first, second, _ = state.get_interruptions()
    state.reject(first, by="ann")
    await go(agent, state)
    old.approve(second, by="bob")
    old.approve(first, by="bob")
    with pytest.raises(StaleApproval) as caught:
        await go(agent, old)

    assert "'reject' by ann" in str(caught.value)
    assert "'approve' by bob" in str(caught.value)
    assert tools.ran == []  # not even the other decision: before anything runs


# -- merging -----------------------------------------------------------------------------------------------------------


async def test_merging_adds_the_other_reviewers_decisions_and_returns_this_state() -> None:
    tools = Tools()
    agent = three_gated(tools)
    mine = await paused(agent)
    theirs = await reloaded(agent, mine)
    first, second, third = mine.get_interruptions()
    mine.approve(first)
    theirs.reject(second, rejection_message="not that one")
    theirs.approve(third, by="bob")
    merged = mine.merge(theirs)
    result = await go(agent, mine)

    assert merged is mine
    assert result.final_output == "done"
    assert outputs(agent) == ["pay 1", "not that one", "pay 3"]


async def test_merging_leaves_the_other_state_as_it_was() -> None:
    tools = Tools()
    agent = three_gated(tools)
    mine = await paused(agent)
    theirs = await reloaded(agent, mine)
    before = theirs.to_string()
    mine.approve(mine.get_interruptions()[0])
    mine.merge(theirs)

    assert theirs.to_string() == before


async def test_equal_decisions_merge() -> None:
    tools = Tools()
    agent = three_gated(tools)
    mine = await paused(agent)
    theirs = await reloaded(agent, mine)
    for state in (mine, theirs):
        state.approve(state.get_interruptions()[0])
    mine.merge(theirs)
    await go(agent, mine)

    assert tools.ran == [("pay", 1)]


async def test_merging_contradicting_decisions_names_both_and_changes_nothing() -> None:
    tools = Tools()
    agent = three_gated(tools)
    mine = await paused(agent)
    theirs = await reloaded(agent, mine)
    first, second, _ = mine.get_interruptions()
    mine.approve(first, by="ann")
    theirs.approve(second, by="bob")
    theirs.reject(first, by="bob")
    before = mine.to_string()
    with pytest.raises(StaleApproval) as caught:
        mine.merge(theirs)

    assert "'approve' by ann" in str(caught.value)
    assert "'reject' by bob" in str(caught.value)
    assert mine.to_string() == before


async def test_a_state_of_another_run_cannot_be_merged() -> None:
    tools = Tools()
    mine, theirs = await paused(three_gated(tools)), await paused(three_gated(tools))
    before = mine.to_string()
    with pytest.raises(UserError, match=theirs.run_id):
        mine.merge(theirs)

    assert mine.to_string() == before


async def test_merging_brings_grants_along() -> None:
    tools = Tools()
    agent = three_gated(tools)
    mine = await paused(agent)
    theirs = await reloaded(agent, mine)
    theirs.approve(theirs.get_interruptions()[0], always_approve=True)
    result = await go(agent, mine.merge(theirs))

    assert result.final_output == "done"
    assert len(tools.ran) == 3


# -- forking -----------------------------------------------------------------------------------------------------------


async def test_a_fork_is_an_independent_run_with_an_id_of_its_own() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done("first"), done("second")], tools.gated())
    state = await paused(agent)
    twin = state.fork()
    state.approve(state.get_interruptions()[0])
    twin.reject(twin.get_interruptions()[0])
    one, other = await go(agent, state), await go(agent, twin)

    assert twin.run_id != state.run_id
    assert (one.final_output, other.final_output) == ("first", "second")
    assert tools.ran == [("pay", 1)]
    assert outputs(agent, 1) == ["pay 1"]
    assert outputs(agent, 2) == [NOT_APPROVED]


async def test_in_a_fork_calls_that_were_started_stay_done() -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a"), call("pay", 2, "b")], done(), done()], tools.free(), tools.gated())
    state = await paused(agent)
    twin = state.fork()
    twin.approve(twin.get_interruptions()[0])
    await go(agent, twin)

    assert tools.ran == [("look", 1), ("pay", 2)]
    assert outputs(agent) == ["look 1", "pay 2"]


async def test_an_item_of_the_original_run_is_known_in_its_fork() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    item = state.get_interruptions()[0]
    twin = await reloaded(agent, state.fork())
    twin.approve(item)
    await go(agent, twin)

    assert tools.ran == [("pay", 1)]
    assert state.context is not None
    assert state.context.is_tool_approved("pay", "a") is None


async def test_a_fork_takes_a_staged_no_along_but_no_yes_and_later_words_go_their_own_ways() -> None:
    tools = Tools()
    agent = three_gated(tools)
    state = await paused(agent)
    first, second, third = state.get_interruptions()
    state.approve(first)
    state.reject(third)
    twin = state.fork()
    state.reject(second)

    assert twin.context is not None
    assert [twin.context.is_tool_approved("pay", label) for label in ("a", "b", "c")] == [None, None, False]
    assert state.context is not None
    assert [state.context.is_tool_approved("pay", label) for label in ("a", "b", "c")] == [True, False, False]


# -- ids, labels, items by hand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["item", "our id", "label", "item of the result"])
@pytest.mark.parametrize("reload", [False, True])
async def test_a_call_is_named_by_its_item_our_id_or_the_providers_label(how: str, reload: bool) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b")], done()], tools.gated())
    result = await go(agent, "go")
    state = result.to_state()
    if reload:
        rebuilt = Agent(agent.name, tools=agent.tools, model=agent.model)
        state = await reloaded(rebuilt, state)
    item = state.get_interruptions()[1]
    name: Any = {"item": item, "our id": item.id, "label": "b", "item of the result": result.interruptions[1]}[how]
    state.approve(name)
    await go(agent, state)

    assert tools.ran == [("pay", 2)]


async def test_an_item_knows_its_call() -> None:
    tools = Tools()
    agent = scripted([[call("look", 9, "z"), call("pay", 1, "a")]], tools.gated(), tools.free())
    result = await go(agent, "go")
    item = result.interruptions[0]

    assert item.id == f"{result.run_id}_t1c1"
    assert (item.name, item.tool_name, item.call_id, item.kind) == ("pay", "pay", "a", "approval")
    assert item.arguments == '{"n": 1}'
    assert item.agent is agent
    assert item.raw_item["call_id"] == "a"


async def test_an_item_of_another_run_is_refused() -> None:
    tools = Tools()
    one = await paused(scripted([[call("pay", 1, "a")]], tools.gated()))
    other = await paused(scripted([[call("pay", 1, "a")]], tools.gated()))
    with pytest.raises(UserError, match=one.run_id):
        other.approve(one.get_interruptions()[0])


def by_hand(agent: Any, label: str | None = "a", name: str = "pay", arguments: str = '{"n": 1}') -> ToolApprovalItem:
    return ToolApprovalItem(agent, function_call(name, arguments, call_id=label), tool_name=name)


async def test_an_item_made_by_hand_is_matched_by_label_tool_and_arguments() -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("pay", 2, "a"), call("send", 1, "a")], done()], tools.gated(), tools.gated("send")
    )
    state = await paused(agent)
    state.approve(by_hand(agent, arguments='{ "n":2 }'))
    await go(agent, state)

    assert tools.ran == [("pay", 2)]


@pytest.mark.parametrize(
    "item",
    [
        {"label": "zzz"},
        {"name": "send"},
        {"arguments": '{"n": 7}'},
        {"arguments": "{"},
        {"label": None},
    ],
    ids=str,
)
async def test_an_item_made_by_hand_that_fits_nothing_is_an_error_listing_what_waits(item: dict[str, Any]) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b")]], tools.gated())
    state = await paused(agent)
    with pytest.raises(UserError) as caught:
        state.approve(by_hand(agent, **item))

    assert isinstance(caught.value, NotPending)
    assert 'pay({"n": 1}) [a]' in str(caught.value)
    assert 'pay({"n": 2}) [b]' in str(caught.value)


@pytest.mark.parametrize("as_item", [True, False])
async def test_a_label_that_fits_several_calls_is_an_error_listing_them(as_item: bool) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 1, "a")]], tools.gated())
    state = await paused(agent)
    with pytest.raises(UserError, match="several") as caught:
        state.approve(by_hand(agent) if as_item else "a")

    assert "1.0 pay" in str(caught.value)
    assert "1.1 pay" in str(caught.value)


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_an_item_that_was_decided_and_done_is_not_pending_any_more(verb: str) -> None:
    tools = Tools()
    agent = three_gated(tools)
    state = await paused(agent)
    item = state.get_interruptions()[0]
    state.approve(item)
    later = (await go(agent, state)).to_state()
    with pytest.raises(UserError, match="not pending"):
        getattr(later, verb)(item)


async def test_two_calls_with_one_label_are_decided_each_on_its_own() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "same"), call("pay", 2, "same")], done()], tools.gated())
    state = await paused(agent)
    first, second = state.get_interruptions()
    state.approve(second)
    state.reject(first, rejection_message="no")
    await go(agent, await reloaded(agent, state))

    assert tools.ran == [("pay", 2)]
    assert outputs(agent) == ["no", "pay 2"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([None, None], None),
        (["approve", None], None),
        (["approve", "approve"], True),
        (["reject", None], False),
        (["approve", "reject"], False),
    ],
    ids=str,
)
async def test_is_tool_approved_with_a_label_that_fits_several_calls(words: list[Any], expected: bool | None) -> None:
    tools = Tools()
    state = await paused(scripted([[call("pay", 1, "x"), call("pay", 2, "x")]], tools.gated()))
    for item, word in zip(state.get_interruptions(), words, strict=True):
        if word is not None:
            getattr(state, word)(item)
    context = state.context

    assert context is not None
    assert context.is_tool_approved("pay", "x") is expected
    assert context.is_tool_approved("send", "x") is None


async def test_is_tool_approved_and_the_message_take_our_ids_too() -> None:
    tools = Tools()
    state = await paused(scripted([[call("pay", 1, "x"), call("pay", 2, "x")]], tools.gated()))
    first, second = state.get_interruptions()
    state.approve(first)
    state.reject(second, rejection_message="too much")
    context = state.context

    assert context is not None
    assert context.is_tool_approved("pay", first.id) is True
    assert context.is_tool_approved("pay", second.id) is False
    assert context.get_rejection_message("pay", second.id) == "too much"
    assert context.get_rejection_message("pay", first.id) is None


async def test_a_call_without_a_label_can_be_decided() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1), call("pay", 2)], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[1])
    state.reject(state.get_interruptions()[0].id)
    await go(agent, await reloaded(agent, state))

    assert tools.ran == [("pay", 2)]


async def test_the_record_of_decisions_holds_ids_and_flags_over_several_pauses() -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("pay", 2, "b")], [call("send", 3, "c")], done()], tools.gated(), tools.gated("send")
    )
    state = await paused(agent)
    state.approve(state.get_interruptions()[0])
    state.reject(state.get_interruptions()[1])
    state = (await go(agent, await reloaded(agent, state))).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await go(agent, state)
    records = result.context_wrapper.approvals

    assert (records["pay"].approved, records["pay"].rejected, records["pay"].always) == (("a",), ("b",), None)
    assert (records["send"].approved, records["send"].rejected, records["send"].always) == (("c",), (), "approve")


# -- a wrapper made by hand --------------------------------------------------------------------------------------------


def test_a_wrapper_made_by_hand_takes_decisions_about_any_item_and_the_label_is_the_identity() -> None:
    context = RunContextWrapper(None)
    agent = scripted([])
    context.approve_tool(by_hand(agent, "a"))
    context.reject_tool(by_hand(agent, "b"), rejection_message="no")

    assert context.is_tool_approved("pay", "a") is True
    assert context.is_tool_approved("pay", "b") is False
    assert context.is_tool_approved("pay", "c") is None
    assert context.get_rejection_message("pay", "b") == "no"
    assert (context.approvals["pay"].approved, context.approvals["pay"].rejected) == (("a",), ("b",))


def test_an_always_flag_by_hand_holds_for_the_tool_and_an_exact_decision_beats_it() -> None:
    context = RunContextWrapper(None)
    agent = scripted([])
    context.approve_tool(by_hand(agent, "a"), always_approve=True)
    context.reject_tool(by_hand(agent, "b"))

    assert context.is_tool_approved("pay", "anything") is True
    assert context.is_tool_approved("pay", "b") is False
    assert context.is_tool_approved("send", "a") is None
    assert context.approvals["pay"].always == "approve"


def test_an_item_that_is_nothing_but_a_dict_and_an_object_with_a_name_is_enough() -> None:
    class Bare:
        name = "anything"

    state: RunState[Any] = RunState(RunContextWrapper(None), "go", scripted([]))
    item = ToolApprovalItem(Bare(), {"type": "function_call", "name": "pay", "call_id": "a", "arguments": "{}"})
    state.approve(item)

    assert state.context is not None
    assert state.context.is_tool_approved("pay", "a") is True
    assert state.get_interruptions() == []


def test_forks_of_one_context_share_one_ledger() -> None:
    context = RunContextWrapper({"x": 1})
    fork = context.fork()
    fork.approve_tool(by_hand(scripted([]), "a"))

    assert context.is_tool_approved("pay", "a") is True
    assert fork.context is context.context


@pytest.mark.parametrize("reload", [False, True])
async def test_decisions_on_a_state_made_by_hand_meet_the_calls_that_they_name(reload: bool) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b"), call("pay", 3, "c")]], tools.gated())
    state: RunState[Any] = RunState(RunContextWrapper(None), "go", agent)
    state.approve(by_hand(agent, "a"))
    state.approve(by_hand(agent, "b", arguments='{"n": 99}'))  # other arguments: not what was approved
    result = await go(agent, await reloaded(agent, state) if reload else state)

    assert tools.ran == [("pay", 1)]
    assert [item.call_id for item in result.interruptions] == ["b", "c"]


async def test_a_state_made_by_hand_can_be_decided_on_after_its_run_has_paused() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state: RunState[Any] = RunState(RunContextWrapper(None), "go", agent)
    result = await go(agent, state)
    state.approve(result.interruptions[0])
    result = await go(agent, state)

    assert result.final_output == "done"
    assert tools.ran == [("pay", 1)]


async def test_a_fork_of_a_state_made_by_hand_keeps_each_no_and_no_yes() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b")]], tools.gated())
    state: RunState[Any] = RunState(RunContextWrapper(None), "go", agent)
    state.approve(by_hand(agent, "a"), always_approve=True)
    state.reject(by_hand(agent, "b", arguments='{"n": 2}'))
    result = await go(agent, state.fork())

    assert [item.call_id for item in result.interruptions] == ["a"]
    assert tools.ran == []


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_state_without_a_wrapper_refuses_decisions(verb: str) -> None:
    agent = scripted([])
    state: RunState[Any] = RunState(None, "go", agent)
    with pytest.raises(UserError) as caught:
        getattr(state, verb)(by_hand(agent))

    assert str(caught.value) == f"Cannot {verb} tool: RunState has no context"


async def test_a_state_without_a_wrapper_still_has_none_after_loading() -> None:
    agent = scripted([])
    state = await reloaded(agent, RunState(None, "go", agent))
    with pytest.raises(UserError, match="RunState has no context"):
        state.approve(by_hand(agent))


def test_a_wrapper_whose_context_is_none_is_a_context() -> None:
    state: RunState[Any] = RunState(RunContextWrapper(None), "go", scripted([]))
    state.approve(by_hand(scripted([])))

    assert state.get_interruptions() == []


# -- standing decisions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reload", [False, True])
async def test_always_approve_holds_for_calls_that_already_wait_and_for_later_turns(reload: bool) -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("pay", 2, "b")], [call("pay", 3, "c")], [call("pay", 4, "d")], done()],
        tools.gated(),
    )
    state = await paused(agent)
    state.approve(state.get_interruptions()[1], always_approve=True, by="ann")
    result = await go(agent, await reloaded(agent, state) if reload else state)

    assert result.final_output == "done"
    assert sorted(n for _, n in tools.ran) == [1, 2, 3, 4]


@pytest.mark.parametrize("message", [None, "never", ""])
async def test_always_reject_holds_for_calls_that_already_wait_and_for_later_turns(message: str | None) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b")], [call("pay", 3, "c")], done()], tools.gated())
    state = await paused(agent)
    state.reject(state.get_interruptions()[0], always_reject=True, rejection_message=message)
    result = await go(agent, await reloaded(agent, state))

    assert result.final_output == "done"
    assert tools.ran == []
    assert outputs(agent) == [NOT_APPROVED if message is None else message] * 3


async def test_a_grant_survives_a_later_pause_and_serialization() -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a")], [call("send", 9, "s")], [call("pay", 2, "b")], done()],
        tools.gated(),
        tools.gated("send"),
    )
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    state = (await go(agent, state)).to_state()
    state = await reloaded(agent, state)
    state.reject(state.get_interruptions()[0])
    result = await go(agent, state, store=OwnStore())  # as in another process

    assert result.final_output == "done"
    assert tools.ran == [("pay", 1), ("pay", 2)]


async def test_a_grant_does_not_reach_another_tool_or_another_run() -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("send", 2, "b")], [call("pay", 3, "c")]], tools.gated(), tools.gated("send")
    )
    store = OwnStore()
    state = await paused(agent, store=store)
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await go(agent, state, store=store)
    other = await go(agent, "again", store=store)

    assert [item.name for item in result.interruptions] == ["send"]
    assert [item.call_id for item in other.interruptions] == ["c"]
    assert tools.ran == [("pay", 1)]


async def test_an_exact_decision_beats_a_grant_whichever_came_first() -> None:
    for words in (("always", "exact"), ("exact", "always")):
        tools = Tools()
        agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b"), call("pay", 3, "c")], done()], tools.gated())
        state = await paused(agent)
        first, second, _ = state.get_interruptions()
        for word in words:
            if word == "always":
                state.approve(first, always_approve=True)
            else:
                state.reject(second, rejection_message="not this")
        await go(agent, await reloaded(agent, state))

        assert sorted(tools.ran) == [("pay", 1), ("pay", 3)]
        assert outputs(agent) == ["pay 1", "not this", "pay 3"]


@pytest.mark.parametrize("seconds_between", [1.0, 0.0])
@pytest.mark.parametrize("last", ["approve", "reject"])
async def test_a_newer_grant_beats_an_older_one(seconds_between: float, last: str) -> None:
    tools, clock = Tools(), ManualClock()
    agent = three_gated(tools)
    state = (await go(agent, "go", run_config=RunConfig(clock=clock))).to_state()
    first, second, _ = state.get_interruptions()
    earlier, later = ("reject", "approve") if last == "approve" else ("approve", "reject")
    getattr(state, earlier)(first, True)
    clock.advance(seconds_between)
    getattr(state, later)(second, True)
    result = await go(agent, state, run_config=RunConfig(clock=clock))

    assert result.final_output == "done"
    assert (("pay", 3) in tools.ran) is (last == "approve")


async def test_a_later_always_reject_beats_an_earlier_always_approve_across_pauses() -> None:
    tools = Tools()
    agent = scripted(
        [
            [call("pay", 1, "a")],
            [call("send", 2, "b"), call("pay", 3, "x")],
            [call("send", 4, "c"), call("pay", 5, "d")],
            done(),
        ],
        tools.gated(),
        tools.gated("send"),
    )
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await go(agent, state)
    assert [item.name for item in result.interruptions] == ["send"]
    state = result.to_state()
    state.reject(state.get_interruptions()[0], always_reject=True)
    result = await go(agent, state)

    assert result.final_output == "done"
    assert tools.ran == [("pay", 1), ("pay", 3), ("pay", 5)]


async def test_a_grant_for_certain_arguments_covers_only_calls_with_them() -> None:
    tools = Tools()

    @function_tool(needs_approval=True)
    async def refund(currency: str, cents: int) -> str:
        tools.ran.append((currency, cents))
        return "ok"

    def wants(currency: str, cents: int, label: str) -> Any:
        return function_call("refund", {"currency": currency, "cents": cents}, call_id=label)

    agent = scripted([[wants("EUR", 1, "a"), wants("EUR", 2, "b"), wants("USD", 3, "c")], done()], refund)
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=Grant(arguments={"currency": "EUR"}))
    result = await go(agent, await reloaded(agent, state))

    assert sorted(tools.ran) == [("EUR", 1), ("EUR", 2)]
    assert [item.call_id for item in result.interruptions] == ["c"]


@pytest.mark.parametrize("value", [1.0, "1", True, [1], None], ids=repr)
async def test_arguments_of_a_grant_fit_exactly_or_not_at_all(value: Any) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 1, "b")]], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=Grant(arguments={"n": value}))
    result = await go(agent, state)

    assert [item.call_id for item in result.interruptions] == ["b"]


@pytest.mark.parametrize("as_datetime", [False, True])
async def test_a_grant_ends_at_its_time(as_datetime: bool) -> None:
    tools, clock = Tools(), ManualClock(1_000.0)
    config = RunConfig(clock=clock)
    agent = scripted([[call("pay", 1, "a")], [call("pay", 2, "b")], done()], tools.gated())
    original = agent.tools[0].on_invoke_tool

    async def slow(ctx: Any, text: str) -> object:
        clock.advance(30.0)
        return await original(ctx, text)

    agent.tools[0].on_invoke_tool = slow
    until: Any = datetime.fromtimestamp(1_010.0, UTC) if as_datetime else 1_010.0
    state = (await go(agent, "go", run_config=config)).to_state()
    state.approve(state.get_interruptions()[0], always_approve=Grant(until=until))
    result = await go(agent, state, run_config=config)

    assert tools.ran == [("pay", 1)]
    assert [item.call_id for item in result.interruptions] == ["b"]


async def test_a_grant_holds_until_its_time() -> None:
    tools, config = Tools(), RunConfig(clock=ManualClock(1_000.0))
    agent = scripted([[call("pay", 1, "a")], [call("pay", 2, "b")], done()], tools.gated())
    state = (await go(agent, "go", run_config=config)).to_state()
    state.approve(state.get_interruptions()[0], always_approve=Grant(until=1_000.5))
    await go(agent, state, run_config=config)

    assert tools.ran == [("pay", 1), ("pay", 2)]


async def test_a_grant_is_used_up_after_so_many_uses() -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a")], [call("pay", 2, "b"), call("pay", 3, "c")], [call("pay", 4, "d")], done()],
        tools.gated(),
    )
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=Grant(uses=2))
    result = await go(agent, await reloaded(agent, state))

    assert tools.ran == [("pay", 1), ("pay", 2), ("pay", 3)]
    assert [item.call_id for item in result.interruptions] == ["d"]


async def test_a_grant_for_the_agent_reaches_later_runs_on_the_same_store_and_no_other() -> None:
    tools, store = Tools(), OwnStore()
    agent = scripted(
        [[call("pay", 1, "a")], done(), [call("pay", 2, "b")], done(), [call("pay", 3, "c")]], tools.gated()
    )
    state = await paused(agent, store=store)
    state.approve(state.get_interruptions()[0], always_approve=Grant(scope="agent"))
    await go(agent, state, store=store)
    later = await go(agent, "again", store=store)
    elsewhere = await go(agent, "elsewhere", store=OwnStore())

    assert later.final_output == "done"
    assert tools.ran == [("pay", 1), ("pay", 2)]
    assert len(elsewhere.interruptions) == 1


async def test_a_grant_for_the_agent_does_not_reach_another_agents_tool_of_the_same_name() -> None:
    tools, store = Tools(), OwnStore()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    other = scripted([[call("pay", 2, "b")]], tools.gated(), name="Other")
    state = await paused(agent, store=store)
    state.approve(state.get_interruptions()[0], always_approve=Grant(scope="agent"))
    await go(agent, state, store=store)
    result = await go(other, "go", store=store)

    assert len(result.interruptions) == 1
    assert tools.ran == [("pay", 1)]


async def test_uses_of_a_grant_for_the_agent_are_counted_over_all_runs() -> None:
    tools, store = Tools(), OwnStore()
    steps = [[call("pay", 1, "a")], done(), [call("pay", 2, "b")], done(), [call("pay", 3, "c")], done()]
    agent = scripted([*steps, [call("pay", 4, "d")]], tools.gated())
    state = await paused(agent, store=store)
    state.approve(state.get_interruptions()[0], always_approve=Grant(scope="agent", uses=2))
    await go(agent, state, store=store)
    results = [await go(agent, "again", store=store) for _ in range(3)]

    assert [len(result.interruptions) for result in results] == [0, 0, 1]
    assert tools.ran == [("pay", 1), ("pay", 2), ("pay", 3)]


def changed_pay(tools: Tools, version: str | None = None, other_schema: bool = False) -> FunctionTool:
    if other_schema:

        @function_tool(name_override="pay", needs_approval=True, version=version)
        async def body(n: int = 0, urgent: bool = False) -> str:
            tools.ran.append(("pay", n))
            return "new"

        return body
    return tools.gated(version=version)


@pytest.mark.parametrize("change", [{"other_schema": True}, {"version": "2"}], ids=str)
@pytest.mark.parametrize("scope", ["run", "agent"])
async def test_a_changed_tool_voids_a_grant(change: dict[str, Any], scope: Any) -> None:
    tools, store = Tools(), OwnStore()
    agent = scripted([[call("pay", 1, "a"), call("send", 5, "s")]], tools.gated(), tools.gated("send"))
    state = await paused(agent, store=store)
    state.approve(state.get_interruptions()[0], always_approve=Grant(scope=scope))
    state = (await go(agent, state, store=store)).to_state()
    state.reject(state.get_interruptions()[0])
    later = scripted([[call("pay", 2, "b")]], changed_pay(tools, **change), tools.gated("send"))
    result = await go(later, await reloaded(later, state), store=store)

    assert [item.call_id for item in result.interruptions] == ["b"]
    assert tools.ran == [("pay", 1)]


async def test_new_prose_in_a_schema_does_not_void_a_grant() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("send", 5, "s")]], tools.gated(), tools.gated("send"))
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    state = (await go(agent, state)).to_state()
    state.reject(state.get_interruptions()[0])
    reworded = tools.gated(description_override="Pays, as before, in other words.")
    later = scripted([[call("pay", 2, "b")], done()], reworded, tools.gated("send"))
    await go(later, await reloaded(later, state))

    assert tools.ran == [("pay", 1), ("pay", 2)]


@pytest.mark.parametrize(
    "bounds",
    [
        {"scope": "world"},
        {"uses": 0},
        {"uses": -1},
        {"until": datetime(2030, 1, 1)},  # noqa: DTZ001  # that is the point
    ],
    ids=str,
)
def test_a_grant_without_meaning_is_refused_where_it_is_written(bounds: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Grant(**bounds)


@pytest.mark.parametrize("word", ["no", "yes", 1, {"scope": "run"}], ids=repr)
async def test_always_is_true_false_or_a_grant_and_anything_else_is_refused(word: Any) -> None:
    tools = Tools()
    state = await paused(scripted([[call("pay", 1, "a")]], tools.gated()))
    with pytest.raises(UserError):
        state.approve(state.get_interruptions()[0], always_approve=word)


async def test_each_use_of_a_grant_is_a_decision_in_the_log_that_names_the_grant_and_its_giver() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b")], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=True, by="ann", reason="trusted")
    made = facts((await go(agent, state)).to_state(), DecisionMade)

    assert [(fact.call, fact.by, fact.reason, fact.grant is not None) for fact in made] == [
        ("1.0", "ann", "trusted", False),
        ("1.1", "ann", "trusted", True),
    ]


async def test_a_grant_does_not_answer_for_a_call_in_doubt() -> None:
    scene = Interrupted(needs_approval=True)
    state = await paused(scene.agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    state = await scene.cut(state)
    result = await go(scene.agent, state)

    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert scene.seen == [7]


# -- rejections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "formatter", "expected"),
    [
        ("because", lambda args: "formatted", "because"),
        ("", lambda args: "formatted", ""),
        (None, lambda args: "formatted", "formatted"),
        (None, lambda args: f"{args.tool_name} {args.call_id} {args.default_message}", f"pay a {NOT_APPROVED}"),
        (None, lambda args: None, NOT_APPROVED),
        (None, None, NOT_APPROVED),
    ],
)
async def test_what_the_model_reads_of_a_rejected_call(message: Any, formatter: Any, expected: str) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    state.reject(state.get_interruptions()[0], rejection_message=message)
    await go(agent, await reloaded(agent, state), run_config=RunConfig(tool_error_formatter=formatter))

    assert tools.ran == []
    assert outputs(agent) == [expected]


async def test_a_formatter_may_be_a_coroutine_function() -> None:
    async def formatter(args: Any) -> str:
        await asyncio.sleep(0)
        return "later"

    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    state.reject(state.get_interruptions()[0])
    await go(agent, state, run_config=RunConfig(tool_error_formatter=formatter))

    assert outputs(agent) == ["later"]


@pytest.mark.parametrize("own", ["mine", ""])
async def test_the_decisions_own_message_comes_before_the_grants(own: str) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b"), call("pay", 3, "c")], done()], tools.gated())
    state = await paused(agent)
    first, second, _ = state.get_interruptions()
    state.reject(first, always_reject=True, rejection_message="never")
    state.reject(second, rejection_message=own)
    await go(agent, state, run_config=RunConfig(tool_error_formatter=lambda args: "formatted"))

    assert outputs(agent) == ["never", own, "never"]


async def test_the_grants_message_comes_before_the_formatters_also_for_an_exact_rejection_without_one() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b")], done()], tools.gated())
    state = await paused(agent)
    first, second = state.get_interruptions()
    state.reject(first, always_reject=True, rejection_message="never")
    state.reject(second)
    await go(agent, state, run_config=RunConfig(tool_error_formatter=lambda args: "formatted"))

    assert outputs(agent) == ["never", "never"]


async def test_a_grant_without_a_message_leaves_it_to_the_formatter() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a"), call("pay", 2, "b")], done()], tools.gated())
    state = await paused(agent)
    state.reject(state.get_interruptions()[0], always_reject=True)
    await go(agent, state, run_config=RunConfig(tool_error_formatter=lambda args: "formatted"))

    assert outputs(agent) == ["formatted", "formatted"]


async def test_who_when_and_why_stand_in_the_log() -> None:
    tools, clock = Tools(), ManualClock(5_000.0)
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = (await go(agent, "go", run_config=RunConfig(clock=clock))).to_state()
    state.reject(state.get_interruptions()[0], by="ann", reason="too risky", rejection_message="no")
    clock.advance(60.0)
    result = await go(agent, state, run_config=RunConfig(clock=clock))
    made = facts(result.to_state(), DecisionMade)[0]

    assert (made.by, made.at, made.reason, made.message, made.verdict) == ("ann", 5_000.0, "too risky", "no", "reject")


# -- what you saw is what runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"other_schema": True}, {"version": "2"}], ids=str)
async def test_a_tool_that_changed_since_the_approval_is_asked_about_anew(change: dict[str, Any]) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    old_item = state.get_interruptions()[0]
    state.approve(old_item)
    later = scripted([done()], changed_pay(tools, **change))
    result = await go(later, await reloaded(later, state))
    item = result.interruptions[0]

    assert tools.ran == []
    assert item.id == old_item.id
    assert item.request_id != old_item.request_id
    assert item.why
    state = result.to_state()
    with pytest.raises(StaleApproval):
        state.approve(old_item)
    state.approve(item)
    await go(later, state)
    assert tools.ran == [("pay", 1)]


async def test_arguments_that_were_altered_in_the_stored_state_are_asked_about_anew() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0])
    text = state.to_string()
    altered = text.replace('{\\"n\\": 1}', '{\\"n\\": 1000}')
    assert altered != text
    result = await go(agent, await RunState.from_string(agent, altered), store=OwnStore())

    assert tools.ran == []
    assert [item.arguments for item in result.interruptions] == ['{"n": 1000}']


# -- edits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reload", [False, True])
async def test_an_edit_runs_with_the_new_arguments_and_says_so_in_the_first_line(reload: bool) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1000, "a")], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 5}, by="ann")
    result = await go(agent, await reloaded(agent, state) if reload else state)
    first, rest = outputs(agent)[0].split("\n", 1)

    assert tools.ran == [("pay", 5)]
    assert "reviewer" in first
    assert '{"n":5}' in first.replace(" ", "")
    assert rest == "pay 5"
    assert result.final_output == "done"


async def test_after_an_edit_the_models_original_call_stays_in_history_and_the_executed_arguments_are_recorded() -> (
    None
):
    tools = Tools()
    agent = scripted([[call("pay", 1000, "a")], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 5})
    result = await go(agent, state)
    sent = [item for item in model_of(agent).calls[1].input if item.get("type") == "function_call"]

    assert [item["arguments"] for item in sent] == ['{"n": 1000}']
    assert [fact.arguments for fact in facts(result.to_state(), DecisionMade)] == [{"n": 5}]


@pytest.mark.parametrize(
    "arguments", [{"n": "many"}, {"n": 1, "m": 2}, {"n": None}, {"n": float("nan")}, {"n": {1}}], ids=str
)
async def test_an_edit_is_validated_when_it_is_made_and_a_bad_one_changes_nothing(arguments: Any) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    before = state.to_string()
    with pytest.raises(UserError, match="pay"):
        state.approve(state.get_interruptions()[0], arguments=arguments)

    assert state.to_string() == before


async def test_an_edit_of_a_failing_body_still_says_what_ran() -> None:
    @function_tool(needs_approval=True)
    async def pay(n: int) -> str:
        raise RuntimeError(f"no {n}")

    agent = scripted([[call("pay", 1, "a")], done()], pay)
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 2})
    await go(agent, state)

    assert outputs(agent)[0].splitlines()[0].endswith('{"n":2}')
    assert "no 2" in outputs(agent)[0]


async def test_an_edit_of_a_tool_that_returns_parts_begins_with_a_part_that_says_so() -> None:
    @function_tool(needs_approval=True)
    async def pay(n: int) -> list[dict[str, str]]:
        return [{"type": "input_text", "text": f"paid {n}"}]

    agent = scripted([[call("pay", 1, "a")], done()], pay)
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 2})
    await go(agent, state)
    first, second = outputs(agent)[0]

    assert '{"n":2}' in first["text"]
    assert second == {"type": "input_text", "text": "paid 2"}


async def test_the_caller_may_change_the_edited_arguments_afterwards_without_effect() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    arguments = {"n": 2}
    state.approve(state.get_interruptions()[0], arguments=arguments)
    arguments["n"] = 666
    await go(agent, state)

    assert tools.ran == [("pay", 2)]


async def test_an_edit_can_mend_malformed_arguments() -> None:
    tools = Tools()
    agent = scripted([[function_call("pay", "{oops", call_id="a")], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 2})
    await go(agent, state)

    assert tools.ran == [("pay", 2)]


async def test_an_approval_of_malformed_arguments_answers_the_model_with_the_validation_error() -> None:
    tools = Tools()
    agent = scripted([[function_call("pay", "{oops", call_id="a")], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0])
    await go(agent, state)

    assert tools.ran == []
    assert "not run" in outputs(agent)[0]


async def test_a_tool_sees_the_edited_arguments_in_its_context() -> None:
    seen: list[str] = []

    @function_tool(needs_approval=True)
    async def pay(ctx: ToolContext[Any], n: int) -> str:
        seen.append(ctx.tool_arguments)
        return "ok"

    agent = scripted([[call("pay", 1, "a")], done()], pay)
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 2})
    await go(agent, state)

    assert seen == ['{"n":2}']


# -- responding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("it is done", "it is done"),
        ("", ""),
        ({"ok": True}, '{"ok":true}'),
        ([{"type": "input_text", "text": "x"}], [{"type": "input_text", "text": "x"}]),
        ([1, "two"], '[1,"two"]'),
        ([], "[]"),
        (5, "5"),
    ],
    ids=str,
)
async def test_an_answer_in_the_tools_place(answer: Any, read: Any) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent)
    state.respond(state.get_interruptions()[0], answer, by="ann")
    result = await go(agent, await reloaded(agent, state))

    assert tools.ran == []
    assert outputs(agent) == [read]
    assert [fact.outcome for fact in facts(result.to_state(), CallEnded)] == ["answered"]


@pytest.mark.parametrize("answer", [object(), {1: 2}, float("nan"), b"x", "\ud800"], ids=shown)
async def test_an_answer_that_cannot_be_written_down_is_refused_and_changes_nothing(answer: Any) -> None:
    tools = Tools()
    state = await paused(scripted([[call("pay", 1, "a")]], tools.gated()))
    before = state.to_string()
    with pytest.raises(UserError):
        state.respond(state.get_interruptions()[0], answer)

    assert state.to_string() == before


@pytest.mark.parametrize("field", ["by", "reason", "rejection_message"])
@pytest.mark.parametrize("value", ["\ud800", 42], ids=repr)
async def test_words_about_a_decision_that_cannot_be_written_down_are_refused_where_they_are_said(
    field: str, value: Any
) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")]], tools.gated())
    state = await paused(agent)
    with pytest.raises(UserError):
        state.reject(state.get_interruptions()[0], **{field: value})

    assert (await reloaded(agent, state)).get_interruptions()


# -- in doubt ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("needs_approval", [False, True])
async def test_cancelling_a_stream_while_a_body_runs_leaves_a_call_in_doubt(needs_approval: bool) -> None:
    scene = Interrupted(needs_approval=needs_approval)
    given: Any = "go"
    if needs_approval:
        given = await paused(scene.agent)
        given.approve(given.get_interruptions()[0])
    state = await scene.cut(given)
    item = state.get_interruptions()[0]

    assert (item.kind, item.call_id, item.name) == ("in_doubt", "c1", "pay")
    assert item.why


@pytest.mark.parametrize("reload", [False, True])
async def test_approving_a_call_in_doubt_runs_it_again(reload: bool) -> None:
    scene = Interrupted()
    state = await scene.cut()
    state.approve(state.get_interruptions()[0])
    result = await go(scene.agent, await reloaded(scene.agent, state) if reload else state)

    assert result.final_output == "done"
    assert scene.seen == [7, 7]
    assert outputs(scene.agent) == ["paid 7"]
    assert [each.attempt for each in scene.contexts] == [1, 2]
    assert len({each.idempotency_key for each in scene.contexts}) == 1


async def test_responding_to_a_call_in_doubt_says_what_happened() -> None:
    scene = Interrupted()
    state = await scene.cut()
    state.respond(state.get_interruptions()[0], "it did happen: receipt 5")
    await go(scene.agent, await reloaded(scene.agent, state))

    assert scene.seen == [7]
    assert outputs(scene.agent) == ["it did happen: receipt 5"]


@pytest.mark.parametrize("message", [None, "we gave up", ""])
async def test_rejecting_a_call_in_doubt_gives_it_up(message: str | None) -> None:
    scene = Interrupted()
    state = await scene.cut()
    state.reject(state.get_interruptions()[0], rejection_message=message)
    result = await go(scene.agent, await reloaded(scene.agent, state))

    assert scene.seen == [7]
    assert len(outputs(scene.agent)) == 1
    assert outputs(scene.agent)[0] == message if message is not None else "unknown" in outputs(scene.agent)[0]
    assert result.final_output == "done"


async def test_a_call_in_doubt_stays_so_until_somebody_decides() -> None:
    scene = Interrupted()
    state = await scene.cut()
    once = await go(scene.agent, state)
    twice = await go(scene.agent, once.to_state(), streamed=True)

    assert [item.kind for item in twice.interruptions] == ["in_doubt"]
    assert scene.seen == [7]


async def test_running_an_edited_call_again_runs_the_edited_arguments() -> None:
    scene = Interrupted(needs_approval=True)
    state = await paused(scene.agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 1})
    state = await scene.cut(state)
    state.approve(state.get_interruptions()[0])
    result = await go(scene.agent, await reloaded(scene.agent, state))

    assert scene.seen == [1, 1]
    assert result.interruptions == []
    assert outputs(scene.agent)[0].splitlines()[0].endswith('{"n":1}')


async def test_a_call_in_doubt_shows_the_arguments_that_would_run_again() -> None:
    scene = Interrupted(needs_approval=True)
    state = await paused(scene.agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 1})
    state = await scene.cut(state)

    assert (state.get_interruptions()[0].arguments or "").replace(" ", "") == '{"n":1}'


async def test_the_last_word_about_a_call_in_doubt_counts() -> None:
    scene = Interrupted()
    state = await scene.cut()
    item = state.get_interruptions()[0]
    state.approve(item)
    state.respond(item, "it happened")
    await go(scene.agent, state)

    assert scene.seen == [7]
    assert outputs(scene.agent) == ["it happened"]


# -- tool_use_behavior -------------------------------------------------------------------------------------------------


async def test_stop_on_first_tool_takes_the_first_in_the_models_order_once_all_have_ended() -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("look", 2, "b")]],
        tools.gated(),
        tools.free(),
        tool_use_behavior="stop_on_first_tool",
    )
    result = await go(agent, "go")
    waiting = result.final_output
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    result = await go(agent, state)

    assert waiting is None
    assert tools.ran == [("look", 2), ("pay", 1)]
    assert result.final_output == "pay 1"
    assert len(model_of(agent).calls) == 1


@pytest.mark.parametrize("behavior", ["stop_on_first_tool", {"stop_at_tool_names": ["pay", "look"]}], ids=str)
async def test_the_text_of_a_rejected_call_is_never_the_final_output(behavior: Any) -> None:
    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("look", 2, "b")]], tools.gated(), tools.free(), tool_use_behavior=behavior
    )
    state = await paused(agent)
    state.reject(state.get_interruptions()[0], rejection_message="this must not be the end")
    result = await go(agent, state)

    assert result.final_output == "look 2"


@pytest.mark.parametrize("behavior", ["stop_on_first_tool", {"stop_at_tool_names": ["pay"]}], ids=str)
async def test_when_all_were_rejected_the_model_is_asked_again(behavior: Any) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done("so be it")], tools.gated(), tool_use_behavior=behavior)
    state = await paused(agent)
    state.reject(state.get_interruptions()[0])
    result = await go(agent, state)

    assert result.final_output == "so be it"


async def test_the_text_of_an_in_doubt_call_that_was_rejected_is_never_the_final_output() -> None:
    scene = Interrupted(tool_use_behavior="stop_on_first_tool")
    state = await scene.cut()
    state.reject(state.get_interruptions()[0])
    result = await go(scene.agent, state)

    assert result.final_output == "done"


async def test_stop_at_tools_goes_on_after_other_tools() -> None:
    tools = Tools()
    agent = scripted(
        [[call("look", 1, "a")], [call("look", 2, "b"), call("last", 3, "c")]],
        tools.free(),
        tools.free("last"),
        tool_use_behavior={"stop_at_tool_names": ["last"]},
    )
    result = await go(agent, "go")

    assert result.final_output == "last 3"


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_judges_once_over_all_outputs_in_the_models_order(is_async: bool) -> None:
    judged: list[Any] = []

    def judge(ctx: Any, results: list[Any]) -> ToolsToFinalOutputResult:
        judged.append([(each.tool_name, each.output, each.was_run) for each in results])
        return ToolsToFinalOutputResult(True, {"sum": 1})

    async def later(ctx: Any, results: list[Any]) -> ToolsToFinalOutputResult:
        return judge(ctx, results)

    tools = Tools()
    agent = scripted(
        [[call("pay", 1, "a"), call("look", 2, "b"), call("pay", 3, "c")]],
        tools.gated(),
        tools.free(),
        tool_use_behavior=later if is_async else judge,
    )
    state = await paused(agent)
    assert judged == []
    state.approve(state.get_interruptions()[1])
    state = (await go(agent, state)).to_state()
    assert judged == []
    state.reject(state.get_interruptions()[0])
    result = await go(agent, state)

    assert judged == [[("pay", NOT_APPROVED, False), ("look", "look 2", True), ("pay", "pay 3", True)]]
    assert result.final_output == {"sum": 1}


async def test_a_turn_is_judged_once_also_when_the_next_request_is_not_taken() -> None:
    judged: list[int] = []

    def judge(ctx: Any, results: list[Any]) -> ToolsToFinalOutputResult:
        judged.append(len(results))
        return ToolsToFinalOutputResult(False)

    tools = Tools()
    agent = scripted(
        [[call("look", 1, "a")], ModelStep(raises=RequestNotTaken("busy")), done()],
        tools.free(),
        tool_use_behavior=judge,
    )
    with pytest.raises(RequestNotTaken) as caught:
        await go(agent, "go")
    result = await go(agent, caught.value.state)

    assert result.final_output == "done"
    assert judged == [1]


async def test_a_judge_that_answers_nonsense_is_named() -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a")]], tools.free(), tool_use_behavior=lambda ctx, results: True)
    with pytest.raises(UserError, match="ToolsToFinalOutputResult") as caught:
        await go(agent, "go")

    assert caught.value.state is not None
    assert tools.ran == [("look", 1)]


# -- max_turns ---------------------------------------------------------------------------------------------------------


async def test_the_stored_turn_limit_holds_at_resumption() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent, max_turns=1)
    state.approve(state.get_interruptions()[0])
    with pytest.raises(MaxTurnsExceeded) as caught:
        await go(agent, await reloaded(agent, state))

    assert tools.ran == [("pay", 1)]
    assert caught.value.state is not None


@pytest.mark.parametrize("limit", [2, None])
async def test_a_turn_limit_given_at_resumption_replaces_the_stored_one(limit: int | None) -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    state = await paused(agent, max_turns=1)
    state.approve(state.get_interruptions()[0])
    result = await go(agent, state, max_turns=limit)

    assert result.final_output == "done"


async def test_a_lower_limit_given_at_resumption_counts_too_and_stays() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], [call("pay", 2, "b")], done()], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    with pytest.raises(MaxTurnsExceeded) as caught:
        await go(agent, state, max_turns=2)
    with pytest.raises(MaxTurnsExceeded):
        await go(agent, caught.value.state)
    result = await go(agent, caught.value.state, max_turns=3)

    assert result.final_output == "done"
    assert tools.ran == [("pay", 1), ("pay", 2)]


async def test_waiting_costs_no_turn() -> None:
    tools = Tools()
    agent = three_gated(tools)
    state = await paused(agent, max_turns=2)
    for item in state.get_interruptions():
        state = (await go(agent, state)).to_state()  # nothing was decided: still waiting
        state.approve(item)
        result = await go(agent, state)
        state = result.to_state()

    assert result.final_output == "done"


async def test_a_run_without_a_limit_goes_on() -> None:
    tools = Tools()
    agent = scripted([*([call("look", n, f"c{n}")] for n in range(15)), done()], tools.free())
    result = await go(agent, "go", max_turns=None)

    assert result.final_output == "done"


async def test_the_default_limit_is_ten_turns() -> None:
    tools = Tools()
    agent = scripted([*([call("look", n, f"c{n}")] for n in range(15)), done()], tools.free())
    with pytest.raises(MaxTurnsExceeded):
        await go(agent, "go")

    assert len(tools.ran) == 10


# -- deciding while the run goes on ------------------------------------------------------------------------------------


async def test_a_tool_may_decide_about_a_waiting_sibling_through_its_context() -> None:
    tools = Tools()
    seen: list[Any] = []

    @function_tool
    async def boss(ctx: ToolContext[Any]) -> str:
        seen.append(ctx.is_tool_approved("pay", "a"))
        ctx.approve_tool("a", by="boss")
        seen.append(ctx.is_tool_approved("pay", "a"))
        return "fine"

    agent = scripted([[call("pay", 1, "a"), call("boss", None, "b")], done()], tools.gated(), boss)
    result = await go(agent, "go")

    assert seen == [None, True]
    assert tools.ran == [("pay", 1)]
    assert result.final_output == "done"


async def test_deciding_on_a_state_changes_no_other_snapshot_and_no_result() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")]], tools.gated())
    result = await go(agent, "go")
    one, other = result.to_state(), result.to_state()
    one.approve(one.get_interruptions()[0])

    assert other.context is not None
    assert other.context.is_tool_approved("pay", "a") is None
    assert result.context_wrapper.is_tool_approved("pay", "a") is None
    assert result.to_state().context.is_tool_approved("pay", "a") is None


async def test_a_run_never_changes_the_state_it_was_given() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], [assistant_message("done")]], tools.gated())
    state = await paused(agent)
    state.approve(state.get_interruptions()[0])
    before = state.to_string()
    await go(agent, state)

    assert state.to_string() == before
    assert len(state.get_interruptions()) == 1
