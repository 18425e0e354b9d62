"""Secrets that people and programs show: made here, kept only as digests, compared in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
"""About 50 ms and 32 MB for one guess."""
SCRYPT_MEMORY = 64 * 2**20

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def short_id(prefix: str) -> str:
    """A name for a token, a session, an invitation: 60 random bits. It is not secret."""
    number = int.from_bytes(os.urandom(8))
    return f"{prefix}-" + "".join(_ALPHABET[number >> shift & 31] for shift in range(55, -1, -5))


def new_secret() -> str:
    """256 random bits, as text for a header, a cookie or an address."""
    return base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()


def digest(secret: str) -> str:
    """What is kept of a secret that cannot be guessed: a plain digest is enough for 256 bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_secret(shown: str, kept: str) -> bool:
    return hmac.compare_digest(digest(shown), kept)


def hash_password(password: str) -> str:
    """What is kept of a password, which can be guessed: slow to try, salted."""
    salt = os.urandom(16)
    return "$".join(["scrypt", str(SCRYPT_N), str(SCRYPT_R), str(SCRYPT_P), salt.hex(), _scrypt(password, salt).hex()])


def is_password(shown: str, kept: str) -> bool:
    """Whether this is the password. It takes as long for a wrong one as for the right one."""
    scheme, n, r, p, salt, expected = kept.split("$")
    if scheme != "scrypt":
        return False
    found = _scrypt(shown, bytes.fromhex(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, bytes.fromhex(expected))


HASH_OF_NO_PASSWORD = f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${'00' * 16}${'00' * 32}"
"""The password of a user who does not exist: checking it takes as long, and it is never right."""


def _scrypt(password: str, salt: bytes, n: int = SCRYPT_N, r: int = SCRYPT_R, p: int = SCRYPT_P) -> bytes:
    given = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(given, salt=salt, n=n, r=r, p=p, maxmem=SCRYPT_MEMORY, dklen=32)
