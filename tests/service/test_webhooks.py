"""Webhooks as the specification's own library verifies them, over real HTTP; and addresses that nothing is sent to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from placet import UserError
from placet.channels.webhook import WebhookChannel, check_address, is_public, new_secret
from placet.clock import SYSTEM_CLOCK
from placet.ports import OutgoingMessage
from tests.service.receivers import receiver
from tests.support.certificates import certificate

MESSAGE = OutgoingMessage(id="msg_1", type="test", body=b'{"type":"test","data":{"text":"\xc3\xa4"}}')


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


@pytest.mark.parametrize(("allowed", "arrives"), [(["localhost", "127.0.0.1"], True), (["localhost"], False)])
async def test_a_redirect_is_followed_only_to_a_host_that_is_allowed_by_name(allowed: list[str], arrives: bool) -> None:
    async with receiver() as target, receiver("307 Temporary Redirect") as first:
        first.leads_to = f"http://127.0.0.1:{target.port}/there"
        sent = await WebhookChannel(first.url, [new_secret()], allowed=allowed, resolve=loopback).send(
            MESSAGE, SYSTEM_CLOCK.now()
        )

    assert (sent.error is None, len(target.requests)) == (arrives, int(arrives))
    assert arrives or "does not name where it leads" in str(sent.error)
    assert len(first.requests) == 1


async def test_a_circle_of_redirects_ends() -> None:
    async with receiver("308 Permanent Redirect") as server:
        sent = await WebhookChannel(server.url, [new_secret()], allowed=["localhost"], resolve=loopback).send(
            MESSAGE, SYSTEM_CLOCK.now()
        )

    assert sent.error == "the receiver answered 308"
    assert len(server.requests) == 4


async def test_tls_is_for_the_name_in_the_address_and_a_certificate_of_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, context = certificate(tmp_path, "hooks.example.com")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    secret = new_secret()
    async with receiver(tls=context) as server:
        names = ["hooks.example.com", "other.example.com"]
        urls = [f"https://{name}:{server.port}/hook" for name in names]
        good, bad = [
            await WebhookChannel(url, [secret], allowed=names, resolve=loopback).send(MESSAGE, SYSTEM_CLOCK.now())
            for url in urls
        ]
    ((headers, body),) = server.requests

    assert good.error is None
    assert headers["host"] == f"hooks.example.com:{server.port}"
    assert Webhook(secret).verify(body, headers)["type"] == "test"
    assert bad.error is not None
    assert "certificate" in bad.error.lower()
