"""Issuing receipts. The keys stay where they are: in a file, in the environment, or in a key service (a port)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from placet.facts.codec import JsonObject, encode
from placet.facts.errors import ReceiptNotSigned
from placet.receipts.verifying import TYPE

DEFAULT_SECONDS = 600.0
"""How long a receipt counts after the claim."""


@runtime_checkable
class SigningKey(Protocol):
    """One key that can sign. A key service's adapter has these three, and the private key never leaves it."""

    @property
    def algorithm(self) -> str:
        """`ES256`, `Ed25519`, `PS256` or `RS256`."""
        ...

    def public(self) -> JsonObject:
        """The public key as a JWK, with its `kid`."""
        ...

    async def sign(self, data: bytes) -> bytes:
        """The signature as JWS has it: for ES256 the 64 bytes of r and s, not DER."""
        ...


class KeyRing(Protocol):
    """The keys of a desk, as they are at this moment."""

    def signing(self, now: float) -> SigningKey:
        """The one that signs now."""
        ...

    def published(self) -> Sequence[JsonObject]:
        """All that receivers have to know: also one that will sign soon, and those that signed what still counts."""
        ...


class Receipts:
    """Issues receipts by the keys of a ring, or by one key."""

    def __init__(self, keys: KeyRing | SigningKey, *, issuer: str = "placet", seconds: float = DEFAULT_SECONDS) -> None:
        """`issuer`: what receivers know the desk by, such as its address. `seconds`: how long a receipt counts."""
        self._keys: KeyRing = _OneKey(keys) if isinstance(keys, SigningKey) else keys
        self.issuer = issuer
        self._seconds = seconds

    async def issue(self, claims: JsonObject, now: float, until: float | None = None) -> str:
        """The token. `until`: when the approval ends, where that is earlier than the receipt would."""
        key = self._keys.signing(now)
        ends = now + self._seconds if until is None else min(until, now + self._seconds)
        payload = {"iss": self.issuer, "iat": int(now), "exp": int(ends), **claims}
        head = {"alg": key.algorithm, "kid": key.public()["kid"], "typ": TYPE}
        text = f"{_base64(encode(head))}.{_base64(encode(payload))}"
        return f"{text}.{_base64(await key.sign(text.encode()))}"

    def jwks(self) -> JsonObject:
        """The public keys, for `/.well-known/jwks.json`."""
        return {"keys": [*self._keys.published()]}


class _OneKey:
    def __init__(self, key: SigningKey) -> None:
        self._key = key

    def signing(self, _now: float) -> SigningKey:
        return self._key

    def published(self) -> Sequence[JsonObject]:
        return [self._key.public()]


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def no_key(why: str) -> ReceiptNotSigned:
    return ReceiptNotSigned(f"There is no key that signs receipts: {why}")
