"""A session whose items are kept encrypted, each for a time, in another session: in the SDK's form, so that what it
wrote can still be read."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from placet.agents.memory.session import SessionABC
from placet.declare.run_config import SessionSettings
from placet.facts.errors import UserError
from placet.ports import Session
from placet.runtime.session_matching import digest_of_place

try:
    from cryptography.fernet import Fernet, InvalidToken
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError as error:
    raise ImportError("EncryptedSession needs cryptography: pip install 'placet[encrypt]'") from error

_MARK, _VERSION, _KEY_ID = "__enc__", 1, "hkdf-v1"
_PURPOSE = b"agents.session-store.hkdf.v1"
"""What the key is derived for: a part of the form, since another one gives another key."""


EncryptedEnvelope = TypedDict("EncryptedEnvelope", {"__enc__": Literal[1], "v": int, "kid": str, "payload": str})
"""An item as the other session keeps it."""


class EncryptedSession(SessionABC):
    """`EncryptedSession("user-7", underlying, encryption_key, ttl=600)`.

    Only what this key encrypted, for this session, in the last `ttl` seconds is given back; all else is passed over.
    A run that waits for longer than that goes on with the history in its own log.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        encryption_key: str,
        ttl: int = 600,
        max_scan_items: int | None = None,
    ) -> None:
        if max_scan_items is not None and max_scan_items <= 0:
            raise ValueError("max_scan_items must be positive or None")
        self.session_id = session_id
        self.underlying_session = underlying_session
        self.ttl = ttl
        self.max_scan_items = max_scan_items
        self.cipher = _cipher(encryption_key, session_id)

    @property
    def kept_in(self) -> str | None:
        """Where the other session is kept."""
        place = getattr(self.underlying_session, "kept_in", None)
        return None if place is None else digest_of_place("encrypted", str(place))

    @property
    def session_settings(self) -> SessionSettings | None:
        return getattr(self.underlying_session, "session_settings", None)

    @session_settings.setter
    def session_settings(self, settings: SessionSettings | None) -> None:
        self.underlying_session.session_settings = settings  # type: ignore[attr-defined]

    async def get_items(self, limit: int | None = None) -> list[Any]:
        settings = self.session_settings
        limit = limit if limit is not None or settings is None else settings.limit
        if limit is not None and limit <= 0:
            return []
        stored = await self._stored()
        items = [item for item in map(self._opened, stored) if item is not None]
        is_whole = self.max_scan_items is None or len(stored) < self.max_scan_items
        if not is_whole and (limit is None or len(items) < limit):
            raise RuntimeError(
                f"EncryptedSession read {self.max_scan_items} items (max_scan_items), and there may be more: raise the "
                "bound, or remove what has expired from the underlying session."
            )
        return items if limit is None else items[-limit:]

    async def _stored(self) -> list[Any]:
        """All that the other session holds: items that expired do not count for a limit, so it cannot apply there."""
        settings = self.session_settings
        if self.max_scan_items is not None:
            return await self.underlying_session.get_items(self.max_scan_items)
        if settings is None or settings.limit is None:
            return await self.underlying_session.get_items()
        return await self.underlying_session.get_items(_ALL)

    async def add_items(self, items: Sequence[Any]) -> None:
        await self.underlying_session.add_items([self._sealed(item) for item in items])

    async def pop_item(self) -> Any | None:
        """Take the newest item away that can be read; what has expired above it goes with it. What another key, or
        nobody, encrypted is not touched."""
        while True:
            newest = await self.underlying_session.get_items(1)
            if not newest:
                return None
            self._require_own(newest[0])
            stored = await self.underlying_session.pop_item()
            item = None if stored is None else self._opened(stored)
            if item is not None:
                return item

    async def clear_session(self) -> None:
        await self.underlying_session.clear_session()

    def _sealed(self, item: Any) -> dict[str, Any]:
        plain = item if isinstance(item, dict) else item.model_dump()
        data = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), default=str).encode()
        return {_MARK: 1, "v": _VERSION, "kid": _KEY_ID, "payload": self.cipher.encrypt(data).decode()}

    def _opened(self, stored: Any) -> Any | None:
        if not _is_sealed(stored):
            return None
        try:
            return json.loads(self.cipher.decrypt(stored["payload"].encode(), ttl=self.ttl))
        except InvalidToken:
            return None

    def _require_own(self, stored: Any) -> None:
        if not _is_sealed(stored):
            raise UserError(
                f"The newest item of session '{self.session_id}' is not encrypted: it is not taken away unread."
            )
        self.cipher.extract_timestamp(stored["payload"].encode())  # raises InvalidToken for another key


_ALL = 2**62


def _is_sealed(stored: Any) -> bool:
    return isinstance(stored, dict) and stored.get(_MARK) == 1 and isinstance(stored.get("payload"), str)


def _cipher(key: str, session_id: str) -> Fernet:
    if not key:
        raise ValueError("encryption_key not set; required for EncryptedSession.")
    material = key.encode()
    try:
        decoded = base64.urlsafe_b64decode(key)
        material = decoded if len(decoded) == 32 else material  # a Fernet key
    except (binascii.Error, ValueError):
        pass
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=session_id.encode(), info=_PURPOSE).derive(material)
    return Fernet(base64.urlsafe_b64encode(derived))


__all__ = ["EncryptedSession"]
