"""What a passkey signed, as logs keep it: enough to check it years later, without the desk."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from placet.facts.codec import Json
from placet.facts.fact import Verdict

KeyChange: TypeAlias = Literal["registered", "removed", "cloned"]


class Assertion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An authenticator's answer to a challenge. All but the nonce is as the browser gave it, in base64url."""

    key: str
    """The id of the credential."""
    nonce: str
    """The server's, made for this challenge and used once. The challenge is a hash over what is signed and this."""
    authenticator: str
    client: str
    signature: str


NO_ASSERTION = Assertion("", "", "", "", "")
"""Stands where nothing is signed yet."""


class SignedDecision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A decision that was signed: what the challenge was made of, and the answer."""

    assertion: Assertion
    request: str
    """The question's whole id, run included."""
    digest: str
    """What the person saw."""
    verdict: Verdict
    values: Json = None
    """For an edit what is to run, for an answer what the model reads."""
    alone: bool = False
    """The person goes ahead alone, where the requirement allows it."""
    on_behalf_of: str | None = None
    """Whose vote it is, where a delegate gives it."""


class KeySignature(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Somebody's signature under the registration or the removal of a passkey."""

    by: str
    assertion: Assertion
