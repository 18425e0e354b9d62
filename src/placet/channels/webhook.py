"""Webhooks by the Standard Webhooks specification: signed, never to a private address or where a redirect leads, unless
its name is allowed."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

from placet.facts.errors import UserError
from placet.ports import Delivered, OutgoingMessage

SECONDS = 15.0
"""How long a receiver may take to answer."""
PREFIX = "whsec_"
HOSTS = "PLACET_WEBHOOK_HOSTS"
"""Hosts that an operator allows by name: they may be private, use plain HTTP, and be redirected to."""
MOST_REDIRECTS = 3

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


def allowed_hosts() -> tuple[str, ...]:
    """As the environment of this process says."""
    return tuple(name.strip().lower() for name in os.environ.get(HOSTS, "").split(",") if name.strip())


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


@functools.cache
def trust(_file: str | None) -> ssl.SSLContext:
    """Whom the machine trusts, or the file that its operator names in SSL_CERT_FILE. Reading it takes a while."""
    return ssl.create_default_context()


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
            async with asyncio.timeout(SECONDS):
                return await self._send(message, int(now))
        except UserError as error:
            return Delivered(error=error.message)
        except TimeoutError:
            return Delivered(error=f"no answer within {SECONDS:g} seconds")
        except OSError as error:
            return Delivered(error=f"{type(error).__name__}: {error}".removeprefix("OSError: ")[:300])

    async def _send(self, message: OutgoingMessage, timestamp: int) -> Delivered:
        url, status = self._url, 0
        for _ in range(MOST_REDIRECTS + 1):
            host, port = check_address(url, self._allowed)
            status, leads_to = await self._post(url, message, timestamp, host, await self._addresses(host, port))
            if status not in (307, 308):  # the others ask for a GET, which would say nothing
                break
            url = urljoin(url, leads_to)
            if (urlsplit(url).hostname or "") not in self._allowed:
                return Delivered(error=f"the receiver answered {status}: {HOSTS} does not name where it leads")
        if 200 <= status < 300:
            return Delivered()
        return Delivered(error=f"the receiver answered {status}", is_gone=status == 410)

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        """Where the request may go: the very addresses that were looked at, since a name may mean others a moment
        later."""
        found = await self._resolve(host, port)
        if host not in self._allowed and not all(map(is_public, found)):
            raise UserError(f"{host} is a private address: PLACET_WEBHOOK_HOSTS allows it by name.")
        if not found:
            raise UserError(f"{host} has no address.")
        return found

    async def _post(
        self, url: str, message: OutgoingMessage, timestamp: int, host: str, addresses: Sequence[str]
    ) -> tuple[int, str]:
        """The status, and where it leads."""
        signatures = " ".join(signature(key, message.id, timestamp, message.body) for key in self._keys)
        headers = {
            "content-type": "application/json",
            "host": urlsplit(url).netloc,
            "user-agent": "placet",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures,
        }
        return await self._post_to_one(url, message.body, headers, host, addresses)

    async def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Something else to the same address, unsigned: the status. A redirect is not followed."""
        host, port = check_address(self._url, self._allowed)
        sent = {**headers, "host": urlsplit(self._url).netloc, "user-agent": "placet"}
        async with asyncio.timeout(SECONDS):
            return (await self._post_to_one(self._url, body, sent, host, await self._addresses(host, port)))[0]

    async def _post_to_one(
        self, url: str, body: bytes, headers: dict[str, str], host: str, addresses: Sequence[str]
    ) -> tuple[int, str]:
        for address in addresses[:-1]:
            with suppress(ConnectionError):  # such as one of IPv6 on a machine that has none
                return await self._post_to(url, body, headers, host, address)
        return await self._post_to(url, body, headers, host, addresses[-1])

    async def _post_to(
        self, url: str, body: bytes, headers: dict[str, str], host: str, address: str
    ) -> tuple[int, str]:
        import httpx2

        target = httpx2.URL(url).copy_with(host=address)
        try:
            # No proxy and no netrc out of the environment: they could lead elsewhere than the address that was checked.
            async with httpx2.AsyncClient(
                timeout=SECONDS, trust_env=False, follow_redirects=False, verify=trust(os.environ.get("SSL_CERT_FILE"))
            ) as client:
                request = client.build_request(
                    "POST", target, content=body, headers=headers, extensions={"sni_hostname": host}
                )
                answer = await client.send(request, stream=True)  # what a receiver says is not read: it may be endless
                await answer.aclose()
        except httpx2.ConnectError as error:
            raise ConnectionError(f"{error}"[:300]) from error
        except httpx2.HTTPError as error:
            raise OSError(f"{type(error).__name__}: {error}"[:300]) from error
        return answer.status_code, answer.headers.get("location", "")
