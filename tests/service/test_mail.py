"""Mails about what waits, over a real SMTP server: encrypted or not at all, thin, and deciding nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import quote

import pytest

from placet import UserError
from placet.channels.mail import MailChannel, checked_address, mail_server
from placet.clock import SYSTEM_CLOCK
from placet.ports import OutgoingMessage
from placet.service.audit import verify
from placet.service.digests import SECONDS, next_time
from placet.service.outbox import Outbox
from placet.service.outbox_events import EVENT_TYPES
from placet.service.records import records
from placet.service.subscriptions import Filters
from placet.stores.opening import open_store
from placet.testing import ManualClock
from placet.testing.run_writer import RunWriter, until
from tests.service.receivers import QUICK, serving
from tests.support.certificates import certificate
from tests.support.mail_server import PASSWORD, USER, MailReceiver
from tests.support.mail_server import mail_server as served

DESK = "https://desk.example.com"


@pytest.fixture
def known_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], object]:
    """Says in the environment which server sends mails, and gives the server's certificate."""
    trusted, context = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setenv("PLACET_MAIL_FROM", "Placet <placet@example.com>")

    def tell(port: int, scheme: str) -> None:
        monkeypatch.setenv("PLACET_SMTP_URL", f"{scheme}://{USER}:{quote(PASSWORD, safe='')}@localhost:{port}")

    tell.context = context  # type: ignore[attr-defined]
    return tell


def text_of(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content())


def came(server: MailReceiver, count: int) -> object:
    async def enough() -> bool:
        return len(server.mails) >= count

    return enough


@pytest.mark.promise("P25")
@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_question_comes_as_an_encrypted_mail_that_names_it_and_shows_no_arguments(
    scheme: str, url: str, known_server: Callable[[int, str], object]
) -> None:
    context = known_server.context  # type: ignore[attr-defined]
    async with open_store(url) as store, served(context, at_once=scheme == "smtps") as server:
        known_server(server.port, scheme)
        outbox = Outbox(store, SYSTEM_CLOCK, base_url=DESK, pace=QUICK)
        await outbox.subscriptions.add("ana", "mailto:ana@example.com", Filters())
        async with serving(outbox):
            run = RunWriter()
            (request,) = await run.ask(store, "pay")
            await until(came(server, 1))
            await run.decide(store)
            (other,) = await RunWriter().ask(store, "pay")
            await until(came(server, 2))
    mail = server.mails[0]
    whole = mail.as_bytes()

    assert (mail["To"], mail["From"]) == ("ana@example.com", "Placet <placet@example.com>")
    assert mail["Subject"] == "pay waits for a yes"
    assert mail["Auto-Submitted"] == "auto-generated"
    for kind in ("plain", "html"):
        text = text_of(mail, kind)
        assert f"{DESK}/inbox?open={request}" in text
        assert "digest 0" in text
        assert "decides nothing" in text
    assert b'"n"' not in whole
    assert other in text_of(server.mails[1], "plain"), "a person who chose nothing is told of what waits, alone"


async def test_arguments_are_in_a_mail_by_choice_and_cannot_break_out_of_it() -> None:
    arguments = {"to": "<img src=x onerror=alert(1)>", "text": "a\r\nBcc: eve@example.com\r\n\r\n.\r\n"}
    data = {"tool": "send\r\nBcc: eve@example.com", "agent": "A", "kind": "approval", "arguments": arguments}
    body = json.dumps({"type": "request.waiting", "timestamp": "x", "data": data}).encode()
    async with served() as server:
        environment = {
            "PLACET_SMTP_URL": f"smtp+plain://localhost:{server.port}",
            "PLACET_MAIL_FROM": "placet@example.com",
        }
        channel = MailChannel("ana@example.com", mail_server(environment))
        sent = await channel.send(OutgoingMessage(id="msg_1", type="request.waiting", body=body), 0.0)
    (mail,) = server.mails

    assert sent.error is None
    assert mail["Bcc"] is None
    assert mail["Message-ID"] == "<msg_1@example.com>"
    assert "<img" not in text_of(mail, "html")
    assert "<img src=x onerror=alert(1)>" in text_of(mail, "plain")


