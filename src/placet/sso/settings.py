"""The file that names identity providers: who vouches for people, and what their groups mean here."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.facts.errors import UserError
from placet.sso.oidc import TIMEOUT, Client, Provider, check_address

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class SsoFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    provider: tuple[Provider, ...]
    passwords: tuple[str, ...] | None = None
    """The users who may still log in with a password: for the day on which the provider is away. None: all."""


def read_sso_file(path: str) -> SsoFile:
    """UserError that names what is wrong. Secrets do not stand in the file."""
    try:
        found = msgspec.convert(tomllib.loads(Path(path).read_text(encoding="utf-8")), SsoFile)
    except OSError as error:
        raise UserError(f"The file {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"The file {path} does not say who vouches for people: {error}.") from error
    names = [provider.name for provider in found.provider]
    for provider in found.provider:
        if not _NAME.fullmatch(provider.name) or names.count(provider.name) > 1:
            raise UserError(f"{provider.name!r} cannot be a provider's name: small letters, digits and dashes, once.")
        if provider.role not in ("viewer", "reviewer", "admin"):
            raise UserError(f"The role of {provider.name} is viewer, reviewer or admin, not {provider.role!r}.")
        check_address(provider.issuer, "issuer")
    return found


def secret_of(provider: Provider) -> str | None:
    if provider.client_secret is None:
        return None
    where, _, name = provider.client_secret.partition(":")
    if where == "env":
        found = os.environ.get(name)
    elif where == "file":
        found = Path(name).read_text(encoding="utf-8").strip() if Path(name).is_file() else None
    else:
        raise UserError(f"The secret of {provider.name} is env:NAME or file:PATH, and does not stand in the file.")
    if not found:
        raise UserError(f"The secret of {provider.name} is not in {provider.client_secret}.")
    return found


def web_wire() -> AsyncClient:
    """The client that asks providers: it follows nobody elsewhere, and does not wait without end."""
    import httpx2

    return httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False, headers={"Accept": "application/json"})


def clients_of(file: SsoFile, wire: AsyncClient) -> dict[str, Client]:
    return {provider.name: Client(provider, secret_of(provider), wire) for provider in file.provider}
