"""Webhooks as the specification's own library verifies them, over real HTTP; and addresses that nothing is sent to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from placet import UserError
from placet.channels.webhook import WebhookChannel, check_address, is_public, new_secret
from placet.clock import SYSTEM_CLOCK
from placet.ports import OutgoingMessage

MESSAGE = OutgoingMessage(id="msg_1", type="test", body=b'{"type":"test","data":{"text":"\xc3\xa4"}}')


class HTTPReceiver:
    """A server that notes each request, and answers with one status."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/hook"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((headers, body))
        writer.write(f"HTTP/1.1 {self.status}\r\nLocation: {self.url}/2\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def receiver(status: str = "204 No Content") -> AsyncIterator[HTTPReceiver]:
    found = HTTPReceiver(status)
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found


async def loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def test_a_message_verifies_by_the_official_library_with_the_old_and_the_new_secret() -> None:
    new, old, foreign = new_secret(), new_secret(), new_secret()
    async with receiver() as server:
        channel = WebhookChannel(server.url, [new, old], allowed=["localhost"], resolve=loopback)
        sent = await channel.send(MESSAGE, SYSTEM_CLOCK.now())
    ((headers, body),) = server.requests

    assert sent.error is None
    assert headers["webhook-id"] == "msg_1"
    assert headers["host"] == f"localhost:{server.port}"
    for secret in (new, old):
        assert Webhook(secret).verify(body, headers)["type"] == "test"
    with pytest.raises(WebhookVerificationError):
        Webhook(foreign).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new).verify(body + b" ", headers)


async def test_a_message_of_six_minutes_ago_does_not_verify_any_more() -> None:
    secret = new_secret()
    async with receiver() as server:
        channel = WebhookChannel(server.url, [secret], allowed=["localhost"], resolve=loopback)
        await channel.send(MESSAGE, SYSTEM_CLOCK.now() - 360)
    ((headers, body),) = server.requests

    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, headers)


@pytest.mark.parametrize(("status", "is_gone"), [("302 Found", False), ("500 Oh", False), ("410 Gone", True)])
async def test_a_redirect_is_not_followed_and_errors_are_told(status: str, is_gone: bool) -> None:
    async with receiver(status) as server:
        channel = WebhookChannel(server.url, [new_secret()], allowed=["localhost"], resolve=loopback)
        sent = await channel.send(MESSAGE, SYSTEM_CLOCK.now())

    assert len(server.requests) == 1
    assert sent.error == f"the receiver answered {status[:3]}"
    assert sent.is_gone == is_gone


async def test_a_public_name_that_means_a_private_address_is_not_connected_to() -> None:
    async with receiver() as server:
        channel = WebhookChannel(f"https://hooks.example.com:{server.port}/", [new_secret()], resolve=loopback)
        sent = await channel.send(MESSAGE, SYSTEM_CLOCK.now())

    assert sent.error is not None
    assert "private address" in sent.error
    assert server.requests == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "0.0.0.1"],
)
def test_private_addresses_in_any_clothes_are_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "url", ["http://example.com/", "ftp://localhost/", "https://", "https://u:p@example.com/", "https://a b/", "x"]
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(UserError):
        check_address(url, ["localhost"])
    assert check_address("http://localhost/", ["localhost"]) == ("localhost", 80)
    assert is_public("93.184.216.34")
