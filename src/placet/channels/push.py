"""Web Push: a notification in a browser that asked for it, encrypted for that browser, signed with the desk's key
(VAPID). It decides nothing: a click on it opens the desk."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from placet.channels.targets import rest_of
from placet.channels.webhook import WebhookChannel
from placet.channels.words import words_of
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.ports import Delivered, OutgoingMessage

KEY = "PLACET_PUSH_KEY"
SENDER = "PLACET_PUSH_SUBJECT"
KEPT_SECONDS = 24 * 3600
"""How long a push service keeps it for a browser that is away."""
TOKEN_SECONDS = 12 * 3600
LONGEST = 2500
"""Bytes of a notification's text: push services take 4,096 with all that encryption adds."""
_KEYS = re.compile(r"[A-Za-z0-9_-]{20,100}={0,2}")


class Browser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a browser says of itself when it wants to be told."""

    endpoint: str
    p256dh: str
    auth: str

    def address(self) -> str:
        """As a subscription keeps it."""
        return "push:" + base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


def browser_of(url: str) -> Browser:
    """UserError where it is none."""
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(rest_of(url)), type=Browser)
    except ValueError as error:
        raise UserError("This is no browser: it is added on its own page, «Account».") from error
    if not (_KEYS.fullmatch(found.p256dh) and _KEYS.fullmatch(found.auth)):
        raise UserError("This browser's keys are none.")
    return found


class PushKey:
    """The desk's key. Browsers get its public half, and take notifications that it signed alone."""

    def __init__(self, private: str, subject: str) -> None:
        from py_vapid import Vapid

        try:
            self._vapid = Vapid.from_string(private)
        except Exception as error:  # the library raises what it likes
            raise UserError(f"{KEY} is no key: «placet channels push-key» makes one.") from error
        if not subject.startswith(("mailto:", "https://")):
            raise UserError(f"Set {SENDER} to an address at which push services find you: mailto:… or https://….")
        self._subject = subject

    @property
    def public(self) -> str:
        """As browsers want it."""
        from cryptography.hazmat.primitives import serialization as form

        point = self._vapid.public_key.public_bytes(form.Encoding.X962, form.PublicFormat.UncompressedPoint)
        return base64.urlsafe_b64encode(point).rstrip(b"=").decode()

    def header(self, endpoint: str, now: float) -> str:
        parts = urlsplit(endpoint)
        claims = {"aud": f"{parts.scheme}://{parts.netloc}", "sub": self._subject, "exp": int(now) + TOKEN_SECONDS}
        return str(self._vapid.sign(claims)["Authorization"])


def push_key(environment: Mapping[str, str] | None = None) -> PushKey:
    """As the environment says; UserError where it does not."""
    given = os.environ if environment is None else environment
    if not given.get(KEY):
        raise UserError(f"No browser can be told: set {KEY} to a key of your own (placet channels push-key).")
    return PushKey(given[KEY], given.get(SENDER, ""))


def new_push_key() -> str:
    """The private half, as the environment holds it."""
    from cryptography.hazmat.primitives.asymmetric import ec

    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return base64.urlsafe_b64encode(number.to_bytes(32)).rstrip(b"=").decode()


class PushChannel:
    """One browser."""

    def __init__(self, browser: Browser, key: PushKey, allowed: Sequence[str] = ()) -> None:
        self._browser = browser
        self._key = key
        self._to = WebhookChannel(browser.endpoint, (), allowed=allowed)

    async def send(self, message: OutgoingMessage, now: float) -> Delivered:
        from pywebpush import WebPusher, WebPushException

        browser, text = self._browser, notification_of(message)
        info = {"endpoint": browser.endpoint, "keys": {"p256dh": browser.p256dh, "auth": browser.auth}}
        try:
            body = WebPusher(info).encode(text)["body"]
            status = await self._to.post(body, self._headers(message, now))
        except (UserError, WebPushException, ValueError) as error:
            return Delivered(error=f"{error}"[:300])
        except TimeoutError:
            return Delivered(error="the push service did not answer")
        except OSError as error:
            return Delivered(error=f"{type(error).__name__}: {error}"[:300])
        if 200 <= status < 300:
            return Delivered()
        return Delivered(error=f"the push service answered {status}", is_gone=status in (404, 410))

    def _headers(self, message: OutgoingMessage, now: float) -> dict[str, str]:
        return {
            "authorization": self._key.header(self._browser.endpoint, now),
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(KEPT_SECONDS),
            "urgency": "high",
            "topic": hashlib.sha256(tag_of(message).encode()).hexdigest()[:32],
        }


def tag_of(message: OutgoingMessage) -> str:
    """What it is about: a newer notification about the same takes the place of the older one."""
    data = json.loads(message.body)["data"]
    return str(data.get("request_id") or data.get("run_id") or message.type)


def notification_of(message: OutgoingMessage) -> bytes:
    words = words_of(message)
    lines = "\n".join(words.lines).encode()[:LONGEST].decode(errors="ignore")
    is_news = message.type in ("request.decided", "request.closed")
    shown: JsonObject = {"title": words.title[:200], "body": lines, "tag": tag_of(message), "url": words.url}
    return json.dumps(shown | {"silent": is_news}).encode()
