"""The SDK's protocol of models: a model or provider written for it works here as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from placet import Model as NativeModel
from placet.agents.models._bridge import Bridge, ModelTracing


class Model(ABC):
    """The base of models that take a request argument by argument. Placet's own protocol (`placet.Model`) has one
    request object; what is written for that works too, without a base."""

    async def close(self) -> None:  # noqa: B027  # may be left as it is
        """Let go what the model holds open."""

    def get_retry_advice(self, request: Any) -> Any:
        """What the model knows about trying a failed request again."""
        return None

    @abstractmethod
    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: Any | None,
    ) -> Any:
        """The whole answer."""

    @abstractmethod
    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: Any | None,
    ) -> AsyncIterator[Any]:
        """The answer as events of the Responses API; the last one holds the whole."""

    def as_placet_model(self) -> NativeModel:
        return Bridge(self)


class ModelProvider(ABC):
    """The base of providers of one's own."""

    @abstractmethod
    def get_model(self, model_name: str | None) -> Any:
        """The model with this name; None: the provider's default."""

    async def aclose(self) -> None:  # noqa: B027  # may be left as it is
        """Let go what the provider holds open."""


__all__ = ["Model", "ModelProvider", "ModelTracing"]
