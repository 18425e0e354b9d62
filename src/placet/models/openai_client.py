"""The client of the official `openai` package: one per event loop, its own retries off, its absence told in words.

A process may say once which key, client and API its models use.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from placet.facts.errors import UserError
from placet.models.shared_clients import shared_client

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_READ_BY_THE_CLIENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")


class Defaults:
    """What this process said once for all models that were given no client of their own."""

    key: str | None = None
    client: AsyncOpenAI | None = None
    use_responses: bool = True


defaults = Defaults()


def set_default_openai_key(key: str) -> None:
    """Use this key where a model was given no client, in the place of OPENAI_API_KEY."""
    defaults.key = key


def set_default_openai_client(client: AsyncOpenAI) -> None:
    """Use this client where a model was given none."""
    defaults.client = client


def set_default_openai_api(api: str) -> None:
    """Which API a bare name means: `responses` (as it is without this) or `chat_completions`."""
    if api not in ("responses", "chat_completions"):
        raise UserError(f"OpenAI's API is 'responses' or 'chat_completions', not {api!r}.")
    defaults.use_responses = api == "responses"


class OpenAIClient:
    """The client that a model was given, or the one that all models of this process and loop share."""

    def __init__(self, owner: str, given: AsyncOpenAI | None) -> None:
        self._owner = owner
        self._given = given.with_options(max_retries=0) if given is not None else None

    async def get(self) -> AsyncOpenAI:
        if self._given is not None:
            return self._given
        if defaults.client is not None:
            return defaults.client.with_options(max_retries=0)
        settings = (defaults.key, *(os.environ.get(name) for name in _READ_BY_THE_CLIENT))
        return await shared_client(("openai", *settings), lambda: _made(self._owner))


def _made(owner: str) -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI, OpenAIError
    except ModuleNotFoundError as error:
        raise UserError(f"{owner} needs an extra that is not installed: pip install 'placet[openai]'.") from error
    try:
        return AsyncOpenAI(api_key=defaults.key, max_retries=0)
    except OpenAIError as error:
        raise UserError(
            f"{owner} needs a key: set OPENAI_API_KEY, or pass openai_client=AsyncOpenAI(api_key=…)."
        ) from error
