"""Mail: a question, or what happened in an hour or a day, over SMTP with TLS. A mail decides nothing, nor does a reply:
its link leads to a page that demands a log-in."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import parseaddr
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from placet.channels.webhook import trust
from placet.channels.words import DECIDES_NOTHING, Words, words_of
from placet.facts.errors import UserError
from placet.ports import Delivered, OutgoingMessage

SERVER = "PLACET_SMTP_URL"
SENDER = "PLACET_MAIL_FROM"
SECONDS = 30.0
"""How long the mail server may take for each answer."""
LONGEST_ADDRESS = 254
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_HERE = ("localhost", "127.0.0.1", "::1")


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """Over whom mails go, and in whose name. It comes from the environment, never from the store."""

    host: str
    port: int
    is_tls_at_once: bool
    """Else the connection begins in plain text, and nothing is said before it is encrypted."""
    is_plain: bool
    """Never encrypted: only to this very machine."""
    user: str | None
    password: str | None
    sender: Address


def mail_server(environment: Mapping[str, str] | None = None) -> MailServer:
    """As the environment says; UserError where it does not."""
    given = os.environ if environment is None else environment
    url = given.get(SERVER, "")
    if not url:
        raise UserError(f"No mail server is known here: set {SERVER} to smtps://USER:PASSWORD@HOST, and {SENDER}.")
    parts, host, port = _address_of_server(url)
    return MailServer(
        host=host,
        port=port or _USUAL_PORTS[parts.scheme],
        is_tls_at_once=parts.scheme == "smtps",
        is_plain=parts.scheme == "smtp+plain",
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        sender=_sender(given.get(SENDER, "")),
    )


_USUAL_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


def _address_of_server(url: str) -> tuple[SplitResult, str, int | None]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UserError(f"{SERVER} is no address: {error}.") from error
    if parts.scheme not in _USUAL_PORTS or not host:
        raise UserError(f"{SERVER} begins with smtps:// (TLS at once) or smtp:// (STARTTLS), and names a host.")
    if parts.scheme == "smtp+plain" and host not in _HERE:
        raise UserError(f"{SERVER}: smtp+plain:// is not encrypted, and only for a server on this machine.")
    return parts, host, port


def _sender(text: str) -> Address:
    name, address = parseaddr(text) if text.isprintable() else ("", "")
    try:
        return Address(display_name=name, addr_spec=checked_address(address))
    except (UserError, ValueError) as error:
        raise UserError(f"Set {SENDER} to the address that mails come from, such as placet@example.com.") from error


def checked_address(text: str) -> str:
    """One mailbox; UserError for anything else, such as a list of them or a line break with more headers."""
    if not _ADDRESS.fullmatch(text) or len(text) > LONGEST_ADDRESS:
        raise UserError(f"{text[:80]!r} is no mail address.")
    return text


class MailChannel:
    """One mailbox."""

    def __init__(self, address: str, server: MailServer) -> None:
        self._address = address
        self._server = server

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        import aiosmtplib

        server = self._server
        try:
            await aiosmtplib.send(
                mail_of(message, self._address, server.sender),
                hostname=server.host,
                port=server.port,
                use_tls=server.is_tls_at_once,
                start_tls=not (server.is_tls_at_once or server.is_plain),
                tls_context=None if server.is_plain else trust(os.environ.get("SSL_CERT_FILE")),
                username=server.user,
                password=server.password,
                timeout=SECONDS,
            )
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            return Delivered(error=f"{type(error).__name__}: {error}"[:300])
        return Delivered()


def mail_of(message: OutgoingMessage, to: str, sender: Address) -> EmailMessage:
    """Plain text and HTML. A second copy of the same message has the same Message-ID."""
    words = words_of(message)
    made = EmailMessage()
    made["From"] = sender
    made["To"] = to
    made["Subject"] = _in_one_line(words.title)
    made["Message-ID"] = f"<{message.id}@{sender.domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Auto-Response-Suppress"] = "All"
    made.set_content(_plain(words))
    made.add_alternative(_html(words), subtype="html")
    return made


def _in_one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:200]


def _plain(words: Words) -> str:
    link = [f"To look and decide: {words.url}", ""] if words.url is not None else []
    return "\n".join([words.title, "", *words.lines, "", *link, DECIDES_NOTHING, "A reply is read by nobody.", ""])


def _html(words: Words) -> str:
    lines = "".join(f'<p style="white-space:pre-wrap">{html.escape(line)}</p>' for line in words.lines)
    link = "" if words.url is None else f'<p><a href="{html.escape(words.url)}">Look and decide</a></p>'
    return (
        f'<!doctype html><html lang="en"><body style="font-family:sans-serif"><h1 style="font-size:1.2em">'
        f"{html.escape(words.title)}</h1>{lines}{link}"
        f'<p style="color:#666">{DECIDES_NOTHING} A reply is read by nobody.</p></body></html>'
    )
