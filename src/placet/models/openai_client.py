"""The client of the official `openai` package: one per event loop, its own retries off, its absence told in words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from placet.facts.errors import UserError
from placet.models.shared_clients import shared_client

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_READ_BY_THE_CLIENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")


class OpenAIClient:
    """The client that a model was given, or the one that all models of this process and loop share."""

    def __init__(self, owner: str, given: AsyncOpenAI | None) -> None:
        self._owner = owner
        self._given = given.with_options(max_retries=0) if given is not None else None

    async def get(self) -> AsyncOpenAI:
        if self._given is not None:
            return self._given
        settings = tuple(os.environ.get(name) for name in _READ_BY_THE_CLIENT)
        return await shared_client(("openai", *settings), lambda: _made(self._owner))


def _made(owner: str) -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI, OpenAIError
    except ModuleNotFoundError as error:
        raise UserError(f"{owner} needs an extra that is not installed: pip install 'placet[openai]'.") from error
    try:
        return AsyncOpenAI(max_retries=0)
    except OpenAIError as error:
        raise UserError(
            f"{owner} needs a key: set OPENAI_API_KEY, or pass openai_client=AsyncOpenAI(api_key=…)."
        ) from error
