"""How a state is written down and read back: one JSON document, versioned, sealed if a key is given.

The log is in it line by line as it stands in a store; the fold is never stored, so it cannot disagree.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import msgspec

from placet.core.approvals import Entry, Said
from placet.core.log import Log, read_lines
from placet.core.replay import fold_records
from placet.core.state import RunFold
from placet.facts.codec import Json, JsonObject, NotPlain, encode
from placet.facts.errors import IllegalTransition, SealBroken, StateRefused, UserError
from placet.facts.events import FORMAT, BoundedGrantMade, DecisionMade, GrantMade, InputAdded, VoteCast
from placet.states import seal
from placet.states.sdk_document import SCHEMA
from placet.states.secrets import restored, split_secrets


class PackedContext(msgspec.Struct, omit_defaults=True):
    """A context as it travels."""

    kind: str
    """`none`, `mapping` (as it is), `serialized` (needs the deserializer), `left_out` (could not travel)."""
    value: Json = None
    secrets: list[list[str | int]] = []
    type: str | None = None


class _Header(msgspec.Struct):
    placet: int


class _Wire(msgspec.Struct, omit_defaults=True):
    """The document. Fields may be added; `placet` changes when old code could not understand a new document."""

    placet: int
    run: str
    key: str
    head: str
    log: list[msgspec.Raw]
    staged: list[DecisionMade | GrantMade | BoundedGrantMade | VoteCast] = []
    context: PackedContext = msgspec.field(default_factory=lambda: PackedContext("none"))
    made_by_hand: bool = False
    entries: list[Entry] = []
    has_wrapper: bool = True
    added: list[InputAdded] = []


class StateDocument(msgspec.Struct):
    """A state's parts, apart from today's agent and context object."""

    log: Log
    run: RunFold
    staged: list[Said]
    context: PackedContext
    made_by_hand: bool = False
    entries: list[Entry] = []
    has_wrapper: bool = True
    added: list[InputAdded] = []


@functools.cache  # not at import: it takes a while, and many programs load no state
def _decoder() -> msgspec.json.Decoder[_Wire]:
    return msgspec.json.Decoder(_Wire)


def dump_text(document: StateDocument, key: seal.Keys) -> str:
    log = document.log
    wire = _Wire(
        placet=FORMAT,
        run=log.run_id,
        key=log.key.hex(),
        head=log.head.hex(),
        log=[msgspec.Raw(line) for line in log.lines],
        staged=document.staged,
        context=document.context,
        made_by_hand=document.made_by_hand,
        entries=document.entries,
        has_wrapper=document.has_wrapper,
        added=document.added,
    )
    text = encode(wire).decode()
    return seal.seal_text(text, seal.key_list(key)) if key is not None else text


def dump_json(document: StateDocument, key: seal.Keys) -> JsonObject:
    found: JsonObject = msgspec.json.decode(dump_text(document, None))
    return seal.seal_json(found, seal.key_list(key)) if key is not None else found


def load_text(text: str, key: seal.Keys) -> StateDocument:
    if not isinstance(text, str):
        raise StateRefused(f"A state's text is a str, not a {type(text).__name__}.")
    if not seal.is_sealed(text):
        if '"placet_sealed"' in text and seal.is_sealed(parsed := _parsed(text)):
            return load_json(parsed, key)  # the seal of to_json(), or a text that was written again in between
        _require_no_key(key)
        return _read(text.encode("utf-8", "surrogatepass"))
    if key is None:
        raise SealBroken("The state is sealed: give the key that it was sealed with (key=…).")
    return _read(seal.open_text(text, seal.key_list(key)).encode())


def load_json(data: Mapping[str, Any], key: seal.Keys) -> StateDocument:
    if not isinstance(data, Mapping):
        raise StateRefused(f"A state's JSON is an object, not a {type(data).__name__}.")
    body: JsonObject = dict(data)
    if seal.is_sealed(body):
        if key is None:
            raise SealBroken("The state is sealed: give the key that it was sealed with (key=…).")
        body = seal.open_json(body, seal.key_list(key))
    else:
        _require_no_key(key)
    try:
        text = encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateRefused(f"The state is not JSON: {error}.") from error
    return _read(text)


def is_sdk_text(text: str) -> bool:
    """Whether a text looks like a state of openai-agents, as its `to_string` writes it."""
    return text.startswith("{") and text[1:].lstrip().startswith(f'"{SCHEMA}"')


def sdk_text(text: object, key: seal.Keys) -> JsonObject | None:
    """The document of openai-agents, if the text is one."""
    if not isinstance(text, str) or text.startswith('{"placet') or f'"{SCHEMA}"' not in text:
        return None
    return sdk_json(_parsed(text), key)


def sdk_json(data: object, key: seal.Keys) -> JsonObject | None:
    """The same for what was parsed already."""
    if not isinstance(data, Mapping) or SCHEMA not in data or "placet" in data:
        return None
    _require_no_key(key)
    return dict(data)


def _require_no_key(key: seal.Keys) -> None:
    if key is not None:
        raise SealBroken(
            "A key was given, and the state is not sealed: it may have been written by others. It is refused."
        )


def _parsed(text: str) -> JsonObject:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise StateRefused(f"Failed to parse run state JSON: {error}.") from error
    return found if isinstance(found, dict) else {}


def _read(raw: bytes) -> StateDocument:
    wire = _decode(raw)
    try:
        log = Log(wire.run, bytes.fromhex(wire.key), bytes.fromhex(wire.head), [bytes(line) for line in wire.log])
    except ValueError as error:
        raise StateRefused(f"The state's key or head cannot be read ({error}): it was altered or cut.") from error
    run = RunFold()
    try:
        fold_records(read_lines(log.lines), run)
    except IllegalTransition as error:
        raise StateRefused(f"The state's log contradicts itself ({error}): it was altered.") from error
    if not run.started:
        raise StateRefused("The state's log is empty: it was cut.")
    staged = [_as_a_name(said) for said in wire.staged]
    return StateDocument(log, run, staged, wire.context, wire.made_by_hand, wire.entries, wire.has_wrapper, wire.added)


def _as_a_name(said: Said) -> Said:
    """What a document says that somebody said: a name, and no proof. Whoever writes the document could claim more, and
    a vote with an assurance counts as a member's."""
    match said:
        case GrantMade():
            return msgspec.structs.replace(said, authors=None)
        case VoteCast():
            grant = None if said.grant is None else msgspec.structs.replace(said.grant, authors=None)
            return msgspec.structs.replace(said, via=None, assurance="none", grant=grant, signed=None)
        case DecisionMade():
            return msgspec.structs.replace(said, via=None, assurance="none", signed=None)
        case never:
            assert_never(never)


