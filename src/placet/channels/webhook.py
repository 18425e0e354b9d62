"""Webhooks by the Standard Webhooks specification: signed, never redirected, never to a private address unless its name
is allowed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from placet.facts.errors import UserError
from placet.ports import Delivered, OutgoingMessage

SECONDS = 15.0
"""How long a receiver may take to answer."""
PREFIX = "whsec_"

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """What one secret says about a message: `v1,` and a digest."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def check_address(url: str, allowed: Collection[str]) -> tuple[str, int]:
    """The host and port of an address that may be told something; UserError for any other."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UserError(f"{url[:200]!r} is no address: {error}.") from error
    is_allowed = host in allowed
    if not host or parts.username is not None or not url.isascii() or any(each <= " " for each in url):
        raise UserError("A webhook's address is https://HOST/…, without a name or password in it.")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_allowed):
        raise UserError(f"A webhook's address begins with https:// (or PLACET_WEBHOOK_HOSTS names its host {host!r}).")
    return host, port or (443 if parts.scheme == "https" else 80)


def is_public(address: str) -> bool:
    """Whether an address is on the internet. One that wraps another is judged by that one, too."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if inner is not None and not inner.is_global:
            return False
        if found in ipaddress.ip_network("64:ff9b::/96"):
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
    return found.is_global and not found.is_multicast


async def resolve(host: str, port: int) -> Sequence[str]:
    rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]


class WebhookChannel:
    """One receiver. With two secrets each message carries two signatures: so a secret is exchanged without a gap."""

    def __init__(
        self, url: str, keys: Sequence[str], *, allowed: Collection[str] = (), resolve: Resolve = resolve
    ) -> None:
        self._url = url
        self._keys = tuple(keys)
        self._allowed = allowed
        self._resolve = resolve

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        try:
            host, port = check_address(self._url, self._allowed)
            async with asyncio.timeout(SECONDS):
                address = await self._address(host, port)
                return await self._post(message, int(now), host, address)
        except UserError as error:
            return Delivered(error=error.message)
        except TimeoutError:
            return Delivered(error=f"no answer within {SECONDS:g} seconds")
        except OSError as error:
            return Delivered(error=f"{type(error).__name__}: {error}"[:300])

    async def _address(self, host: str, port: int) -> str:
        """Where the request goes: the very address that was looked at, since a name may mean another one a moment
        later."""
        found = await self._resolve(host, port)
        if host not in self._allowed and not all(map(is_public, found)):
            raise UserError(f"{host} is a private address: PLACET_WEBHOOK_HOSTS allows it by name.")
        if not found:
            raise UserError(f"{host} has no address.")
        return found[0]

    async def _post(self, message: OutgoingMessage, timestamp: int, host: str, address: str) -> Delivered:
        import httpx2

        signatures = " ".join(signature(key, message.id, timestamp, message.body) for key in self._keys)
        headers = {
            "content-type": "application/json",
            "host": urlsplit(self._url).netloc,
            "user-agent": "placet",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures,
        }
        target = httpx2.URL(self._url).copy_with(host=address)
        try:
            # No proxy and no netrc out of the environment: they could lead elsewhere than the address that was checked.
            async with httpx2.AsyncClient(timeout=SECONDS, trust_env=False, follow_redirects=False) as client:
                request = client.build_request(
                    "POST", target, content=message.body, headers=headers, extensions={"sni_hostname": host}
                )
                answer = await client.send(request, stream=True)  # what a receiver says is not read: it may be endless
                await answer.aclose()
        except httpx2.HTTPError as error:
            return Delivered(error=f"{type(error).__name__}: {error}"[:300])
        status = answer.status_code
        if 200 <= status < 300:
            return Delivered()
        return Delivered(error=f"the receiver answered {status}", is_gone=status == 410)