@pytest.mark.parametrize("trouble", ["no tls", "foreign certificate", "wrong password", "refused"])
async def test_a_mail_that_cannot_be_sent_safely_is_not_sent(
    trouble: str, tmp_path: Path, known_server: Callable[[int, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, foreign = certificate(tmp_path, "other.example.com")
    context = foreign if trouble == "foreign certificate" else known_server.context  # type: ignore[attr-defined]
    async with served(context, offers_tls=trouble != "no tls") as server:
        known_server(server.port, "smtp")
        if trouble == "wrong password":
            monkeypatch.setenv("PLACET_SMTP_URL", f"smtp://{USER}:wrong@localhost:{server.port}")
        server.refuses = "550 no such mailbox" if trouble == "refused" else ""
        body = b'{"type":"test","data":{"subscription":"x"}}'
        sent = await MailChannel("ana@example.com", mail_server()).send(
            OutgoingMessage(id="msg_1", type="test", body=body), 0.0
        )

    assert sent.error is not None
    assert PASSWORD not in sent.error
    assert server.mails == []


@pytest.mark.promise("P25")
async def test_a_digest_tells_an_hour_in_one_mail_and_a_process_that_takes_over_forgets_nothing(
    any_url: str, known_server: Callable[[int, str], object]
) -> None:
    clock = ManualClock(1000.0)
    async with open_store(any_url) as store, served(known_server.context) as server:  # type: ignore[attr-defined]
        known_server(server.port, "smtp")
        outbox = Outbox(store, clock, base_url=DESK, pace=QUICK)
        made = await outbox.subscriptions.add(
            "ana", "mailto:ana@example.com", Filters(events=[*EVENT_TYPES]), shows_arguments=True, every="hour"
        )
        async with serving(outbox):
            runs = [RunWriter() for _ in range(3)]
            requests = [(await run.ask(store, "pay"))[0] for run in runs]

            async def is_collected() -> bool:
                return await outbox.subscriptions.behind_since(made.id) is not None

            await until(is_collected)
        too_early = list(server.mails)
        async with serving(Outbox(store, clock, base_url=DESK, pace=QUICK)):  # another process, which knows nothing
            await runs[0].decide(store)
            clock.advance(SECONDS["hour"])
            await until(came(server, 1))

            async def is_written() -> bool:
                return await outbox.subscriptions.behind_since(made.id) is None

            await until(is_written)
        async with serving(Outbox(store, clock, base_url=DESK, pace=QUICK)):
            clock.advance(SECONDS["hour"])
            await RunWriter(at=clock.now()).ask(store, "refund")
            clock.advance(SECONDS["hour"])
            await until(came(server, 2))
    first, second = server.mails
    text = text_of(first, "plain")

    assert too_early == []
    assert "3 × waiting" in first["Subject"]
    assert all(f"{DESK}/inbox?open={request}" in text for request in requests)
    assert '"n"' not in text.replace("'", '"'), "a digest shows no arguments, whatever the channel shows"
    assert "1 × waiting" in second["Subject"]
    assert not any(request in text_of(second, "plain") for request in requests)


def test_digests_go_out_when_the_hour_or_the_morning_comes() -> None:
    assert next_time("hour", 3599.0) == 3600.0
    assert next_time("hour", 3600.0) == 7200.0
    assert next_time("day", 6 * 3600.0 - 1) == 6 * 3600.0
    assert next_time("day", 6 * 3600.0) == 86400.0 + 6 * 3600.0


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ana",
        "@example.com",
        "ana@",
        "ana@example.com, eve@example.com",
        "ana@example.com\r\nBcc: eve@example.com",
        "Ana <ana@example.com>",
        "ana@example.com?bcc=eve@example.com",
        "ana@exa mple.com",
        f"{'a' * 65}@example.com",
        "änä@example.com",
    ],
)
async def test_what_is_no_mailbox_is_refused(address: str, url: str) -> None:
    async with open_store(url) as store:
        with pytest.raises(UserError):
            checked_address(address)
        with pytest.raises(UserError):
            await Outbox(store, SYSTEM_CLOCK).subscriptions.add("x", f"mailto:{address}", Filters())

        assert await Outbox(store, SYSTEM_CLOCK).subscriptions.all() == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "PLACET_SMTP_URL"),
        ({"PLACET_SMTP_URL": "http://mail.example.com"}, "smtps://"),
        ({"PLACET_SMTP_URL": "smtp://"}, "names a host"),
        ({"PLACET_SMTP_URL": "smtps://mail.example.com:port"}, "no address"),
        ({"PLACET_SMTP_URL": "smtp+plain://mail.example.com"}, "not encrypted"),
        ({"PLACET_SMTP_URL": "smtps://mail.example.com"}, "PLACET_MAIL_FROM"),
        ({"PLACET_SMTP_URL": "smtps://mail.example.com", "PLACET_MAIL_FROM": "a@b\nBcc: c@d"}, "PLACET_MAIL_FROM"),
    ],
)
def test_settings_that_make_no_sense_are_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        mail_server(given)


async def test_the_log_of_operators_names_no_mailbox(any_url: str) -> None:
    async with open_store(any_url) as store:
        made = await Outbox(store, SYSTEM_CLOCK).subscriptions.add(
            "ana", "mailto:ana.secret@example.com", Filters(), by="root", every="day"
        )
        await Outbox(store, SYSTEM_CLOCK).subscriptions.remove(made.id, by="root")
        entries = [str(entry) async for entry in records(store, "operators")]
        verdicts = [verdict async for verdict in verify(store)]

    assert any("mail «ana» to example.com" in entry and "each day" in entry for entry in entries)
    assert not any("ana.secret" in entry for entry in entries)
    assert all(verdict.is_whole for verdict in verdicts)