def _decode(raw: bytes) -> _Wire:
    try:
        wire = _decoder().decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _check_version(_version_of(raw))  # of another format everything may be different
        raise StateRefused(
            f"Failed to parse run state JSON: Placet did not write this, or it was cut or altered ({error})."
        ) from error
    _check_version(wire.placet)
    return wire


def _version_of(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw, type=_Header).placet
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FORMAT  # it does not say: there is nothing to blame on its version


def _check_version(version: object) -> None:
    if version != FORMAT:
        raise StateRefused(
            f"The state has format {version!r}, and this version of Placet reads format {FORMAT}: "
            "load it with the version that wrote it."
        )


# -- the context ------------------------------------------------------------------------------------------------------


def pack_context(
    context: object, serializer: Callable[[Any], Mapping[str, Any]] | None, *, strict: bool
) -> PackedContext:
    """A mapping travels as it is; anything else needs the serializer, or is left out with a warning (refused under
    strict)."""
    if context is None:
        return PackedContext("none")
    kind, value = "mapping", context
    if serializer is not None:
        kind, value = "serialized", serializer(context)
    if not isinstance(value, Mapping):
        return _left_out(f"it is a {type(value).__name__}, not a mapping", context, strict)
    try:
        kept, secrets = split_secrets(value)
    except NotPlain as error:
        return _left_out(str(error), context, strict)
    return PackedContext(kind, kept, secrets, type(context).__name__)


def _left_out(why: str, context: object, strict: bool) -> PackedContext:
    if strict:
        raise UserError(
            f"The context cannot be stored: {why}. Pass context_serializer=…, or use a mapping of plain values."
        )
    warnings.warn(
        f"The context was left out of the stored state: {why}. Pass context_serializer=… to keep it, "
        "or context_override=… when loading.",
        UserWarning,
        stacklevel=5,
    )
    return PackedContext("left_out", type=type(context).__name__)


def unpack_context(
    packed: PackedContext, deserializer: Callable[[Mapping[str, Any]], Any] | None, *, strict: bool
) -> Any:
    """The context as it was stored. Without what it needs it is None with a warning, and refused under strict."""
    value: Any = packed.value
    value = restored(value, packed.secrets)
    match packed.kind:
        case "none":
            return None
        case "mapping":
            return deserializer(value) if deserializer is not None else value
        case "serialized" if deserializer is not None:
            return deserializer(value)
        case "serialized":
            return _unrestored(
                f"it was a {packed.type} and needs context_deserializer=… to become one again", value, strict
            )
        case _:
            return _unrestored(f"it was a {packed.type} and was left out when the state was stored", None, strict)


def _unrestored(why: str, value: Any, strict: bool) -> Any:
    message = (
        f"The context was not restored: {why}. Pass context_override=… to supply it. (One that was stored with "
        "context_serializer=… becomes an object again with context_deserializer=….)"
    )
    if strict:
        raise UserError(message)
    warnings.warn(message, UserWarning, stacklevel=5)
    return value
