"""Checking what an authenticator says. The library does the cryptography; what must be true besides stands here."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
from webauthn import verify_authentication_response, verify_registration_response
from webauthn.helpers import parse_authenticator_data, parse_client_data_json
from webauthn.helpers.exceptions import WebAuthnException

from placet.core.signing import as_bytes, as_text
from placet.facts.codec import JsonObject
from placet.facts.errors import AccessDenied
from placet.facts.signatures import Assertion


class _Response(msgspec.Struct, frozen=True, rename="camel"):
    authenticator_data: str
    client_data_json: str = msgspec.field(name="clientDataJSON")
    signature: str
    user_handle: str | None = None


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A browser's answer to `navigator.credentials.get()`, as its `toJSON` writes it."""

    id: str
    response: _Response

    def assertion(self, nonce: str) -> Assertion:
        given = self.response
        return Assertion(self.id, nonce, given.authenticator_data, given.client_data_json, given.signature)


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    public_key: str
    sign_count: int
    is_synced: bool
    """Kept by a service for several machines: such keys do not count."""


def shown(credential: JsonObject) -> Shown:
    try:
        return msgspec.convert(credential, Shown)
    except msgspec.ValidationError as error:
        raise AccessDenied(f"This is no answer of an authenticator: {error}.") from error


def check_new_key(credential: JsonObject, challenge: bytes, *, rp_id: str, origins: Sequence[str]) -> NewKey:
    """AccessDenied where a registration is not what was asked for."""
    try:
        found = verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=rp_id,
            expected_origin=list(origins),
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise AccessDenied(f"The passkey was not registered: {error}.") from error
    return NewKey(
        id=as_text(found.credential_id),
        public_key=as_text(found.credential_public_key),
        sign_count=found.sign_count,
        is_synced=found.credential_backed_up,
    )


def check_assertion(
    assertion: Assertion, challenge: bytes, *, public_key: str, rp_id: str, origins: Sequence[str] | None = None
) -> None:
    """AccessDenied unless this key answered exactly this challenge, on this site, with its person present and verified.

    Without `origins` any page of the site counts: an auditor does not know where the desk was served.
    """
    try:
        allowed = list(origins) if origins is not None else [_origin_of(assertion, rp_id)]
        verify_authentication_response(
            credential={
                "id": assertion.key,
                "rawId": assertion.key,
                "type": "public-key",
                "response": {
                    "authenticatorData": assertion.authenticator,
                    "clientDataJSON": assertion.client,
                    "signature": assertion.signature,
                },
            },
            expected_challenge=challenge,
            expected_rp_id=rp_id,
            expected_origin=allowed,
            credential_public_key=as_bytes(public_key),
            credential_current_sign_count=0,  # compared by whoever remembers it: `count_of`
            require_user_verification=True,
        )
    except AccessDenied:
        raise
    except Exception as error:  # parsers of several libraries: whatever they say, it is no signature
        raise AccessDenied(f"The passkey's answer does not verify: {error}.") from error


def _origin_of(assertion: Assertion, rp_id: str) -> str:
    """The page on which it was signed, if it is one of this site."""
    origin = parse_client_data_json(as_bytes(assertion.client)).origin
    host = urlsplit(origin).hostname or ""
    if host != rp_id and not host.endswith(f".{rp_id}"):
        raise AccessDenied(f"It was signed on a page of {host or 'nobody'}, not of {rp_id}.")
    return origin


def count_of(assertion: Assertion) -> int:
    """How often the authenticator says that it signed. 0: it does not count."""
    return parse_authenticator_data(as_bytes(assertion.authenticator)).sign_count


def went_back(before: int, now: int) -> bool:
    """Whether the counter says that there are two authenticators with one key."""
    return (now > 0 or before > 0) and now <= before
