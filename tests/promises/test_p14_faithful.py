"""P14: what is loaded is what was stored, or is refused by name. Secrets do not travel."""

import json
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from placet import RunContextWrapper, RunState, Secret, StateRefused, UserError, function_tool
from tests.promises.scenes import DONE, cleanup, diagnose, drive, refund, reloaded, scene

pytestmark = pytest.mark.promise("P14")

CANARY = "canary-7f3a"


async def paused_run(**options):
    ops = scene([diagnose("d1"), cleanup("/a", "c1"), refund(1, "r1")], DONE)
    return ops, await drive(ops.agent, "go", **options)


async def test_what_is_loaded_is_what_was_stored():
    ops, paused = await paused_run(context={"user": "ann", "limits": [1, 2.5, None, True]})
    state = paused.to_state()
    state.approve(state.get_interruptions()[0], by="ann", reason="ok", always_approve=True)
    state.reject(state.get_interruptions()[1], rejection_message="nö ✗")

    from_text, from_json = await reloaded(ops.agent, state), await RunState.from_json(ops.agent, state.to_json())

    for loaded in (from_text, from_json):
        assert loaded.to_string() == state.to_string()
        assert loaded.context.context == {"user": "ann", "limits": [1, 2.5, None, True]}
        assert loaded.context.approvals == state.context.approvals
        assert [item.id for item in loaded.get_interruptions()] == [item.id for item in state.get_interruptions()]
        assert [item.digest for item in loaded.get_interruptions()] == [i.digest for i in state.get_interruptions()]


async def test_an_unknown_version_is_refused_by_name():
    ops, paused = await paused_run()
    document = paused.to_state().to_json()
    document["placet"] = 99

    with pytest.raises(StateRefused, match="format 99"):
        await RunState.from_json(ops.agent, document)
    with pytest.raises(StateRefused, match="format 99"):
        await RunState.from_string(ops.agent, json.dumps({"placet": 99, "whatever": True}))


async def test_a_fact_that_a_newer_version_wrote_is_refused():
    ops, paused = await paused_run()
    document = paused.to_state().to_json()
    document["log"].append([1.0, [["telepathy", "1.0"]]])

    with pytest.raises(StateRefused, match="newer version"):
        await RunState.from_json(ops.agent, document)


async def test_fields_and_items_that_we_do_not_know_are_kept():
    strange = {"type": "hologram", "id": "h1", "depth": 3}
    ops = scene([strange, {**cleanup("/a", "c1"), "mood": "good"}], DONE)
    state = await reloaded(ops.agent, await drive(ops.agent, "go"))
    state.approve(state.get_interruptions()[0])

    await drive(ops.agent, state)

    assert ops.model.calls[1].input[1:3] == [strange, {**cleanup("/a", "c1"), "mood": "good"}]


async def test_a_missing_tool_is_refused_by_name():
    ops, paused = await paused_run()

    with pytest.raises(UserError, match="'cleanup'"):
        await reloaded(ops.rebuilt(ops.agent.tool_named("refund")), paused)


async def test_a_renamed_agent_is_refused_by_name_and_a_key_survives_the_renaming():
    ops, paused = await paused_run()
    keyed = scene([cleanup("/a", "c1")], DONE, key="ops-1")
    keyed_pause = await drive(keyed.agent, "go")

    with pytest.raises(UserError, match=r"'ops'.*'operations'"):
        await reloaded(ops.agent.clone(name="operations"), paused)
    with pytest.raises(UserError, match=r"'ops'.*'operations'"):
        await drive(ops.agent.clone(name="operations"), paused.to_state())
    loaded = await reloaded(keyed.agent.clone(name="operations"), keyed_pause)
    assert len(loaded.get_interruptions()) == 1
    assert ops.effects == ["diagnose"]


