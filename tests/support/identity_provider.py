"""An identity provider on a port, which keeps to OpenID Connect, or breaks it where a test wants it to.

`provider.person` is who logs in there, at once and without a page. `provider.lies` changes what its tokens say.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from placet.desk.web.sockets import listen


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class IdentityProvider:
    def __init__(self, port: int) -> None:
        self.issuer = f"http://localhost:{port}"
        self.person: dict[str, Any] = {"sub": "1", "preferred_username": "ana", "email": "ana@acme.example"}
        self.lies: dict[str, Any] = {}
        """Claims that are said instead; None leaves one out."""
        self.way = ""
        """How a token is signed: `none`, `hmac`, `stranger`, or as it should be."""
        self.says_issuer: str | None = self.issuer
        self.is_away = False
        self.rotate()
        self._codes: dict[str, dict[str, str]] = {}

    def rotate(self) -> None:
        self.key = ECKey.generate_key("P-256", {"kid": f"k{time.monotonic_ns()}", "alg": "ES256", "use": "sig"})

    async def discovery(self, _request: Request) -> Response:
        if self.is_away:
            return Response("down", 502)
        here = {name: f"{self.issuer}/{name.partition('_')[0]}" for name in (
            "authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint",
        )}  # fmt: skip
        about = {"issuer": self.lies.get("issuer", self.issuer), **here}
        return JSONResponse(about | {"authorization_response_iss_parameter_supported": True})

    async def keys(self, _request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        back = {"code": code, "state": asked["state"]} | ({"iss": self.says_issuer} if self.says_issuer else {})
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 303)

    async def token(self, request: Request) -> Response:
        given = dict(parse_qsl((await request.body()).decode()))
        asked = self._codes.pop(given.get("code", ""), None)
        verifier = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        is_right = asked is not None and _text(verifier) == asked["code_challenge"]
        client = base64.b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode()
        if asked is None or not is_right or client != "desk:secret":
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": "desk",
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.person,
        }
        claims = {name: value for name, value in (claims | self.lies).items() if value is not None}
        return JSONResponse({"id_token": self._signed(claims), "token_type": "Bearer", "access_token": "x"})

    def _signed(self, claims: dict[str, Any]) -> str:
        match self.way:
            case "none":
                said = (_text(json.dumps(each).encode()) for each in ({"alg": "none"}, claims))
                return ".".join([*said, ""])
            case "hmac":  # with the public key as the secret: the old confusion
                header = {"alg": "HS256", "kid": self.key.kid}
                said = ".".join(_text(json.dumps(each).encode()) for each in (header, claims))
                secret = self.key.as_pem(private=False)
                return f"{said}.{_text(hmac.digest(secret, said.encode(), 'sha256'))}"
            case "stranger":
                stranger = ECKey.generate_key("P-256", {"kid": self.key.kid})
                return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, stranger)
            case _:
                return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, self.key)


@contextlib.asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    given = listen("127.0.0.1", 0)
    provider = IdentityProvider(given.getsockname()[1])
    routes = [
        Route("/.well-known/openid-configuration", provider.discovery),
        Route("/jwks", provider.keys),
        Route("/authorization", provider.authorize),
        Route("/token", provider.token, methods=["POST"]),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve([given]))
    try:
        yield provider
    finally:
        server.should_exit = True
        await serving
