"""What the front door leaves out on purpose, and why: said where somebody asks for it, as an ImportError in words."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from types import ModuleType

READ_MORE = "docs/porting.md lists what differs, and why."

_VOICE = "Placet has no voice and no realtime sessions: a call that waits for a person's yes is not spoken over"
_SANDBOX = "Placet has no sandboxes of its own: give an agent a ShellTool(executor) whose calls a person is asked about"
_WEBSOCKET = "Placet speaks to the Responses API over HTTP only"
_REGISTRATION = "Placet does not register agents with a provider"
_CUSTOM_DATA = "items carry no data of a tool's own: return it as part of the output, or keep it in your context"
_COMPUTERS = "give a ComputerTool the computer itself: who made it closes it"
_NOT_YET = "it is not in this version yet"
_OTHER_SESSIONS = "a session there is a class of your own with get_items, add_items, pop_item and clear_session"
_ANY_LLM = "for services that Placet does not speak to itself there is LitellmModel"
_CODEX = "the extensions that the SDK calls experimental are left out"

MODULES: dict[str, str] = {
    "realtime": _VOICE,
    "voice": _VOICE,
    "sandbox": _SANDBOX,
    "testing.sandbox": _SANDBOX,
    "extensions.sandbox": _SANDBOX,
    "extensions.experimental": _CODEX,
    "responses_websocket_session": _WEBSOCKET,
    "models.openai_agent_registration": _REGISTRATION,
    "models.reasoning_content_replay": _NOT_YET,
    "extensions.memory.dapr_session": _OTHER_SESSIONS,
    "extensions.memory.mongodb_session": _OTHER_SESSIONS,
    "extensions.memory.redis_session": _OTHER_SESSIONS,
    "extensions.models.any_llm_model": _ANY_LLM,
    "extensions.models.any_llm_provider": _ANY_LLM,
}
"""Modules of the SDK, by their path without its name."""

NAMES: dict[str, str] = {
    "ApplyPatchToolCustomDataContext": _CUSTOM_DATA,
    "ApplyPatchToolCustomDataExtractor": _CUSTOM_DATA,
    "ComputerToolCustomDataContext": _CUSTOM_DATA,
    "ComputerToolCustomDataExtractor": _CUSTOM_DATA,
    "CustomToolCustomDataContext": _CUSTOM_DATA,
    "CustomToolCustomDataExtractor": _CUSTOM_DATA,
    "FunctionToolCustomDataContext": _CUSTOM_DATA,
    "FunctionToolCustomDataExtractor": _CUSTOM_DATA,
    "DaprSession": _OTHER_SESSIONS,
    "MongoDBSession": _OTHER_SESSIONS,
    "RedisSession": _OTHER_SESSIONS,
    "AnyLLMModel": _ANY_LLM,
    "AnyLLMProvider": _ANY_LLM,
    "ComputerProvider": _COMPUTERS,
    "dispose_resolved_computers": _COMPUTERS,
    "resolve_computer": _COMPUTERS,
    "OutputGuardrailBlockedMessageArgs": _NOT_YET,
    "OutputGuardrailBlockedMessageFormatter": _NOT_YET,
    "MCPToolCustomDataContext": _CUSTOM_DATA,
    "MCPToolCustomDataExtractor": _CUSTOM_DATA,
    "MCPToolMetaContext": _NOT_YET,
    "MCPToolMetaResolver": _NOT_YET,
    "OpenAIAgentRegistrationConfig": _REGISTRATION,
    "responses_websocket_session": _WEBSOCKET,
    "set_default_openai_responses_transport": _WEBSOCKET,
    "sandbox": _SANDBOX,
    "OpenAIResponsesWSModel": _WEBSOCKET,
    "OpenAIResponsesWebSocketOptions": _WEBSOCKET,
    "ResponsesWebSocketSession": _WEBSOCKET,
    "SandboxRunConfig": _SANDBOX,
    "set_default_openai_agent_registration": _REGISTRATION,
    "set_default_openai_harness": _REGISTRATION,
}
"""Names of the SDK's own `__all__` and of its modules."""


def message(name: str, why: str) -> str:
    return f"placet.agents has no '{name}': {why}. {READ_MORE}"


class LeftOut(importlib.abc.MetaPathFinder):
    """`from placet.agents import realtime` (or a class) asks the import system last: here it is told why not."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        package, _, rest = fullname.partition("placet.agents.")
        if package or not rest:
            return
        why = MODULES.get(rest) or NAMES.get(rest.rpartition(".")[2])
        if why is not None:
            raise ModuleNotFoundError(message(rest, why))  # without a name: the import system passes over its own


def install() -> None:
    if not any(isinstance(each, LeftOut) for each in sys.meta_path):
        sys.meta_path.append(LeftOut())
