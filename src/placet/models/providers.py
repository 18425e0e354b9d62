"""Providers of models: from a name to a model, for a run (`RunConfig(model_provider=…)`) or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from placet.facts.errors import UserError
from placet.models.default_models import get_default_model
from placet.models.openai_client import defaults
from placet.ports import Model, ModelProvider

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PrefixMode = Literal["alias", "model_id"]
UnknownPrefixMode = Literal["error", "model_id"]


class OpenAIProvider:
    """OpenAI's models, or those of any server that speaks its API."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        organization: str | None = None,
        project: str | None = None,
        use_responses: bool | None = None,
        use_responses_websocket: bool | None = None,
    ) -> None:
        if use_responses_websocket:
            raise UserError("Responses over a WebSocket are not offered: leave use_responses_websocket out.")
        if openai_client is not None and (api_key is not None or base_url is not None):
            raise UserError("OpenAIProvider takes an openai_client, or an api_key and a base_url, not both.")
        self._given = openai_client
        self._settings = {"api_key": api_key, "base_url": base_url, "organization": organization, "project": project}
        self._use_responses = use_responses

    def get_model(self, model_name: str | None) -> Model:
        """The model with this name; None: the default one. The whole name is OpenAI's, slashes too."""
        from placet.models import OpenAIChatCompletionsModel, OpenAIResponsesModel

        name = model_name if model_name is not None else get_default_model()
        uses_responses = defaults.use_responses if self._use_responses is None else self._use_responses
        kind = OpenAIResponsesModel if uses_responses else OpenAIChatCompletionsModel
        return kind(name, self._client())

    def _client(self) -> AsyncOpenAI | None:
        """A client of this provider's own, if it was told anything; otherwise the process' own is used."""
        if self._given is None and any(self._settings.values()):
            try:
                from openai import AsyncOpenAI
            except ModuleNotFoundError as error:
                raise UserError("OpenAIProvider needs an extra: pip install 'placet[openai]'.") from error
            given = {name: value for name, value in self._settings.items() if value is not None}
            self._given = AsyncOpenAI(**{"api_key": defaults.key, **given})  # type: ignore[arg-type]  # texts by name
        return self._given

    async def aclose(self) -> None:
        """Let the provider's own client go."""
        if self._given is not None and any(self._settings.values()):
            await self._given.close()
            self._given = None


class MultiProvider:
    """Several providers, distinguished by the word before the slash: `openai/gpt-5`, `litellm/…`, or one of your
    own."""

    def __init__(
        self,
        *,
        provider_map: Mapping[str, ModelProvider] | MultiProviderMap | None = None,
        openai_api_key: str | None = None,
        openai_base_url: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        openai_organization: str | None = None,
        openai_project: str | None = None,
        openai_use_responses: bool | None = None,
        openai_use_responses_websocket: bool | None = None,
        openai_prefix_mode: PrefixMode = "alias",
        unknown_prefix_mode: UnknownPrefixMode = "error",
    ) -> None:
        if openai_prefix_mode not in ("alias", "model_id") or unknown_prefix_mode not in ("error", "model_id"):
            raise UserError(
                "MultiProvider: openai_prefix_mode is 'alias' or 'model_id', unknown_prefix_mode 'error' or 'model_id'."
            )
        self.provider_map = provider_map
        self.openai_provider = OpenAIProvider(
            api_key=openai_api_key,
            base_url=openai_base_url,
            openai_client=openai_client,
            organization=openai_organization,
            project=openai_project,
            use_responses=openai_use_responses,
            use_responses_websocket=openai_use_responses_websocket,
        )
        self._openai_prefix_mode = openai_prefix_mode
        self._unknown_prefix_mode = unknown_prefix_mode

    def get_model(self, model_name: str | None) -> Model:
        """The model that the prefix leads to: your providers first, then OpenAI's, then those that Placet knows."""
        prefix, slash, rest = (model_name or "").partition("/")
        own = self._own(prefix) if slash else None
        if own is not None:
            return own.get_model(rest)
        if model_name is None or not slash:
            return self.openai_provider.get_model(model_name)
        if prefix == "openai":
            return self.openai_provider.get_model(rest if self._openai_prefix_mode == "alias" else model_name)
        return self._elsewhere(prefix, model_name)

    def _own(self, prefix: str) -> ModelProvider | None:
        if isinstance(self.provider_map, MultiProviderMap):
            return self.provider_map.get_provider(prefix)
        return (self.provider_map or {}).get(prefix)

    def _elsewhere(self, prefix: str, model_name: str) -> Model:
        from placet.models.naming import known_providers, resolve

        if prefix in known_providers():
            return resolve(model_name)
        if self._unknown_prefix_mode == "model_id":
            return self.openai_provider.get_model(model_name)
        raise UserError(
            f"Unknown prefix: {prefix}. There are {', '.join(known_providers())}; add yours to the provider_map."
        )

    async def aclose(self) -> None:
        await self.openai_provider.aclose()


class MultiProviderMap:
    """Which provider a prefix means."""

    def __init__(self) -> None:
        self._mapping: dict[str, ModelProvider] = {}

    def has_prefix(self, prefix: str) -> bool:
        return prefix in self._mapping

    def get_mapping(self) -> dict[str, ModelProvider]:
        return dict(self._mapping)

    def set_mapping(self, mapping: Mapping[str, ModelProvider]) -> None:
        self._mapping = dict(mapping)

    def get_provider(self, prefix: str) -> ModelProvider | None:
        return self._mapping.get(prefix)

    def add_provider(self, prefix: str, provider: ModelProvider) -> None:
        self._mapping[prefix] = provider

    def remove_provider(self, prefix: str) -> None:
        del self._mapping[prefix]
