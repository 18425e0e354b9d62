"""OpenID Connect, the side of the desk: discovery, the code with PKCE, and tokens that are verified.

Rule of this file: whatever a provider says is refused unless all of it is right. Who somebody is, is `iss` and `sub`;
an e-mail address is never an identity.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import msgspec

from placet.facts.codec import JsonObject
from placet.facts.errors import AccessDenied, StoreError, UserError

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "Ed25519", "EdDSA")
"""Of signatures with a public key. `none`, and those with a shared secret, are not among them."""
SKEW = 60.0
"""Seconds by which two clocks may differ."""
OLDEST = 600.0
"""A token that was issued longer ago is not the answer to a log-in of now."""
KEPT_SECONDS = 3600.0
REFRESH_SECONDS = 30.0
"""Keys are asked for again, because a token names one that is not known, at most this often."""
MAX_BYTES = 1 << 20
TIMEOUT = 10.0


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An identity provider, as the settings file describes it."""

    name: str
    """In addresses: small letters, digits and dashes."""
    issuer: str
    client_id: str
    client_secret: str | None = None
    """`env:NAME` or `file:PATH`; None: a public client."""
    label: str = ""
    """On the button."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str | None = None
    groups: dict[str, Mapped] = {}
    """What the provider's groups mean here."""
    domains: tuple[str, ...] = ()
    """People with a verified address of these may come without an invitation."""
    role: str = "viewer"
    """Of those."""

    @property
    def shown(self) -> str:
        return self.label or self.name


