"""Storing and loading states: what goes in comes out, or is refused by name."""

from __future__ import annotations

import dataclasses
import json
import warnings
from typing import Any

import pydantic
import pytest

from placet import (
    Agent,
    PlacetError,
    RunContextWrapper,
    RunState,
    SealBroken,
    Secret,
    StateRefused,
    UserError,
    function_tool,
)
from placet.testing import assistant_message
from tests.runtime.scenes import OwnStore, Tools, call, done, go, outputs, reloaded, scripted, shown

CANARY = "canary-8f3a"
KEY = "a key of some length"


def pay_agent(tools: Tools | None = None, **options: Any) -> Agent[Any]:
    tools = tools or Tools()
    return scripted([[call("pay", 1, "a"), call("look", 2, "b")], done()], tools.gated(), tools.free(), **options)


async def paused(agent: Agent[Any] | None = None, **options: Any) -> tuple[Agent[Any], RunState[Any]]:
    agent = agent or pay_agent()
    return agent, (await go(agent, "go", **options)).to_state()


# -- round trips -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "string", "string of json", "json of string"])
async def test_a_state_comes_back_as_it_was_in_every_form(form: str) -> None:
    tools = Tools()
    agent, state = await paused(pay_agent(tools), context={"user": "Zoë 😀"})
    state.approve(state.get_interruptions()[0], by="ann")
    if form == "json":
        loaded = await RunState.from_json(agent, state.to_json())
    elif form == "string":
        loaded = await RunState.from_string(agent, state.to_string())
    elif form == "string of json":
        loaded = await RunState.from_string(agent, json.dumps(state.to_json()))
    else:
        loaded = await RunState.from_json(agent, json.loads(state.to_string()))
    again = loaded.to_json()
    result = await go(agent, loaded)

    assert again == state.to_json()
    assert loaded.context is not None
    assert loaded.context.context == {"user": "Zoë 😀"}
    assert loaded.context.is_tool_approved("pay", "a") is True
    assert result.final_output == "done"
    assert tools.ran == [("look", 2), ("pay", 1)]


@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        lambda data: json.dumps(data, sort_keys=True),
        lambda data: json.dumps(data, indent=2, ensure_ascii=False),
    ],
    ids=["spaces", "sorted", "pretty"],
)
@pytest.mark.parametrize("via", ["from_json", "from_string"])
async def test_a_state_that_a_database_wrote_in_its_own_way_is_still_the_same_history(write: Any, via: str) -> None:
    tools = Tools()
    agent, state = await paused(pay_agent(tools))
    text = write(state.to_json())
    loaded = await (
        RunState.from_json(agent, json.loads(text)) if via == "from_json" else RunState.from_string(agent, text)
    )
    loaded.approve(loaded.get_interruptions()[0])
    result = await go(agent, loaded)

    assert result.final_output == "done"
    assert tools.ran == [("look", 2), ("pay", 1)]


async def test_to_json_is_plain_json_and_names_its_format() -> None:
    _, state = await paused()
    found = state.to_json()

    assert json.loads(json.dumps(found)) == found
    assert found["placet"] == 1


async def test_to_json_gives_a_value_that_can_be_changed_without_changing_the_state() -> None:
    agent, state = await paused()
    state.to_json()["log"].clear()

    assert len((await reloaded(agent, state)).get_interruptions()) == 1


async def test_what_only_json_could_change_survives() -> None:
    odd = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "\u2028\x00\x7f😀"}],
        "n": 1.0,
        "m": -0.0,
        "big": 2**53 + 1,
        "e": 1e300,
    }
    agent = scripted([[odd, call("pay", 1, "a")], done()], Tools().gated())
    state = (await go(agent, [{"role": "user", "content": "é\u0301"}])).to_state()
    loaded = await RunState.from_json(agent, json.loads(json.dumps((await reloaded(agent, state)).to_json())))
    loaded.approve(loaded.get_interruptions()[0])
    await go(agent, loaded)
    sent = agent.model.calls[1].input  # type: ignore[union-attr]

    assert sent[0] == {"role": "user", "content": "é\u0301"}
    assert sent[1] == odd
    assert [type(sent[1][key]) for key in ("n", "big")] == [float, int]


