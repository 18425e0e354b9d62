"""Verifying a receipt: what the service that performs the effect calls before it does. It needs no desk and no store,
only the desk's public keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from placet.core.receipt import receipt_digest
from placet.facts.codec import JsonObject
from placet.facts.errors import ReceiptRefused

ALGORITHMS = ("ES256", "Ed25519", "PS256", "RS256")
"""No other counts: above all not `none`, and none whose key could verify and sign alike."""
TYPE = "placet-receipt+jwt"
LEEWAY = 60.0
"""Seconds that two clocks may differ."""
MAX_TOKEN = 16 * 1024


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt says that was verified."""

    jti: str
    """The idempotency key of the call: the same at every attempt, and of no other call. Remember it."""
    tool: str
    digest: str
    call: str
    agent: str
    iss: str
    iat: int
    exp: int
    decision: JsonObject | None = None
    """Who said yes, when, through which door and how sure that is; None: a rule did."""
    policy: JsonObject | None = None
    """Which rules spoke, in which version."""


def verify(
    token: str | None,
    tool: str,
    arguments: Mapping[str, object],
    jwks: Mapping[str, Any],
    *,
    seen: Callable[[str, int], bool] | None = None,
    issuer: str | None = None,
    now: float | None = None,
    leeway: float = LEEWAY,
) -> Receipt:
    """What the receipt says, or ReceiptRefused.

    `jwks`: the desk's public keys, as `/.well-known/jwks.json` gives them. `seen(jti, exp)` is asked last: it answers
    whether this call was performed before, and from then on remembers it, at least until `exp` (seconds since 1970) and
    some minutes more. In one step, as an INSERT under a unique key does, or two requests at once could both pass.
    """
    claims = _claims(token or "", jwks)
    time_now = time.time() if now is None else now
    if claims.exp + leeway < time_now or claims.iat - leeway > time_now:
        raise ReceiptRefused("This receipt is too old, or from the future: ask for the call again.")
    if issuer is not None and claims.iss != issuer:
        raise ReceiptRefused(f"This receipt is of {claims.iss[:100]!r}, not of {issuer!r}.")
    if claims.tool != tool or claims.digest != receipt_digest(tool, dict(arguments)):
        raise ReceiptRefused("This receipt is about another call: perform what was approved, and nothing else.")
    if seen is not None and seen(claims.jti, claims.exp):
        raise ReceiptRefused(f"Call {claims.call} was performed before: a receipt is used once.")
    return claims


def _claims(token: str, jwks: Mapping[str, Any]) -> Receipt:
    if not 0 < len(token) <= MAX_TOKEN or not token.isascii():
        raise ReceiptRefused("There is no receipt, or it is none: this call needs one.")
    try:
        keys = KeySet.import_key_set({"keys": [*jwks["keys"]]})
        found = jws.deserialize_compact(token, keys, algorithms=list(ALGORITHMS))
        header = found.headers()
        if header.get("typ") != TYPE or not isinstance(header.get("kid"), str):
            raise ReceiptRefused("This token is no receipt.")
        return msgspec.json.decode(found.payload, type=Receipt)
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise ReceiptRefused(
            f"This receipt does not verify ({type(error).__name__}): do not perform the call."
        ) from error
