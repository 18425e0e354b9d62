"""P11, as far as states go: a sealed state that was altered in one byte is refused before any effect."""

import json

import pytest

from placet import RunState, SealBroken, StateRefused, UserError
from tests.promises.scenes import DONE, cleanup, drive, reloaded, scene

pytestmark = pytest.mark.promise("P11")

KEY = "correct horse battery staple"


async def sealed_run():
    """A paused run as sealed text."""
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "go")
    return ops, paused.to_state()


async def test_a_sealed_state_opens_with_its_key_and_goes_on():
    ops, state = await sealed_run()

    for form in ("text", "json"):
        loaded = (
            await RunState.from_string(ops.agent, state.to_string(key=KEY), key=KEY)
            if form == "text"
            else await RunState.from_json(ops.agent, json.loads(json.dumps(state.to_json(key=KEY))), key=KEY)
        )

        assert loaded.to_string() == state.to_string()
    loaded.approve(loaded.get_interruptions()[0])
    assert (await drive(ops.agent, loaded)).final_output == "done"


async def test_each_flipped_bit_of_a_sealed_text_is_refused():
    ops, state = await sealed_run()
    raw = state.to_string(key=KEY).encode()
    opened = []

    for place in range(len(raw)):
        for bit in range(8):
            altered = bytearray(raw)
            altered[place] ^= 1 << bit
            text = altered.decode("utf-8", "surrogateescape")
            try:
                await RunState.from_string(ops.agent, text, key=KEY)
            except StateRefused:
                continue
            opened.append((place, bit))

    assert opened == []
    assert ops.effects == []


async def test_each_removed_repeated_or_added_byte_of_a_sealed_text_is_refused():
    ops, state = await sealed_run()
    text = state.to_string(key=KEY)
    altered = {text[:n] + text[n + 1 :] for n in range(len(text))}
    altered |= {text[:n] + text[n] + text[n:] for n in range(len(text))}
    altered |= {text[:n] + " " + text[n:] for n in range(len(text) + 1)}
    altered |= {text[:n] for n in range(0, len(text), 7)}

    opened = []
    for each in altered:
        try:
            await RunState.from_string(ops.agent, each, key=KEY)
        except StateRefused:
            continue
        opened.append(each)

    assert opened == []


async def test_each_altered_value_of_a_sealed_json_is_refused():
    ops, state = await sealed_run()
    sealed = state.to_json(key=KEY)

    def variants(value):
        """The value with one leaf changed, for each of its leaves."""
        if isinstance(value, dict):
            for name in value:
                yield {other: each for other, each in value.items() if other != name}
                yield from ({**value, name: each} for each in variants(value[name]))
        elif isinstance(value, list):
            for place, item in enumerate(value):
                yield value[:place] + value[place + 1 :]
                yield from ([*value[:place], each, *value[place + 1 :]] for each in variants(item))
        elif isinstance(value, str):
            yield value + "x"
            yield ""
        else:
            yield 2 if value == 1 else 1
            yield True

    count = 0
    for altered in variants(sealed):
        if altered != sealed or json.dumps(altered) != json.dumps(sealed):
            count += 1
            with pytest.raises(StateRefused):
                await RunState.from_json(ops.agent, altered, key=KEY)

    assert count > 50


async def test_an_approval_pasted_into_a_sealed_state_is_refused():
    ops, state = await sealed_run()
    sealed = state.to_string(key=KEY)
    state.approve(state.get_interruptions()[0], by="nobody")
    approved = state.to_string()
    decision = json.dumps(json.loads(approved)["staged"][0], separators=(",", ":"))
    inner = sealed[sealed.index('"state":') + len('"state":') : -1]
    pasted = inner[:-1] + f',"staged":[{decision}]' + "}"

    # Without the seal the paste is a state like any other: it is the seal that refuses it.
    believed = await RunState.from_string(ops.agent, pasted)
    assert believed.context.is_tool_approved("cleanup", "c1") is True
    with pytest.raises(SealBroken):
        await RunState.from_string(ops.agent, sealed.replace(inner, pasted), key=KEY)
    with pytest.raises(SealBroken):
        await RunState.from_string(ops.agent, pasted, key=KEY)
    assert ops.effects == []


async def test_with_a_key_an_unsealed_state_is_refused_and_without_one_a_sealed_state_is():
    ops, state = await sealed_run()

    with pytest.raises(SealBroken, match="not sealed"):
        await RunState.from_string(ops.agent, state.to_string(), key=KEY)
    with pytest.raises(SealBroken, match="not sealed"):
        await RunState.from_json(ops.agent, state.to_json(), key=KEY)
    with pytest.raises(SealBroken, match="is sealed"):
        await RunState.from_string(ops.agent, state.to_string(key=KEY))
    with pytest.raises(SealBroken, match="is sealed"):
        await RunState.from_json(ops.agent, state.to_json(key=KEY))


async def test_keys_rotate_the_first_seals_and_all_of_them_open():
    ops, state = await sealed_run()
    old, new = "the old key", b"the new key"
    sealed_long_ago, sealed_now = state.to_string(key=old), state.to_string(key=[new, old])

    assert (await RunState.from_string(ops.agent, sealed_long_ago, key=[new, old])).run_id == state.run_id
    assert (await RunState.from_string(ops.agent, sealed_now, key=new)).run_id == state.run_id
    with pytest.raises(SealBroken):
        await RunState.from_string(ops.agent, sealed_now, key=old)
    with pytest.raises(SealBroken):
        await RunState.from_string(ops.agent, sealed_long_ago, key=new)


@pytest.mark.parametrize("key", ["", b"short", []], ids=repr)
async def test_a_key_that_protects_nothing_is_refused(key):
    _, state = await sealed_run()

    with pytest.raises(UserError):
        state.to_string(key=key)


async def test_the_seal_of_the_text_does_not_open_the_json_and_that_of_the_json_not_the_text():
    ops, state = await sealed_run()
    as_text, as_json = json.loads(state.to_string(key=KEY)), state.to_json(key=KEY)

    with pytest.raises(SealBroken):
        await RunState.from_json(ops.agent, as_text, key=KEY)
    with pytest.raises(SealBroken):
        await RunState.from_json(ops.agent, {**as_json, "mac": as_text["mac"]}, key=KEY)


async def test_decisions_made_after_opening_need_a_new_seal():
    ops, state = await sealed_run()
    loaded = await reloaded(ops.agent, state, key=KEY)
    loaded.approve(loaded.get_interruptions()[0])

    again = await reloaded(ops.agent, loaded, key=KEY)

    assert again.context.is_tool_approved("cleanup", "c1") is True