FOREIGN = {
    "empty": "",
    "null": "null",
    "list": "[]",
    "number": "7",
    "text": '"text"',
    "object": "{}",
    "version as a text": '{"placet": "1"}',
    "header only": '{"placet": 1}',
    "words": "not json",
    "lone surrogate": "\ud800",
    "deep": "[" * 5000,
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
async def test_foreign_text_is_refused_as_such(text):
    ops = scene()

    with pytest.raises(StateRefused):
        await RunState.from_string(ops.agent, text)


async def test_a_state_that_was_cut_anywhere_is_refused():
    ops, paused = await paused_run()
    text = paused.to_state().to_string()

    loaded = []
    for end in range(len(text)):
        try:
            await RunState.from_string(ops.agent, text[:end])
        except StateRefused:
            continue
        loaded.append(end)

    assert loaded == []


@pytest.mark.parametrize("order", ["reversed", "repeated"])
async def test_a_log_that_contradicts_itself_is_refused(order):
    ops, paused = await paused_run()
    document = paused.to_state().to_json()
    lines = document["log"]
    document["log"] = lines[::-1] if order == "reversed" else [*lines, lines[-1]]

    with pytest.raises(StateRefused):
        await RunState.from_json(ops.agent, document)


@dataclass
class Account:
    user: str
    token: SecretStr


def spelled(account):
    return {"user": account.user, "token": account.token}


@pytest.mark.parametrize(
    ("context", "serializer"),
    [
        ({"user": "ann", "token": SecretStr(CANARY)}, None),
        ({"user": "ann", "token": Secret(CANARY)}, None),
        ({"user": "ann", "deep": {"er": [{"token": Secret(CANARY)}]}}, None),
        (Account("ann", SecretStr(CANARY)), spelled),
    ],
    ids=["pydantic", "placet", "nested", "serializer"],
)
@pytest.mark.parametrize("key", [None, "long enough key"], ids=["open", "sealed"])
async def test_a_secret_never_appears_in_a_stored_state(context, serializer, key):
    _, paused = await paused_run(context=context)
    state = paused.to_state()

    text = state.to_string(context_serializer=serializer, key=key)
    document = json.dumps(state.to_json(context_serializer=serializer, key=key))

    assert CANARY not in text + document
    assert "ann" in text
    assert CANARY not in repr(state) + repr(paused) + repr(state.context.context)


async def test_a_context_that_is_left_out_takes_its_secret_with_it():
    ops, paused = await paused_run(context=Account("ann", SecretStr(CANARY)))
    state = paused.to_state()

    with pytest.warns(UserWarning, match="left out"):
        text = state.to_string()
    with pytest.raises(UserError, match="cannot be stored"):
        state.to_string(strict_context=True)
    with pytest.warns(UserWarning, match="not restored"):
        loaded = await RunState.from_string(ops.agent, text)

    assert CANARY not in text
    assert loaded.context.context is None


@pytest.mark.parametrize(
    ("context", "read", "field"),
    [
        ({"token": Secret(CANARY)}, lambda c: c["token"], "token"),
        ({"token": Secret(CANARY)}, lambda c: c.get("token"), "token"),
        ({"mail": {"token": Secret(CANARY)}}, lambda c: c["mail"]["token"], "mail.token"),
        ({"hosts": [{"token": Secret(CANARY)}]}, lambda c: c["hosts"][0]["token"], "hosts[0].token"),
        ({"api.token": Secret(CANARY)}, lambda c: c["api.token"], "api.token"),
    ],
    ids=["field", "get", "nested", "in a list", "dotted name"],
)
async def test_a_secret_that_is_missing_after_loading_is_missed_by_name_at_its_first_use(context, read, field):
    ops, paused = await paused_run(context=context)
    loaded = await reloaded(ops.agent, paused)

    with pytest.raises(UserError) as missed:
        read(loaded.context.context)

    assert f"'{field}'" in str(missed.value)


async def test_a_secret_can_be_given_again_when_the_state_is_loaded():
    seen = []

    @function_tool(needs_approval=True, name_override="cleanup")
    async def cleanup_with_token(ctx: RunContextWrapper, path: str) -> str:
        seen.append(ctx.context["token"].reveal())
        return "cleaned"

    ops = scene([cleanup("/a", "c1")], DONE, tools=(cleanup_with_token,))
    text = (await drive(ops.agent, "go", context={"token": Secret(CANARY)})).to_state().to_string()
    state = await RunState.from_string(ops.agent, text, context_override={"token": Secret("another")})
    state.approve(state.get_interruptions()[0])

    await drive(ops.agent, state)

    assert seen == ["another"]


async def test_what_a_provider_says_in_an_error_is_not_stored():
    ops = scene([diagnose("d1")], ConnectionError(f"401: key {CANARY} is not valid"))

    with pytest.raises(ConnectionError) as failed:
        await drive(ops.agent, "go")

    assert CANARY not in failed.value.state.to_string()


async def test_a_context_comes_back_through_its_serializer_and_is_refused_without_it_under_strict():
    ops, paused = await paused_run(context=Account("ann", SecretStr(CANARY)))
    text = paused.to_state().to_string(context_serializer=lambda account: {"user": account.user})

    loaded = await RunState.from_string(
        ops.agent, text, context_deserializer=lambda found: Account(found["user"], SecretStr("fresh"))
    )

    assert loaded.context.context.user == "ann"
    with pytest.raises(UserError, match="Account"):
        await RunState.from_string(ops.agent, text, strict_context=True)
