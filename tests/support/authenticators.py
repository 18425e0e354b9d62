"""Authenticators for tests: Chromium's virtual one, which a test puts into a page's browser, and one in a program."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from playwright.async_api import CDPSession, Page


class Authenticator:
    """A passkey provider in one browser context: it says yes by itself, as a person who touches it at once."""

    def __init__(self, session: CDPSession, authenticator_id: str) -> None:
        self._session = session
        self._id = authenticator_id
        self.kept: list[dict[str, Any]] = []
        """What it held when it was unplugged."""

    @classmethod
    async def plugged_into(cls, page: Page) -> Authenticator:
        session = await page.context.new_cdp_session(page)
        await session.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        added = await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        return cls(session, added["authenticatorId"])

    async def credentials(self) -> list[dict[str, Any]]:
        found = await self._session.send("WebAuthn.getCredentials", {"authenticatorId": self._id})
        return list(found["credentials"])

    async def put(self, credential: dict[str, Any]) -> None:
        """The same key in here: a copy."""
        given = {"authenticatorId": self._id, "credential": credential}
        await self._session.send("WebAuthn.addCredential", given)

    async def clear(self) -> None:
        await self._session.send("WebAuthn.clearCredentials", {"authenticatorId": self._id})

    async def person_is(self, *, verified: bool) -> None:
        """Whether whoever touches it knows its PIN."""
        given = {"authenticatorId": self._id, "isUserVerified": verified}
        await self._session.send("WebAuthn.setUserVerified", given)

    async def unplugged(self, page: Page) -> None:
        self.kept = await self.credentials()
        await self._session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": self._id})


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class SoftKey:
    """A passkey in a program: it answers as an authenticator does, and wrongly where a test wants it to."""

    def __init__(self, origin: str, *, rp_id: str = "localhost") -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.id = b64(os.urandom(16))
        self.origin = origin
        self.rp_id = rp_id
        self.count = 0
        self.flags = 0x05
        """The person is present, and was verified."""

    def public_key(self) -> bytes:
        numbers = self._private.public_key().public_numbers()
        x, y = numbers.x.to_bytes(32), numbers.y.to_bytes(32)
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})

    def created(self, question: Any) -> dict[str, Any]:
        """The answer to `navigator.credentials.create()`."""
        key_id = unb64(self.id)
        attested = bytes(16) + len(key_id).to_bytes(2) + key_id + self.public_key()
        data = self._data(self.flags | 0x40) + attested
        response = {
            "clientDataJSON": b64(self._client("webauthn.create", question)),
            "attestationObject": b64(cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})),
        }
        return {"nonce": question["nonce"], "credential": self._credential(response)}

    def answer(self, question: Any) -> dict[str, Any]:
        """The answer to `navigator.credentials.get()`."""
        self.count += 1
        data, client = self._data(self.flags), self._client("webauthn.get", question)
        signature = self._private.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        response = {"authenticatorData": b64(data), "clientDataJSON": b64(client), "signature": b64(signature)}
        return {"nonce": question["nonce"], "credential": self._credential(response)}

    def _credential(self, response: dict[str, str]) -> dict[str, Any]:
        return {"id": self.id, "rawId": self.id, "type": "public-key", "response": response}

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(self.rp_id.encode()).digest() + bytes([flags]) + self.count.to_bytes(4)

    def _client(self, kind: str, question: Any) -> bytes:
        challenge = question["publicKey"]["challenge"]
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()
