"""What a passkey signs: challenges as a hash over all that is confirmed. Pure.

Rule of this file: whatever a signature is to bind stands in the hash. Each kind of challenge begins with a tag of its
own, so that what was signed for one purpose is worth nothing for another. A change of what is hashed is a new tag.
"""

from __future__ import annotations

import base64
import hashlib

from placet.facts.codec import Json, canonical
from placet.facts.signatures import KeyChange, SignedDecision

DECISION = "placet signed decision 1"
KEY = "placet passkey 1"


def challenge_of_decision(said: SignedDecision, nonce: str) -> bytes:
    """What is signed for a decision about one question."""
    whose = [said.alone, said.on_behalf_of]
    return _hashed([DECISION, said.request, said.digest, said.verdict, said.values, *whose, nonce])


def challenge_of_key(change: KeyChange, person: str, key: str, public_key: str, rp_id: str, nonce: str) -> bytes:
    """What is signed for the registration or removal of a passkey."""
    return _hashed([KEY, change, person, key, public_key, rp_id, nonce])


def _hashed(parts: Json) -> bytes:
    return hashlib.sha256(canonical(parts)).digest()


def as_text(data: bytes) -> str:
    """Base64url without padding, as browsers have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def as_bytes(text: str) -> bytes:
    """ValueError for what is not base64url."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError(f"this is not base64url: {text[:40]!r}") from error
