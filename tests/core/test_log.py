"""The log's chain, JSON as the log needs it, ids, digests, seals."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from placet.core.gate import digest_of
from placet.core.log import Line, Log, read_line
from placet.facts import events as e
from placet.facts.codec import MAX_DEPTH, NotPlain, canonical, encode, parse_arguments, plain, plain_item
from placet.facts.errors import SealBroken, StateRefused, UserError
from placet.facts.ids import call_id, local_call_id, mint, path_of, request_id, split_call_id
from placet.states.seal import is_sealed, key_list, open_json, open_text, seal_json, seal_text
from tests.runtime.scenes import shown

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

FACTS: list[list[e.AnyFact]] = [
    [e.RunStarted("Clerk", "hello", 10)],
    [e.RequestSent()],
    [e.ResponseReceived("resp_1", [{"type": "function_call", "name": "pay", "arguments": "{}"}], e.Usage(1, 2, 3))],
    [e.CallsAllowed(["1.0"]), e.CallsStarted(["1.0"])],
    [e.CallEnded("1.0", "finished", "paid")],
]


def log_of(facts: list[list[e.AnyFact]] = FACTS, key: bytes = b"k" * 16) -> Log:
    log = Log("run_x", key)
    for at, each in enumerate(facts):
        log.append(log.next_line(float(at), each))
    return log


# -- the chain


def test_a_log_as_it_was_written_verifies() -> None:
    assert log_of().verify()


def test_a_line_reads_back_as_the_facts_that_were_written() -> None:
    log = log_of()

    assert [read_line(line).facts for line in log.lines] == FACTS
    assert [read_line(line).at for line in log.lines] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("position", range(len(FACTS)))
def test_a_changed_line_is_found(position: int) -> None:
    other = e.TurnLimitSet(99)
    log = log_of()
    log.lines[position] = encode(e.Record(float(position), [other]))

    assert not log.verify()


@pytest.mark.parametrize("position", range(len(FACTS)))
def test_a_changed_time_is_found(position: int) -> None:
    log = log_of()
    log.lines[position] = encode(e.Record(77.0, FACTS[position]))

    assert not log.verify()


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(range(len(FACTS)), 2)))
def test_reordered_lines_are_found(one: int, other: int) -> None:
    log = log_of()
    log.lines[one], log.lines[other] = log.lines[other], log.lines[one]

    assert not log.verify()


@pytest.mark.parametrize("position", range(len(FACTS)))
def test_a_line_that_was_cut_out_is_found(position: int) -> None:
    log = log_of()
    del log.lines[position]

    assert not log.verify()


def test_a_line_that_was_added_is_found() -> None:
    log = log_of()
    log.lines.append(log.lines[1])

    assert not log.verify()


def test_facts_moved_from_one_line_to_another_are_found() -> None:
    log = log_of()
    log.lines[3] = encode(e.Record(3.0, FACTS[3][:1]))
    log.lines[4] = encode(e.Record(4.0, [*FACTS[3][1:], *FACTS[4]]))

    assert not log.verify()


def test_without_the_runs_key_the_chain_does_not_verify_so_payloads_cannot_be_guessed() -> None:
    log = log_of()
    log.key = b"x" * 16

    assert not log.verify()


def test_equal_facts_have_unequal_digests_in_different_runs() -> None:
    assert log_of(key=b"a" * 16).head != log_of(key=b"b" * 16).head


def test_a_copy_of_a_log_does_not_change_with_its_original() -> None:
    log = log_of()
    twin = log.copy()
    log.append(log.next_line(9.0, [e.RequestSent()]))

    assert len(twin) == len(FACTS)
    assert twin.verify()


def test_a_prefix_is_known_as_one() -> None:
    log, shorter, other = log_of(), log_of(FACTS[:3]), log_of([FACTS[0], FACTS[3]])

    assert log.starts_with(shorter)
    assert log.starts_with(log)
    assert not shorter.starts_with(log)
    assert not log.starts_with(other)


def test_adopted_lines_get_the_head_that_writing_them_would_have_given() -> None:
    log = log_of()
    twin = Log("run_x", log.key)
    for line in log.lines:
        twin.adopt(line)

    assert twin.head == log.head
    assert twin.verify()


def test_a_log_that_was_written_before_a_fact_got_another_field_still_verifies() -> None:
    text = b'["start","Clerk","hello",10]'  # as it was when the fields after these did not exist
    log = Log("run_x", b"k" * 16)
    line = b"[1.0,[" + text + b"]]"
    facts = read_line(line).facts
    log.append(Line(line, log._head_after(b"1.0", facts, [text]), 1.0, facts))

    assert log.verify()


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[1]", b'[1,[["from the future",1]]]', b"[1,[[]]]", b'["x",[]]', b"nonsense"]
)
def test_a_line_that_cannot_be_read_is_refused(line: bytes) -> None:
    with pytest.raises(StateRefused):
        read_line(line)


def test_every_kind_of_fact_has_a_name_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in get_args(e.AnyFact)]

    assert len(set(tags)) == len(tags)
    assert all(isinstance(tag, str) for tag in tags)


def test_a_fact_of_a_nested_run_survives_the_log() -> None:
    fact = e.InChild("1.0", e.CallEnded("1.0/1.0", "finished", ["x"]))
    log = log_of([FACTS[0], [fact]])

    assert read_line(log.lines[1]).facts == [fact]
    assert log.verify()


# -- plain values


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -5, 2**63 - 1, -(2**63), 1.5, -0.0, "", "ü€😀", [], {}, [1, [2, [3]]], {"a": {"b": [None]}}],
)
def test_a_plain_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    found = plain(value)

    assert found == value
    assert type(found) is type(value)
    assert json.loads(encode(found)) == value


def test_a_plain_value_is_a_deep_copy() -> None:
    value = {"a": [{"b": 1}]}
    found: Any = plain(value)
    value["a"][0]["b"] = 2

    assert found == {"a": [{"b": 1}]}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), "value"),
        ({"a": float("inf")}, "value.a"),
        ([1, (2, 3)], "value[1]"),
        ({"a": {1: 2}}, "value.a"),
        ({"a": [b"x"]}, "value.a[0]"),
        ({1, 2}, "value"),
        (object(), "value"),
        ({"a": "\ud800"}, "value.a"),
        ({"\udfff": 1}, "value"),
        (1j, "value"),
    ],
    ids=shown,
)
def test_a_value_that_json_would_change_is_refused_at_its_place(value: Any, place: str) -> None:
    with pytest.raises(NotPlain) as caught:
        plain(value)

    assert str(caught.value).startswith(place)


def test_what_plain_accepts_can_be_written() -> None:
    for value in (10**30, -(10**30), 2**64 - 1, 2**64):
        try:
            found = plain([value])
        except NotPlain:
            continue
        assert json.loads(encode(found)) == [value]
        assert msgspec.json.decode(canonical(found)) == [value]


def test_nesting_without_end_is_refused() -> None:
    value: Any = []
    value.append(value)
    deep: Any = 1
    for _ in range(MAX_DEPTH + 2):
        deep = {"a": deep}

    for each in (value, deep):
        with pytest.raises(NotPlain, match="nested"):
            plain(each)


def test_nesting_up_to_the_limit_is_kept() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]

    assert plain(deep) == deep


@pytest.mark.parametrize("item", [7, "text", None, [1]])
def test_an_item_is_an_object(item: Any) -> None:
    with pytest.raises(NotPlain):
        plain_item(item, "input[0]")


def test_an_openai_object_becomes_a_dict_with_all_its_fields_and_no_others() -> None:
    from openai.types.responses import ResponseFunctionToolCall

    item = ResponseFunctionToolCall.model_validate(
        {"type": "function_call", "name": "pay", "arguments": "{}", "call_id": "c", "new_field": {"x": [1]}}
    )

    assert plain_item(item) == {
        "type": "function_call",
        "name": "pay",
        "arguments": "{}",
        "call_id": "c",
        "new_field": {"x": [1]},
    }


# -- arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        (' {"a" : [1, {"b": null}]} ', {"a": [1, {"b": None}]}),
        ('{"a": 1.5e3}', {"a": 1500.0}),
        ('{"ü": "\\u00fc"}', {"ü": "ü"}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ],
)
def test_arguments_that_are_one_json_object(text: str, value: Any) -> None:
    assert parse_arguments(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "5",
        '"x"',
        "{",
        '{"a": 1',
        '{"a": 1} {"b": 2}',
        '{"a": 1}x',
        "{'a': 1}",
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"\\udc00": 1}',
        '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"a":' * 300 + "1" + "}" * 300,
        '{"a": ' + "9" * 5_000 + "}",
        "\x00",
        "undefined",
    ],
    ids=lambda text: text[:24],
)
def test_anything_else_has_no_single_meaning(text: str) -> None:
    assert parse_arguments(text) is None


def test_arguments_that_parse_can_be_digested() -> None:
    for text in ('{"n": 100000000000000000000000000000}', '{"n": 18446744073709551616}', '{"n": -9223372036854775809}'):
        found = parse_arguments(text)
        if found is not None:
            assert digest_of("", "Clerk", "function:pay", "f", found)


# -- digests


def test_a_digest_is_the_same_whatever_the_order_of_the_keys() -> None:
    assert digest_of("", "A", "t", "f", {"a": 1, "b": {"c": 2, "d": 3}}) == digest_of(
        "", "A", "t", "f", {"b": {"d": 3, "c": 2}, "a": 1}
    )


def test_a_digest_covers_path_agent_tool_schema_and_arguments() -> None:
    base: tuple[Any, ...] = ("1.0", "A", "function:pay", "f", {"n": 1})
    changed = [("1.1", "B", "mcp:x:pay", "g", {"n": 2})[i] for i in range(5)]
    digests = {digest_of(*base)} | {digest_of(*base[:i], changed[i], *base[i + 1 :]) for i in range(5)}

    assert len(digests) == 6


@pytest.mark.parametrize("other", [{"n": 1.0}, {"n": "1"}, {"n": True}, {"n": [1]}, {"n": 1, "m": None}, '{"n":1}', {}])
def test_arguments_that_look_alike_have_different_digests(other: Any) -> None:
    assert digest_of("", "A", "t", "f", other) != digest_of("", "A", "t", "f", {"n": 1})


def test_a_digest_cannot_be_shifted_from_one_part_to_the_next() -> None:
    assert digest_of("a", "b", "c", "d", {}) != digest_of("ab", "", "c", "d", {})


# -- ids


def test_minted_ids_are_unique_carry_their_prefix_and_sort_by_birth() -> None:
    found = [mint("run") for _ in range(1_000)]

    assert len(set(found)) == 1_000
    assert all(each.startswith("run_") and len(each) == 30 for each in found)
    assert found[0][:12] <= found[-1][:12]


@pytest.mark.parametrize(
    ("path", "turn", "index", "local"), [("", 1, 0, "1.0"), ("2.0", 1, 3, "2.0/1.3"), ("2.0/1.3", 4, 5, "2.0/1.3/4.5")]
)
def test_a_calls_id_says_where_it_stands(path: str, turn: int, index: int, local: str) -> None:
    assert local_call_id(path, turn, index) == local
    assert path_of(local) == path
    assert split_call_id(call_id("run_x", local)) == ("run_x", local)


@pytest.mark.parametrize("label", ["call_abc", "", "a:b", "toolu:1.0", ":1.0", "fc_run_x:1"])
def test_a_providers_label_is_not_taken_for_an_id_of_ours(label: str) -> None:
    assert split_call_id(label) == ("", label)


def test_a_new_question_about_a_call_has_a_new_id() -> None:
    assert request_id("run_x", "1.0", 1) != request_id("run_x", "1.0", 2)


# -- seals

KEY = "correct horse"


def test_a_sealed_text_opens_with_its_key_and_is_json_itself() -> None:
    sealed = seal_text('{"a":"ü"}', key_list(KEY))

    assert open_text(sealed, key_list(KEY)) == '{"a":"ü"}'
    assert json.loads(sealed)["state"] == {"a": "ü"}
    assert is_sealed(sealed)


def test_every_altered_byte_of_a_sealed_text_is_refused() -> None:
    sealed = seal_text('{"a":"x","n":[1,2]}', key_list(KEY)).encode()

    for position in range(len(sealed)):
        altered = bytearray(sealed)
        altered[position] ^= 1
        with pytest.raises(SealBroken):
            open_text(altered.decode("latin-1"), key_list(KEY))


@pytest.mark.parametrize(
    "change", [lambda s: s[:-1], lambda s: s + " ", lambda s: s + "}", lambda s: " " + s, lambda s: ""]
)
def test_a_sealed_text_that_was_cut_or_added_to_is_refused(change: Any) -> None:
    with pytest.raises(SealBroken):
        open_text(change(seal_text("{}", key_list(KEY))), key_list(KEY))


def test_another_key_does_not_open() -> None:
    with pytest.raises(SealBroken):
        open_text(seal_text("{}", key_list(KEY)), key_list("another key"))


def test_the_first_of_several_keys_seals_and_all_of_them_open() -> None:
    old, new = seal_text("{}", key_list("old-key-1")), seal_text("{}", key_list(["new-key-2", "old-key-1"]))

    assert open_text(old, key_list(["new-key-2", "old-key-1"])) == "{}"
    assert open_text(new, key_list("new-key-2")) == "{}"
    with pytest.raises(SealBroken):
        open_text(new, key_list("old-key-1"))


def test_a_key_may_be_text_or_bytes() -> None:
    assert key_list("eight by") == key_list(b"eight by")


@pytest.mark.parametrize("keys", ["", "short", b"1234567", [], ["long enough", "short"]])
def test_a_key_that_protects_nothing_is_refused(keys: Any) -> None:
    with pytest.raises(UserError):
        key_list(keys)


def test_a_sealed_object_opens_whatever_the_order_of_its_keys() -> None:
    sealed = seal_json({"b": 1, "a": [2]}, key_list(KEY))
    reordered = json.loads(json.dumps(sealed, sort_keys=True))

    assert open_json(reordered, key_list(KEY)) == {"a": [2], "b": 1}


@pytest.mark.parametrize(
    "change",
    [{"mac": "0" * 64}, {"state": {"a": 2}}, {"state": None}, {"mac": 5}, {"more": 1}, {"placet_sealed": 2}],
    ids=str,
)
def test_an_altered_sealed_object_is_refused(change: Any) -> None:
    with pytest.raises(SealBroken):
        open_json({**seal_json({"a": 1}, key_list(KEY)), **change}, key_list(KEY))


def test_a_seal_of_a_text_is_not_one_of_an_object() -> None:
    text = seal_text('{"a":1}', key_list(KEY))
    with pytest.raises(SealBroken, match="from_string"):
        open_json(json.loads(text), key_list(KEY))


# -- erasing


def test_an_erased_log_says_nothing_and_has_the_same_chain() -> None:
    log = log_of([*FACTS, [e.InChild("1.0", e.RunStarted("Clerk", "hello", 3)), e.InChild("1.0", e.RequestSent())]])
    erased = log.erased()

    said = b"".join(erased.lines)
    assert erased.verify()
    assert (erased.head, len(erased), erased.key, erased.is_erased) == (log.head, len(log), b"", True)
    assert not any(word in said for word in (b"Clerk", b"hello", b"pay", b"paid", b"resp_1"))
    assert [type(fact).__name__ for line in erased.lines for fact in read_line(line).facts] == [
        *("Erased", "RequestSent", "Erased", "CallsAllowed", "CallsStarted", "Erased"),
        *("Erased", "InChild"),
    ]
    assert [f.kind for line in erased.lines for f in read_line(line).facts if isinstance(f, e.Erased)] == [
        *("start", "answer", "end", "start"),
    ]
    assert erased.erased().lines == erased.lines


def test_without_the_key_what_was_erased_cannot_be_guessed() -> None:
    """The digest of a fact that can be guessed differs from log to log: its salt came from a key that is gone."""
    one, other = log_of(key=b"1" * 16).erased(), log_of(key=b"2" * 16).erased()

    assert one.lines[0] != other.lines[0]
    assert one.lines[1] == other.lines[1]


def test_an_erased_fact_that_is_not_one_digest_is_refused() -> None:
    for digest in ("", "ff", "zz" * 32, "ff" * 33):
        log = Log("run_x", b"")
        with pytest.raises(StateRefused, match="erased fact"):
            log.adopt(encode([0.0, [["erased", digest, "start"]]]))


PIECES = (
    *('"', '"a"', "\\u0061", "\\", ":", ",", "{", "}", "[", "]", " ", "\n", "\x00", "\x1f", "\x7f", "é", "\u2028"),
    *("0", "01", "1.", "-0", "1.5", "1e9", "1e400", "9" * 20, "true", "null", "NaN", '"a":1', '"x:y"', "[1,2]", '"}"'),
)


def odd_text(draw: random.Random) -> str:
    """JSON of an object, more or less: keys that stand twice, numbers and signs that are none, pieces anywhere."""
    keys = [draw.choice(("a", "b", "\\u0061", "c:d", "")) for _ in range(draw.randint(0, 3))]
    text = "{" + ",".join(f'"{key}":{draw.choice(PIECES)}' for key in keys) + "}"
    for _ in range(draw.choice((0, 0, 0, 1, 3))):
        at = draw.randint(0, len(text))
        text = text[:at] + draw.choice(PIECES) + text[at:]
    return text


def test_arguments_that_are_read_quickly_are_read_as_the_strict_reader_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    draw = random.Random(seed)
    texts = [odd_text(draw) for _ in range(20_000)]

    quickly = [repr(parse_arguments(text)) for text in texts]
    monkeypatch.setattr("placet.facts.codec._flat_object", lambda _text: None)
    strictly = [repr(parse_arguments(text)) for text in texts]

    differing = [text for text, one, other in zip(texts, quickly, strictly, strict=True) if one != other]
    assert differing == [], f"seed {seed}"
    assert len({each for each in quickly if each not in ("None", "{}")}) > 50


# -- the run's id in the chain


def test_a_log_under_another_runs_name_does_not_verify() -> None:
    log = log_of()
    log.run_id = "run_y"

    assert not log.verify()


def test_a_chain_that_older_code_began_verifies_and_goes_on() -> None:
    older = Log("run_x", b"k" * 16, is_bound=False)
    for at, facts in enumerate(FACTS[:3]):
        older.append(older.next_line(float(at), facts))
    log = Log("run_x", older.key, older.head, older.lines)  # as a store gives it
    log.append(log.next_line(3.0, FACTS[3]))

    assert log.verify()
    heads = log.heads()
    assert heads is not None
    assert (heads[2], heads[3]) == (older.head, log.head)


@pytest.mark.parametrize("name", ["gated-and-free", "ended"])
def test_the_logs_of_states_that_older_code_wrote_verify(name: str) -> None:
    wire = json.loads((GOLDEN / f"state-v1-{name}.json").read_text())
    lines = [encode(line) for line in wire["log"]]

    assert Log(wire["run"], bytes.fromhex(wire["key"]), bytes.fromhex(wire["head"]), lines).verify()
