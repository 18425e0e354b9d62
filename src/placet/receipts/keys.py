"""Keys in a file or in the environment: a JWK set with private keys. Several keys are a rotation.

A key signs from its `signs_from` on, until a later one does. Receivers see it before that, and keep what they have
cached; after its time it stays published until what it signed counts no more.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from placet.facts.codec import JsonObject, encode, parse_arguments
from placet.facts.errors import ReceiptNotSigned, UserError
from placet.private_files import warn_if_readable
from placet.receipts.issuing import Receipts, SigningKey, no_key

FROM = "signs_from"
FILE_VARIABLE, TEXT_VARIABLE, ISSUER_VARIABLE = (
    "PLACET_RECEIPT_KEYS_FILE",
    "PLACET_RECEIPT_KEYS",
    "PLACET_RECEIPT_ISSUER",
)
_ALGORITHM_OF = {("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "Ed25519", ("RSA", ""): "PS256"}


class LocalKey:
    """A private key that this process holds."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        if data.get("kty") not in ("EC", "OKP", "RSA"):
            raise no_key("keys are of the kind EC (P-256), OKP (Ed25519) or RSA.")
        try:
            self._key: Key = import_key({name: each for name, each in data.items() if name != FROM})
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise no_key(f"one of the keys is no JWK ({type(error).__name__}).") from error
        if not isinstance(self._key, ECKey | OKPKey | RSAKey) or not self._key.is_private:
            raise no_key("one of the keys has no private part.")
        public = self._key.as_dict(private=False)
        name = _ALGORITHM_OF.get((str(public["kty"]), str(public.get("crv", ""))))
        if name is None:
            raise no_key("keys are of the kind EC (P-256), OKP (Ed25519) or RSA.")
        self.algorithm = name
        self._public: JsonObject = {
            **public,
            "kid": data.get("kid") or self._key.thumbprint(),
            "use": "sig",
            "alg": name,
        }
        self.signs_from = float(data.get(FROM) or 0.0)

    def public(self) -> JsonObject:
        return self._public

    async def sign(self, data: bytes) -> bytes:
        algorithm = jws.JWSRegistry.algorithms[self.algorithm]
        return algorithm.sign(data, self._key)


class KeyText:
    """Keys as text: of an environment variable, say."""

    def __init__(self, text: str) -> None:
        self._keys = read_keys(text)

    def signing(self, now: float) -> SigningKey:
        return newest(self._keys, now)

    def published(self) -> Sequence[JsonObject]:
        return [key.public() for key in self._keys]


class KeyFile:
    """Keys in a file, which is read again when it changed: a rotation needs no restart."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int] | None = None
        self._keys: list[LocalKey] = []
        self._look()
        warn_if_readable(self._path, "The file of keys")

    def signing(self, now: float) -> SigningKey:
        self._look()
        return newest(self._keys, now)

    def published(self) -> Sequence[JsonObject]:
        self._look()
        return [key.public() for key in self._keys]

    def _look(self) -> None:
        try:
            found = self._path.stat()
            stamp = found.st_mtime_ns, found.st_size
            if stamp != self._stamp:
                self._keys = read_keys(self._path.read_text())
                self._stamp = stamp
        except OSError as error:
            raise no_key(f"{self._path} cannot be read ({error.strerror}).") from error


def read_keys(text: str) -> list[LocalKey]:
    found = parse_arguments(text)
    keys = found.get("keys", [found]) if found is not None else None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) for key in keys):
        raise no_key("a JWK set with private keys is expected: «placet receipts new-key FILE» makes one.")
    return [LocalKey(key) for key in keys]


def newest(keys: Sequence[LocalKey], now: float) -> LocalKey:
    """The one that signs: the latest whose time has come."""
    ready = [key for key in keys if key.signs_from <= now]
    if not ready:
        raise no_key("the time of none has come.")
    return max(ready, key=lambda key: key.signs_from)


def new_key(signs_from: float = 0.0) -> JsonObject:
    """A new private key as a JWK: ECDSA over P-256, which every library and key service knows."""
    key = ECKey.generate_key("P-256", private=True, auto_kid=True)
    return {**key.as_dict(private=True), FROM: signs_from}


def rotated(text: str, *, signs_from: float, drop_before: float) -> str:
    """The key set with a new key that signs from then on, and without those that had stopped signing before a time."""
    before = parse_arguments(text) or {}
    found = before.get("keys", [])
    keys = sorted((key for key in found if isinstance(key, dict)), key=_from) if isinstance(found, list) else []
    kept = [
        key for key, after in zip(keys, [*keys[1:], None], strict=True) if after is None or _from(after) > drop_before
    ]
    return encode({"keys": [*kept, new_key(signs_from)]}).decode() + "\n"


def _from(key: Mapping[str, Any]) -> float:
    return float(key.get(FROM) or 0.0)


def receipts_from_environment(
    environ: Mapping[str, str] | None = None, *, file: str | None = None, issuer: str | None = None
) -> Receipts | None:
    """What the environment says, for desks, workers and gates: `PLACET_RECEIPT_KEYS_FILE` names a file,
    `PLACET_RECEIPT_KEYS` holds the keys. None: no receipts are issued. Keys that cannot be used are an error at once,
    and not at the first call."""
    given = os.environ if environ is None else environ
    path, text = file or given.get(FILE_VARIABLE), given.get(TEXT_VARIABLE)
    if path and text:
        raise UserError(f"The keys of receipts are given twice: leave out {FILE_VARIABLE} or {TEXT_VARIABLE}.")
    if not path and not text:
        return None
    try:
        keys = KeyFile(path) if path else KeyText(_decoded(text or ""))
    except ReceiptNotSigned as error:
        raise UserError(error.message) from error
    return Receipts(keys, issuer=given.get(ISSUER_VARIABLE) or issuer or "placet")


def _decoded(text: str) -> str:
    """The text, which may be in base64: some settings of services take no quotes."""
    if text.lstrip().startswith("{"):
        return text
    try:
        return base64.b64decode(text).decode()
    except ValueError:
        return ""
