"""What pages say of single sign-on: the buttons, and the way out at the provider."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from starlette.requests import Request

from placet.desk.web.context import Web, web_of
from placet.facts.errors import PlacetError


def home_of(next_path: str) -> str:
    """Where to go after signing in: a place at this desk, never elsewhere."""
    is_ours = next_path.startswith("/") and not next_path.startswith(("//", "/\\")) and "\\" not in next_path
    return next_path if is_ours and next_path.isprintable() else "/inbox"


async def address_after_log_out(request: Request, kept: str | None) -> str | None:
    """Where a person ends the session at their provider, too, if this one came from there."""
    web = web_of(request)
    if kept is None:
        return None
    said = msgspec.json.decode(kept, type=dict[str, str])
    client = web.sso.get(said.get("name", ""))
    public = web.settings.public_url or f"{request.url.scheme}://{request.url.netloc}"
    try:
        return None if client is None else await client.address_after(said["id_token"], f"{public.rstrip('/')}/login")
    except PlacetError:  # the provider is away: the desk's own session has ended all the same
        return None


def links(web: Web, following: str, invitation: str = "") -> list[tuple[str, str]]:
    """Names and addresses of the buttons."""
    given = {"next": following} | ({"key": invitation} if invitation else {})
    return [(client.provider.shown, f"/login/sso/{name}?{urlencode(given)}") for name, client in web.sso.items()]
