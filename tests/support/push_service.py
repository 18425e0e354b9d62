"""A push service and a browser behind it, for tests: it checks the desk's signature and decrypts what comes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import http_ece
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from placet.channels.push import Browser


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def bytes_of(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class PushService:
    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.auth = os.urandom(16)
        self.server_key = ""
        """The public half of the desk's key, as the browser was told."""
        self.shown: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.status = "201 Created"
        self.port = 0

    @property
    def browser(self) -> Browser:
        point = self.key.public_key().public_bytes(form.Encoding.X962, form.PublicFormat.UncompressedPoint)
        return Browser(
            endpoint=f"http://localhost:{self.port}/push/1", p256dh=unpadded(point), auth=unpadded(self.auth)
        )

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        status = self.status
        try:
            self._check(headers)
            if status.startswith("2"):
                text = http_ece.decrypt(body, private_key=self.key, auth_secret=self.auth, version="aes128gcm")
                self.headers.append(headers)
                self.shown.append(json.loads(text))
        except Exception as error:  # noqa: BLE001  # whatever is wrong with it
            self.refused.append(repr(error))
            status = "403 Forbidden"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    def _check(self, headers: dict[str, str]) -> None:
        """RFC 8292: who sends, to whom, until when; and what RFC 8030 wants of a request."""
        assert headers["content-encoding"] == "aes128gcm"
        assert int(headers["ttl"]) > 0
        assert len(headers["topic"]) <= 32
        scheme, _, rest = headers["authorization"].partition(" ")
        parts = dict(each.strip().split("=", 1) for each in rest.split(","))
        assert scheme == "vapid"
        assert parts["k"] == self.server_key
        signed, _, signature = parts["t"].rpartition(".")
        raw = bytes_of(signature)
        der = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes_of(parts["k"]))
        public.verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
        claims = json.loads(bytes_of(signed.split(".")[1]))
        assert claims["aud"] == f"http://localhost:{self.port}"
        assert time.time() < claims["exp"] <= time.time() + 24 * 3600
        assert claims["sub"] == "mailto:ops@example.com"


@asynccontextmanager
async def push_service() -> AsyncIterator[PushService]:
    found = PushService()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found
    assert found.refused == []