async def test_an_ended_state_can_be_stored_and_loaded() -> None:
    agent = scripted([done("bye")])
    result = await go(agent, "go")
    loaded = await reloaded(agent, result.to_state())

    assert loaded.has_ended
    assert loaded.get_interruptions() == []
    assert (await go(agent, loaded, store=OwnStore())).final_output == "bye"


async def test_usage_is_stored() -> None:
    agent, state = await paused()
    loaded = await reloaded(agent, state)

    assert loaded.context is not None
    assert loaded.context.usage.requests == 1


# -- contexts ----------------------------------------------------------------------------------------------------------


class Session:
    def __init__(self, user: str) -> None:
        self.user = user


@dataclasses.dataclass
class Account:
    user: str


class Profile(pydantic.BaseModel):
    user: str
    token: pydantic.SecretStr | None = None


async def test_no_context_travels_as_none() -> None:
    agent, state = await paused()

    assert (await reloaded(agent, state, strict_context=True)).context.context is None  # type: ignore[union-attr]


@pytest.mark.parametrize("context", [{}, {"a": 1}, {"a": {"b": [1, None, "x"]}}], ids=str)
@pytest.mark.parametrize("strict", [False, True])
async def test_a_mapping_travels_as_it_is(context: Any, strict: bool) -> None:
    agent, state = await paused(context=context)
    text = state.to_string(strict_context=strict)
    loaded = await RunState.from_string(agent, text, strict_context=strict)

    assert loaded.context is not None
    assert loaded.context.context == context


@pytest.mark.parametrize(
    "context",
    [
        Session("x"),
        Account("x"),
        Profile(user="x"),
        "text",
        5,
        [1],
        {"a": object()},
        {"a": (1, 2)},
        {1: 2},
        {"a": float("nan")},
    ],
    ids=lambda value: type(value).__name__,
)
async def test_anything_else_is_left_out_with_a_warning_and_loading_says_so(context: Any) -> None:
    agent, state = await paused(context=context)
    with pytest.warns(UserWarning, match="left out"):
        text = state.to_string()
    with pytest.warns(UserWarning, match="context_override"):
        loaded = await RunState.from_string(agent, text)

    assert loaded.context is not None
    assert loaded.context.context is None


@pytest.mark.parametrize(
    "context", [Session("x"), Account("x"), Profile(user="x"), {"a": object()}], ids=lambda value: type(value).__name__
)
async def test_anything_else_is_refused_under_strict_when_storing(context: Any) -> None:
    _, state = await paused(context=context)
    for store in (state.to_string, state.to_json):
        with pytest.raises(UserError, match="context_serializer"):
            store(strict_context=True)


async def test_a_context_that_was_left_out_is_refused_under_strict_when_loading() -> None:
    agent, state = await paused(context=Session("x"))
    with pytest.warns(UserWarning, match="left out"):
        text = state.to_string()
    with pytest.raises(UserError, match="Session"):
        await RunState.from_string(agent, text, strict_context=True)


@pytest.mark.parametrize("strict", [False, True])
async def test_a_serializer_and_a_deserializer_carry_an_object(strict: bool) -> None:
    agent, state = await paused(context=Session("Zoë"))
    text = state.to_string(context_serializer=vars, strict_context=strict)
    loaded = await RunState.from_string(
        agent, text, context_deserializer=lambda data: Session(**data), strict_context=strict
    )

    assert loaded.context is not None
    assert isinstance(loaded.context.context, Session)
    assert loaded.context.context.user == "Zoë"


async def test_a_serialized_context_without_its_deserializer_warns_and_is_refused_under_strict() -> None:
    agent, state = await paused(context=Session("x"))
    text = state.to_string(context_serializer=vars)
    with pytest.warns(UserWarning, match="context_deserializer"):
        await RunState.from_string(agent, text)
    with pytest.raises(UserError, match="context_deserializer"):
        await RunState.from_string(agent, text, strict_context=True)


