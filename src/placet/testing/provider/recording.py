"""What arrived at the provider, kept for assertions, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

Api: TypeAlias = Literal["responses", "conversations", "chat", "messages", "unknown"]

SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
HIDDEN = "…"


@dataclass(slots=True)
class ProviderRequest:
    """One request as it came. A step that is a function gets it too."""

    method: str
    path: str
    """Without a leading /v1."""
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """Names in lower case; of secrets only the name."""
    body: Any = None  # Any: the JSON of the request; bytes if it was none
    api: Api = "unknown"
    status: int | None = None
    """What it was answered with; None if nothing was."""
    refusal: str | None = None
    """Why it was refused, if a rule of the service forbids it."""

    @property
    def is_streamed(self) -> bool:
        return isinstance(self.body, dict) and self.body.get("stream") is True

    @property
    def input(self) -> list[Any]:
        """What the request brings: `input`, `messages` or `items`, whatever its API calls it."""
        if not isinstance(self.body, dict):
            return []
        found = next((self.body[name] for name in ("input", "messages", "items") if name in self.body), None)
        if isinstance(found, str):
            return [{"role": "user", "content": found}]
        return found if isinstance(found, list) else []


def recorded(method: str, target: str, headers: Mapping[str, str], body: Any) -> ProviderRequest:
    url = urlsplit(target)
    path = "/" + url.path.strip("/")
    path = path.removeprefix("/v1") if path.startswith("/v1/") else path
    shown = {name.lower(): HIDDEN if name.lower() in SECRET_HEADERS else value for name, value in headers.items()}
    return ProviderRequest(method, path, parse_qs(url.query), shown, body, _api_of(path))


def _api_of(path: str) -> Api:
    match path.split("/")[1:]:
        case ["responses", *_]:
            return "responses"
        case ["conversations", *_]:
            return "conversations"
        case ["chat", "completions", *_]:
            return "chat"
        case ["messages", *_]:
            return "messages"
        case _:
            return "unknown"