class Mapped(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    groups: tuple[str, ...] = ()
    role: str | None = None


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a provider vouches for."""

    issuer: str
    subject: str
    name: str
    email: str
    is_verified: bool
    groups: tuple[str, ...] | None
    """None: the provider said nothing of groups."""
    id_token: str

    @property
    def key(self) -> str:
        """By what the desk knows them: the pair, of any length, as one id."""
        return hashlib.sha256(f"{self.issuer}\n{self.subject}".encode()).hexdigest()


class ProviderAway(StoreError):
    """The provider does not answer, or not as one. Who is logged in stays; nobody new comes in by it."""

    code = "provider_away"


class Client:
    """One provider, as this process knows it."""

    def __init__(
        self, provider: Provider, secret: str | None, wire: AsyncClient, now: Callable[[], float] = time.time
    ) -> None:
        check_address(provider.issuer, "issuer")
        self.provider = provider
        self._secret = secret
        self._wire = wire
        self._now = now
        self._about: tuple[float, JsonObject] | None = None
        self._keys: tuple[float, Any] | None = None  # Any: joserfc's key set

    # -- what the provider says of itself -----------------------------------------------------------------------------

    async def about(self) -> JsonObject:
        """Its metadata. Another issuer's is refused."""
        if self._about is None or self._now() - self._about[0] > KEPT_SECONDS:
            found = await self._json(f"{self.provider.issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self.provider.issuer:
                raise ProviderAway(f"{self.provider.issuer} says that it is {str(found.get('issuer'))[:200]}.")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                check_address(str(found.get(name) or ""), name)
            self._about = (self._now(), found)
        return self._about[1]

    async def _json(self, url: str) -> JsonObject:
        try:
            answer = await self._wire.get(url)
        except Exception as error:  # whatever the network does, the provider is away
            raise ProviderAway(f"{self.provider.shown} does not answer: {type(error).__name__}.") from error
        return self._object(answer)

    def _object(self, answer: Response) -> JsonObject:
        if answer.status_code != 200 or len(answer.content) > MAX_BYTES:
            raise ProviderAway(f"{self.provider.shown} answered with status {answer.status_code}.")
        try:
            return msgspec.json.decode(answer.content, type=dict[str, object])
        except msgspec.DecodeError as error:
            raise ProviderAway(f"{self.provider.shown} answered, and not with JSON.") from error

    async def _key_set(self, *, again: bool = False) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        age = None if self._keys is None else self._now() - self._keys[0]
        if self._keys is None or age is None or age > KEPT_SECONDS or (again and age > REFRESH_SECONDS):
            found = await self._json(str((await self.about())["jwks_uri"]))
            try:
                self._keys = (self._now(), KeySet.import_key_set(found))  # type: ignore[arg-type]  # refused there
            except (JoseError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise ProviderAway(f"{self.provider.shown} published no keys that can be read.") from error
        return self._keys[1]

    # -- the way there and back ---------------------------------------------------------------------------------------

    async def address(self, *, redirect: str, state: str, nonce: str, verifier: str) -> str:
        about = await self.about()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self.provider.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = str(about["authorization_endpoint"])
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def identity(self, *, code: str, issuer: str | None, redirect: str, nonce: str, verifier: str) -> Identity:
        """Who came back with this code. AccessDenied where anything about it is wrong."""
        about = await self.about()
        must_say = about.get("authorization_response_iss_parameter_supported") is True
        if (issuer is None and must_say) or (issuer is not None and issuer != self.provider.issuer):
            raise AccessDenied("The answer is not of the provider that was asked.")
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
        token = (await self._redeem(form)).get("id_token")
        if not isinstance(token, str):
            raise AccessDenied("The provider gave no token that says who it is.")
        return self._identity_in(await self.claims(token, nonce), token)

    async def _redeem(self, form: dict[str, str]) -> JsonObject:
        endpoint = str((await self.about())["token_endpoint"])
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._secret is None:
            form["client_id"] = self.provider.client_id
        else:
            pair = urlencode({self.provider.client_id: self._secret}).replace("=", ":", 1)
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            answer = await self._wire.post(endpoint, content=urlencode(form).encode(), headers=headers)
        except Exception as error:  # whatever the network does, the provider is away
            raise ProviderAway(f"{self.provider.shown} does not answer: {type(error).__name__}.") from error
        if answer.status_code in (400, 401):
            raise AccessDenied("The provider does not take that code: it was used, is too old, or is of another.")
        return self._object(answer)

    async def claims(self, token: str, nonce: str) -> JsonObject:
        """What the token says, if its signature and all that it has to say are right."""
        claims = await self._signed(token)
        now, provider = self._now(), self.provider
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != provider.issuer:
            raise AccessDenied("The token is of another provider.")
        if provider.client_id not in audiences or (len(audiences) > 1 and claims.get("azp") != provider.client_id):
            raise AccessDenied("The token is for somebody else than this desk.")
        if "azp" in claims and claims["azp"] != provider.client_id:
            raise AccessDenied("The token was given to somebody else than this desk.")
        if claims.get("nonce") != nonce:
            raise AccessDenied("The token is the answer to another log-in.")
        if _number(claims, "exp") + SKEW <= now or not now - OLDEST - SKEW <= _number(claims, "iat") <= now + SKEW:
            raise AccessDenied("The token is too old, or from the future: are the clocks right?")
        if "nbf" in claims and _number(claims, "nbf") > now + SKEW:
            raise AccessDenied("The token does not count yet.")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise AccessDenied("The token names nobody.")
        return claims

    async def _signed(self, token: str) -> JsonObject:
        from joserfc import jwt
        from joserfc.errors import JoseError

        problem: Exception | None = None
        for again in (False, True):  # a provider may have new keys since they were read
            try:
                return dict(jwt.decode(token, await self._key_set(again=again), algorithms=list(ALGORITHMS)).claims)
            except (JoseError, ValueError, TypeError, KeyError) as error:
                problem = error
        raise AccessDenied("The token's signature does not verify.") from problem

    def _identity_in(self, claims: JsonObject, token: str) -> Identity:
        said = claims.get(self.provider.groups_claim) if self.provider.groups_claim is not None else None
        groups = tuple(each for each in said if isinstance(each, str)) if isinstance(said, list) else None
        email = claims.get("email")
        return Identity(
            issuer=self.provider.issuer,
            subject=str(claims["sub"]),
            name=str(claims.get("preferred_username") or claims.get("name") or ""),
            email=email if isinstance(email, str) else "",
            is_verified=claims.get("email_verified") is True,
            groups=groups,
            id_token=token,
        )

    async def address_after(self, id_token: str, redirect: str) -> str | None:
        """Where a log-out at the desk ends the session at the provider, too; None: it has no such place."""
        endpoint = (await self.about()).get("end_session_endpoint")
        if not isinstance(endpoint, str):
            return None
        check_address(endpoint, "end_session_endpoint")
        query = {"id_token_hint": id_token, "post_logout_redirect_uri": redirect, "client_id": self.provider.client_id}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def check_address(url: str, what: str) -> None:
    """UserError unless it is https, or this machine's own."""
    parts = urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise UserError(f"A provider's {what} is an https address, not {url[:200]!r}.")


def _number(claims: JsonObject, name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AccessDenied(f"The token has no time {name!r}.")
    return float(value)