@pytest.mark.parametrize("answer", ["text", None, {"a": object()}], ids=shown)
async def test_a_serializer_that_gives_no_plain_mapping_is_refused_under_strict(answer: Any) -> None:
    _, state = await paused(context=Session("x"))
    with pytest.raises(UserError):
        state.to_string(context_serializer=lambda context: answer, strict_context=True)


@pytest.mark.parametrize("override", [Session("new"), RunContextWrapper(Session("new"))], ids=["bare", "wrapped"])
async def test_an_override_takes_the_place_of_what_was_stored_without_a_warning(override: Any) -> None:
    agent, state = await paused(context=Session("old"))
    with pytest.warns(UserWarning, match="left out"):
        text = state.to_string()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = await RunState.from_string(agent, text, context_override=override, strict_context=True)

    assert loaded.context is not None
    assert loaded.context.context.user == "new"


async def test_a_loaded_context_reaches_the_tools() -> None:
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    async def pay(ctx: RunContextWrapper[Any], n: int) -> str:
        seen.append(ctx.context)
        return "ok"

    agent = scripted([[call("pay", 1, "a")], done()], pay)
    state = (await go(agent, "go", context={"user": "Zoë"})).to_state()
    loaded = await reloaded(agent, state)
    loaded.approve(loaded.get_interruptions()[0])
    await go(agent, loaded)

    assert seen == [{"user": "Zoë"}]


async def test_a_context_that_contains_itself_is_left_out_or_refused_like_any_other() -> None:
    context: dict[str, Any] = {"a": 1}
    context["self"] = context
    _, state = await paused(context=context)
    with pytest.raises(UserError):
        state.to_string(strict_context=True)
    with pytest.warns(UserWarning, match="left out"):
        state.to_string()


# -- secrets -----------------------------------------------------------------------------------------------------------

