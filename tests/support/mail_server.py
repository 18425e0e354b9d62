"""A real mail server for tests (aiosmtpd), in the test's own event loop: TLS by STARTTLS or at once, and a log-in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

USER, PASSWORD = "placet", "p@ss/word"


class MailReceiver:
    """What came, and how the server answers next."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refuses = ""
        """An answer of SMTP with which each mail is refused."""
        self.port = 0

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802  # the library's
        if self.refuses:
            return self.refuses
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: object) -> AuthResult:
        is_right = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_right)


@asynccontextmanager
async def mail_server(
    tls: ssl.SSLContext | None = None, *, at_once: bool = False, offers_tls: bool = True
) -> AsyncIterator[MailReceiver]:
    found = MailReceiver()
    starttls = tls if offers_tls and not at_once else None

    def protocol() -> SMTP:
        return SMTP(
            found,
            hostname="mail.example.com",
            tls_context=starttls,
            require_starttls=starttls is not None,
            authenticator=found.authenticate,
            auth_required=starttls is not None,
            auth_require_tls=starttls is not None,
        )

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=tls if at_once else None)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found
