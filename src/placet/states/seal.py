"""Seals: a keyed digest over the exact text of a state. Any altered byte is refused; a seal is neither secrecy nor
freshness."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import TypeAlias

from placet.facts.codec import JsonObject, canonical
from placet.facts.errors import SealBroken, UserError

Key: TypeAlias = str | bytes
Keys: TypeAlias = Key | Sequence[Key] | None
"""One key, or several for rotation: the first seals, all of them open."""

_OPENING = '{"placet_sealed":1,"mac":"'
_MIDDLE = '","state":'
_MAC_LENGTH = 64


def key_list(keys: Keys) -> list[bytes]:
    given: list[object] = [keys] if isinstance(keys, str | bytes) or not isinstance(keys, Sequence) else list(keys)
    if any(not isinstance(key, str | bytes) for key in given if keys is not None):
        raise UserError("A sealing key is a text or bytes, or a list of those.")
    given = [key for key in given if key is not None]
    found = [key.encode() if isinstance(key, str) else bytes(key) for key in given]  # type: ignore[call-overload]
    if keys is not None and not found:
        raise UserError("key=[] seals nothing: give a key, or leave it out.")
    if any(len(key) < 8 for key in found):
        raise UserError("A sealing key needs at least 8 bytes; secrets.token_hex(32) makes a good one.")
    return found


def is_sealed(data: object) -> bool:
    return data.startswith(_OPENING) if isinstance(data, str) else isinstance(data, dict) and "placet_sealed" in data


def _mac(key: bytes, form: bytes, body: bytes) -> str:
    return hmac.new(key, b"placet-state-1 " + form + b"\0" + body, hashlib.sha256).hexdigest()


def seal_text(body: str, keys: list[bytes]) -> str:
    return _OPENING + _mac(keys[0], b"text", body.encode()) + _MIDDLE + body + "}"


def open_text(text: str, keys: list[bytes]) -> str:
    """The state's text inside a sealed text, if every byte is as it was sealed."""
    start = len(_OPENING) + _MAC_LENGTH
    mac, middle, body, end = (
        text[len(_OPENING) : start],
        text[start : start + len(_MIDDLE)],
        text[start + len(_MIDDLE) : -1],
        text[-1:],
    )
    if not text.startswith(_OPENING) or middle != _MIDDLE or end != "}":
        raise _broken()
    try:
        raw = body.encode()
    except UnicodeEncodeError:
        raise _broken() from None
    if not _fits(mac, b"text", raw, keys):
        raise _broken()
    return body


def seal_json(body: JsonObject, keys: list[bytes]) -> JsonObject:
    return {"placet_sealed": "json", "mac": _mac(keys[0], b"json", canonical(body)), "state": body}


def open_json(data: JsonObject, keys: list[bytes]) -> JsonObject:
    mac, body = data.get("mac"), data.get("state")
    if data.get("placet_sealed") == 1:
        raise SealBroken("This seal covers the exact text that to_string() gave: load it with from_string().")
    if set(data) != {"placet_sealed", "mac", "state"} or not isinstance(mac, str) or not isinstance(body, dict):
        raise _broken()
    if data["placet_sealed"] != "json" or not _fits(mac, b"json", canonical(body), keys):
        raise _broken()
    return body


def _fits(mac: str, form: bytes, body: bytes, keys: list[bytes]) -> bool:
    return any(hmac.compare_digest(_mac(key, form, body).encode(), mac.encode("utf-8", "replace")) for key in keys)


def _broken() -> SealBroken:
    return SealBroken("The state was altered after it was sealed, or was sealed with another key. It is refused.")