SECRETS = {
    "placet": lambda: Secret(CANARY),
    "pydantic": lambda: pydantic.SecretStr(CANARY),
    "bytes": lambda: pydantic.SecretBytes(CANARY.encode()),
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("form", ["string", "json"])
async def test_a_secret_is_left_out_by_name_and_never_appears(kind: str, form: str) -> None:
    _, state = await paused(context={"user": "x", "token": SECRETS[kind]()})
    text = state.to_string() if form == "string" else json.dumps(state.to_json())

    assert CANARY not in text
    assert CANARY not in repr(state)
    assert "token" in text


@pytest.mark.parametrize("kind", SECRETS)
async def test_the_first_use_of_a_secret_that_was_left_out_raises_and_names_the_field(kind: str) -> None:
    agent, state = await paused(context={"user": "x", "token": SECRETS[kind]()})
    loaded = await reloaded(agent, state, strict_context=True)
    context = loaded.context.context  # type: ignore[union-attr]

    assert context["user"] == "x"
    for use in (
        lambda: context["token"],
        lambda: context.get("token"),
        lambda: context.pop("token"),
        lambda: context.get("token", "x"),
    ):
        with pytest.raises(UserError, match=r"token.*context_override"):
            use()
    with pytest.raises(KeyError):
        context["nothing of that name"]


@pytest.mark.parametrize(
    ("context", "read", "place"),
    [
        ({"a": {"token": Secret(CANARY)}}, lambda c: c["a"]["token"], "a.token"),
        ({"a": {"b": {"c": Secret(CANARY)}}, "x": 1}, lambda c: c["a"]["b"]["c"], "a.b.c"),
        ({"list": [{"token": Secret(CANARY)}]}, lambda c: c["list"][0]["token"], "token"),
        ({"dotted.name": Secret(CANARY)}, lambda c: c["dotted.name"], "dotted.name"),
        ({"a": {"dotted.name": Secret(CANARY)}}, lambda c: c["a"]["dotted.name"], "dotted.name"),
    ],
    ids=["nested", "deeply", "in a list", "with a dot", "nested with a dot"],
)
async def test_a_secret_anywhere_in_a_mapping_is_left_out_and_missed_by_name(
    context: Any, read: Any, place: str
) -> None:
    agent, state = await paused(context=context)
    text = state.to_string()
    loaded = await RunState.from_string(agent, text)

    assert CANARY not in text
    with pytest.raises(UserError) as caught:
        read(loaded.context.context)  # type: ignore[union-attr]
    assert place in str(caught.value)


async def test_a_secret_inside_a_list_has_no_name_and_is_refused() -> None:
    _, state = await paused(context={"tokens": [Secret(CANARY)]})
    with pytest.raises(UserError, match="tokens") as caught:
        state.to_string()

    assert CANARY not in str(caught.value)


async def test_a_secret_in_what_a_serializer_gives_is_left_out_too() -> None:
    _, state = await paused(context=Profile(user="x", token=pydantic.SecretStr(CANARY)))
    text = state.to_string(context_serializer=lambda profile: profile.model_dump())

    assert CANARY not in text


async def test_an_override_supplies_the_secret() -> None:
    agent, state = await paused(context={"token": Secret(CANARY)})
    loaded = await reloaded(agent, state, context_override={"token": Secret("fresh")})

    assert loaded.context is not None
    assert loaded.context.context["token"].reveal() == "fresh"


async def test_a_secret_that_is_set_after_loading_is_there() -> None:
    agent, state = await paused(context={"token": Secret(CANARY)})
    context = (await reloaded(agent, state)).context.context  # type: ignore[union-attr]
    context["token"] = "set"

    assert context["token"] == "set"


async def test_a_missing_secret_is_still_missed_by_name_after_storing_again() -> None:
    agent, state = await paused(context={"a": {"token": Secret(CANARY)}, "top": Secret(CANARY)})
    twice = await reloaded(agent, await reloaded(agent, state))
    context = twice.context.context  # type: ignore[union-attr]
    with pytest.raises(UserError, match=r"a\.token"):
        context["a"]["token"]
    with pytest.raises(UserError, match="top"):
        context["top"]


async def test_storing_does_not_change_the_context_itself() -> None:
    secret = Secret(CANARY)
    context = {"token": secret, "a": {"b": secret}}
    _, state = await paused(context=context)
    state.to_string()

    assert context == {"token": secret, "a": {"b": secret}}


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(CANARY)

    assert CANARY not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == CANARY


# -- seals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["string", "json", "json as text"])
async def test_a_sealed_state_opens_with_its_key(form: str) -> None:
    agent, state = await paused()
    if form == "string":
        loaded = await RunState.from_string(agent, state.to_string(key=KEY), key=KEY)
    elif form == "json":
        loaded = await RunState.from_json(
            agent, json.loads(json.dumps(state.to_json(key=KEY), sort_keys=True)), key=KEY
        )
    else:
        loaded = await RunState.from_string(agent, json.dumps(state.to_json(key=KEY)), key=KEY)

    assert loaded.to_json() == state.to_json()


@pytest.mark.parametrize("form", ["string", "json"])
async def test_with_a_key_an_unsealed_state_is_refused_and_without_one_a_sealed_state_is(form: str) -> None:
    agent, state = await paused()
    load: Any = RunState.from_string if form == "string" else RunState.from_json
    write: Any = state.to_string if form == "string" else state.to_json
    with pytest.raises(SealBroken, match="not sealed"):
        await load(agent, write(), key=KEY)
    with pytest.raises(SealBroken, match="key"):
        await load(agent, write(key=KEY))
    with pytest.raises(SealBroken):
        await load(agent, write(key=KEY), key="another key")


async def test_keys_rotate() -> None:
    agent, state = await paused()
    old = state.to_string(key="the old key")
    new = (await RunState.from_string(agent, old, key=["the new key", "the old key"])).to_string(
        key=["the new key", "the old key"]
    )

    assert (await RunState.from_string(agent, new, key="the new key")).run_id == state.run_id
    with pytest.raises(SealBroken):
        await RunState.from_string(agent, new, key="the old key")


async def test_any_altered_byte_of_a_sealed_state_is_refused() -> None:
    agent, state = await paused()
    sealed = state.to_string(key=KEY).encode()
    for position in range(0, len(sealed), 3):
        altered = bytearray(sealed)
        altered[position] ^= 1
        with pytest.raises(StateRefused):
            await RunState.from_string(agent, altered.decode(), key=KEY)


async def test_a_sealed_state_that_was_cut_is_refused() -> None:
    agent, state = await paused()
    sealed = state.to_string(key=KEY)
    for length in range(0, len(sealed), 7):
        with pytest.raises(StateRefused):
            await RunState.from_string(agent, sealed[:length], key=KEY)


async def test_an_approval_pasted_into_a_sealed_state_is_refused() -> None:
    agent, state = await paused()
    sealed = state.to_json(key=KEY)
    state.approve(state.get_interruptions()[0])
    sealed["state"] = state.to_json()
    with pytest.raises(SealBroken):
        await RunState.from_json(agent, sealed, key=KEY)


@pytest.mark.parametrize(
    "junk",
    [{"placet_sealed": "json"}, {"placet_sealed": "json", "mac": "x", "state": {"a": {1, 2}}}, {"placet_sealed": 1}],
    ids=str,
)
async def test_junk_that_claims_to_be_sealed_is_refused(junk: Any) -> None:
    with pytest.raises(StateRefused):
        await RunState.from_json(pay_agent(), junk, key=KEY)


# -- what cannot be loaded ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, 99, -1])
async def test_an_unknown_version_is_refused_by_its_number(version: int) -> None:
    agent, state = await paused()
    with pytest.raises(StateRefused, match=f"format {version}\\b"):
        await RunState.from_json(agent, {**state.to_json(), "placet": version})


async def test_a_newer_version_is_refused_by_its_number_even_if_nothing_else_can_be_read() -> None:
    with pytest.raises(StateRefused, match="format 7"):
        await RunState.from_string(pay_agent(), '{"placet": 7, "quite": "different"}')


async def test_a_tool_that_is_gone_is_named() -> None:
    _, state = await paused()
    with pytest.raises(UserError, match="'pay'"):
        await RunState.from_string(scripted([], Tools().free()), state.to_string())


async def test_a_tool_that_is_gone_does_not_matter_when_nothing_waits_for_it() -> None:
    agent, state = await paused()
    without_look = Agent(agent.name, tools=agent.tools[:1], model=agent.model)
    loaded = await RunState.from_string(without_look, state.to_string())

    assert len(loaded.get_interruptions()) == 1


async def test_a_renamed_agent_is_named_and_a_key_keeps_its_states() -> None:
    _, state = await paused()
    with pytest.raises(UserError, match=r"'Clerk'.*'Accountant'"):
        await RunState.from_string(pay_agent(name="Accountant"), state.to_string())
    loaded = await RunState.from_string(pay_agent(name="Accountant", key="Clerk"), state.to_string())

    assert len(loaded.get_interruptions()) == 1


async def test_a_state_of_another_agent_is_refused_by_the_runner_too_and_nothing_runs() -> None:
    tools = Tools()
    _, state = await paused(pay_agent(tools))
    state.approve(state.get_interruptions()[0])
    with pytest.raises(UserError, match="Clerk"):
        await go(pay_agent(tools, name="Other"), state)

    assert tools.ran == [("look", 2)]


FOREIGN: dict[str, Any] = {
    "a state of another library": {
        "$schemaVersion": "1.0",
        "currentTurn": 1,
        "currentAgent": {"name": "Clerk"},
        "originalInput": "go",
        "modelResponses": [{"output": [assistant_message("x")], "usage": {}, "responseId": "resp_1"}],
        "context": {"usage": {}, "approvals": {}, "context": {}},
        "generatedItems": [],
        "maxTurns": 10,
        "currentStep": {"type": "next_step_interruption", "data": {"interruptions": []}},
    },
    "a list": [],
    "a list of states": [{"placet": 1}],
    "a number": 5,
    "null": None,
    "true": True,
    "a text": "placet",
    "an empty object": {},
    "only a version": {"placet": 1},
    "a version as text": {"placet": "1"},
    "a version that is true": {"placet": True},
    "a fraction of a version": {"placet": 1.5},
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
async def test_foreign_json_is_refused(data: Any) -> None:
    agent = pay_agent()
    with pytest.raises(StateRefused):
        await RunState.from_string(agent, json.dumps(data))
    with pytest.raises(StateRefused):
        await RunState.from_json(agent, data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "}",
        "nonsense",
        "\x00",
        "\ud800",
        "NaN",
        '{"placet": 1' * 50,
        "[" * 100_000,
        '{"a":' * 100_000,
        b"{}",
        None,
        5,
    ],
    ids=lambda value: repr(value)[:16],
)
async def test_malformed_text_is_refused(text: Any) -> None:
    with pytest.raises(StateRefused):
        await RunState.from_string(pay_agent(), text)


async def test_a_truncated_state_is_refused_wherever_it_was_cut() -> None:
    agent, state = await paused(context={"user": "Zoë"})
    state.approve(state.get_interruptions()[0])
    raw = state.to_string().encode()
    for length in range(0, len(raw), 7):
        with pytest.raises(StateRefused):
            await RunState.from_string(agent, raw[:length].decode("utf-8", "surrogateescape"))


def _set(path: list[Any], value: Any) -> Any:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = value

    return change


DAMAGE: dict[str, Any] = {
    "no log": _set(["log"], []),
    "a log that is no list": _set(["log"], {}),
    "a line that is no record": _set(["log", 1], {"a": 1}),
    "an unknown fact": _set(["log", 1, 1], [["surprise", 1]]),
    "a first line missing": lambda data: data["log"].pop(0),
    "a middle line missing": lambda data: data["log"].pop(1),
    "lines in another order": lambda data: data["log"].reverse(),
    "a line twice": lambda data: data["log"].append(data["log"][-1]),
    "a key that is no hex": _set(["key"], "xyz"),
    "a head that is no hex": _set(["head"], "xyz"),
    "no key": lambda data: data.pop("key"),
    "no run id": lambda data: data.pop("run"),
    "a run id that is no text": _set(["run"], 5),
    "staged nonsense": _set(["staged"], [["decide"]]),
    "staged facts of another kind": _set(["staged"], [["ask"]]),
    "a context that is no object": _set(["context"], 5),
    "an output that is no list": _set(["log", 1, 1, 0, 2], "x"),
    "an item that is no object": _set(["log", 1, 1, 0, 2], [5]),
    "an item whose type is a list": _set(["log", 1, 1, 0, 2, 0, "type"], ["function_call"]),
    "an item whose type is an object": _set(["log", 1, 1, 0, 2, 0, "type"], {"a": 1}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
async def test_a_damaged_state_is_refused_with_an_error_of_our_own(damage: Any) -> None:
    agent, state = await paused()
    data = json.loads(state.to_string())
    assert data["log"][1][1][0][0] == "answer"
    damage(data)
    with pytest.raises(StateRefused):
        await RunState.from_json(agent, data)
    with pytest.raises(StateRefused):
        await RunState.from_string(agent, json.dumps(data))


@pytest.mark.parametrize(
    "fact", [["decide", "9.9", 1, "d", "approve", None, 1.0], ["decide", "", 0, "", "reject", None, 1.0]], ids=str
)
async def test_a_staged_decision_about_a_call_that_does_not_exist_is_refused_before_anything_runs(fact: Any) -> None:
    tools = Tools()
    agent, state = await paused(pay_agent(tools))
    data = {**state.to_json(), "staged": [fact]}
    with pytest.raises(PlacetError):
        await go(agent, await RunState.from_json(agent, data))

    assert tools.ran == [("look", 2)]


async def test_an_unknown_context_kind_is_not_taken_for_none() -> None:
    agent, state = await paused()
    data = {**state.to_json(), "context": {"kind": "from the future", "value": 1}}
    with pytest.raises(UserError):
        await RunState.from_json(agent, data, strict_context=True)


async def test_fields_that_a_later_version_added_do_not_matter() -> None:
    agent, state = await paused()
    loaded = await RunState.from_json(agent, {**state.to_json(), "added_later": {"x": 1}})

    assert len(loaded.get_interruptions()) == 1


async def test_a_loaded_state_finishes_on_a_store_that_never_saw_the_run() -> None:
    tools = Tools()
    agent, state = await paused(pay_agent(tools))
    loaded = await reloaded(agent, state)
    loaded.approve(loaded.get_interruptions()[0])
    result = await go(agent, loaded, store=OwnStore())

    assert result.final_output == "done"
    assert outputs(agent) == ["pay 1", "look 2"]
