"""The default client and key, as the SDK sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placet.models import openai_client

if TYPE_CHECKING:  # its SDK is loaded when a model is asked
    from openai import AsyncOpenAI


def set_default_openai_client(client: AsyncOpenAI, use_for_tracing: bool = True) -> None:
    """`use_for_tracing` says nothing here: no trace is sent to OpenAI."""
    openai_client.set_default_openai_client(client)


def set_default_openai_key(key: str, use_for_tracing: bool = True) -> None:
    """As above."""
    openai_client.set_default_openai_key(key)
