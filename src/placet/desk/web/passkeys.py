"""Passkeys over the web: what a browser is asked, and what its answer is worth."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from placet.core.signing import as_bytes, challenge_of_decision
from placet.desk.access.passkeys import Passkey, Purpose, WaitingKey, challenge_of, challenge_of_waiting, handle_of
from placet.desk.access.people import Actor
from placet.desk.web.context import Web, web_of
from placet.desk.web.limits import neighbourhood
from placet.desk.web.problems import Problem
from placet.desk.web.sessions import client_address
from placet.facts.codec import JsonObject
from placet.facts.errors import AccessDenied
from placet.facts.signatures import SignedDecision

logger = logging.getLogger("placet.desk")

CREATION_SECONDS = 900.0
"""Of a first key, which nobody can sign: whoever adds it has logged in so recently."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an authenticator said to a question of this desk."""

    nonce: str
    """As it stood in the question."""
    credential: JsonObject
    """As the browser's `toJSON` writes it."""


class Site(msgspec.Struct, frozen=True):
    """Where people reach this desk, as their authenticators know it."""

    rp_id: str
    origin: str


def are_available() -> bool:
    return importlib.util.find_spec("webauthn") is not None


def site_of(request: Request) -> Site:
    """Problem 422 where no passkey can be used: browsers take names, and no addresses."""
    if not are_available():
        raise Problem(422, "user_error", "Passkeys need an extra at the desk: pip install 'placet[passkeys]'.")
    public = web_of(request).settings.public_url
    parts = urlsplit(public or f"{request.scope['scheme']}://{request.headers.get('host', '')}")
    host = (parts.hostname or "").lower()
    if not host or _is_address(host):
        raise Problem(
            422,
            "user_error",
            f"A passkey belongs to a name, and {host or 'this'} is an address: open the desk by a name (on this "
            "machine: localhost), or start it with --public-url.",
        )
    return Site(host, f"{parts.scheme}://{parts.netloc}".lower())


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


# -- questions --------------------------------------------------------------------------------------------------------


async def ask(request: Request, purpose: Purpose, owner: str, about: str = "") -> str:
    """Begin a ceremony: its nonce."""
    site = site_of(request)
    return await web_of(request).passkeys.begin(purpose, owner, about, rp_id=site.rp_id, origin=site.origin)


async def question(request: Request, nonce: str, challenge: bytes, owner: str | None) -> dict[str, Any]:
    """What `navigator.credentials.get()` is given. Problem 409 where the person has no key here."""
    from webauthn import generate_authentication_options
    from webauthn.helpers import options_to_json_dict
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor, UserVerificationRequirement

    site = site_of(request)
    keys: Sequence[Passkey] = []
    if owner is not None:
        keys = [key for key in await web_of(request).passkeys.keys(owner) if key.rp_id == site.rp_id]
        if not keys:
            raise Problem(409, "no_passkey", "You have no passkey here: add one on the page Account.")
    options = generate_authentication_options(
        rp_id=site.rp_id,
        challenge=challenge,
        allow_credentials=[PublicKeyCredentialDescriptor(id=as_bytes(key.id)) for key in keys] or None,
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return {"nonce": nonce, "publicKey": options_to_json_dict(options)}


async def creation(request: Request, nonce: str, name: str) -> dict[str, Any]:
    """What `navigator.credentials.create()` is given."""
    from webauthn import generate_registration_options
    from webauthn.helpers import options_to_json_dict
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        PublicKeyCredentialDescriptor,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    site = site_of(request)
    known = await web_of(request).passkeys.keys(name)
    options = generate_registration_options(
        rp_id=site.rp_id,
        rp_name="Placet",
        user_name=name,
        user_id=as_bytes(handle_of(name)),
        challenge=challenge_of(nonce),
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=as_bytes(key.id)) for key in known],
    )
    return {"nonce": nonce, "publicKey": options_to_json_dict(options)}


async def question_of_waiting(request: Request, actor: Actor, waiting: WaitingKey) -> dict[str, Any]:
    nonce = await ask(request, "vouch", actor.name, waiting.id)
    return await question(request, nonce, challenge_of_waiting(waiting, nonce), actor.name)


async def question_of_decision(request: Request, actor: Actor, said: SignedDecision) -> dict[str, Any]:
    """What a person is asked to sign who decides so."""
    nonce = await ask(request, "decide", actor.name, said.request)
    return await question(request, nonce, challenge_of_decision(said, nonce), actor.name)


# -- answers ----------------------------------------------------------------------------------------------------------


async def signed_decision(web: Web, actor: Actor, said: SignedDecision, answer: Answer) -> SignedDecision:
    """The decision with the actor's signature of exactly this. AccessDenied where they signed anything else."""
    from placet.passkeys.checking import shown

    with attempt(web, actor.name, "decide"):
        ceremony = await web.passkeys.take(answer.nonce, "decide", actor.name, said.request)
        assertion = shown(answer.credential).assertion(ceremony.id)
        challenge = challenge_of_decision(said, ceremony.id)
        await web.passkeys.used(assertion, challenge, ceremony, actor.name)
    return msgspec.structs.replace(said, assertion=assertion)


async def confirm(request: Request, actor: Actor, answer: Answer) -> None:
    """From now on this session is as sure as a passkey."""
    from placet.passkeys.checking import shown

    web = web_of(request)
    with attempt(web, actor.name, "step up"):
        ceremony = await web.passkeys.take(answer.nonce, "step up", actor.name, actor.credential)
        assertion = shown(answer.credential).assertion(ceremony.id)
        await web.passkeys.used(assertion, challenge_of(ceremony.id), ceremony, actor.name)
    await web.accounts.raise_session(actor.credential, owner=actor.name, assurance="passkey")


async def who_logs_in(request: Request, answer: Answer) -> Passkey:
    """Whose key answered. Nobody is known before: tries are counted by address."""
    from placet.passkeys.checking import shown

    web = web_of(request)
    with attempt(web, f"at {neighbourhood(client_address(request))}", "log in"):
        ceremony = await web.passkeys.take(answer.nonce, "log in", "", "")
        assertion = shown(answer.credential).assertion(ceremony.id)
        return await web.passkeys.used(assertion, challenge_of(ceremony.id), ceremony, None)


@contextmanager
def attempt(web: Web, name: str, purpose: Purpose) -> Iterator[None]:
    """A try with a passkey: wrong ones are told to the log, and cost time."""
    try:
        with web.limits.guess_of_passkey(name):
            yield
    except AccessDenied as error:
        fields = {"action": "passkey_refused", "user": name, "purpose": purpose, "why": error.message[:200]}
        logger.warning("passkey refused", extra=fields)
        raise
