"""Tools that the model's provider runs itself: declared here and passed on as they are. Where it asks before it calls a
tool of an MCP server, that call is decided like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

import msgspec

from placet.core.calls import HOSTED_MCP, hosted_identity
from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import FunctionTool
from placet.facts.codec import JsonObject, NotPlain, canonical, plain
from placet.facts.errors import UserError

_ASKS_OUR_PROGRAM = frozenset(
    {"apply_patch", "computer", "computer_use_preview", "custom", "function", "local_shell", "namespace", "shell"}
)
"""Kinds of tools whose calls the provider wants answered by the program that asked it."""
_INSTEAD = {
    "shell": "declare placet.tools.ShellTool(executor, native=True)",
    "local_shell": "declare placet.tools.LocalShellTool(executor)",
    "computer": "declare placet.tools.ComputerTool(computer)",
    "computer_use_preview": "declare placet.tools.ComputerTool(computer)",
    "apply_patch": "declare placet.tools.ApplyPatchTool(editor, native=True)",
    "custom": "declare placet.tools.CustomTool(name, description, function)",
}


def _is_elsewhere(config: object) -> bool:
    """Whether the commands of a shell run in a container of the provider's."""
    environment = config.get("environment") if isinstance(config, Mapping) else None
    kind = environment.get("type") if isinstance(environment, Mapping) else None
    return kind in ("container_auto", "container_reference")


@dataclass(eq=False)
class HostedTool:
    """A tool of the provider's, in the provider's own words: `HostedTool({"type": "web_search"})`."""

    tool_config: Mapping[str, Any]

    def __post_init__(self) -> None:
        self._check(self.tool_config)

    @staticmethod
    def _check(config: object) -> None:
        kind = config.get("type") if isinstance(config, Mapping) else None
        if not isinstance(kind, str) or not kind:
            raise UserError(f"A hosted tool is declared by a mapping with a 'type', not by {config!r}.")
        if kind in _ASKS_OUR_PROGRAM and not (kind == "shell" and _is_elsewhere(config)):
            instead = _INSTEAD.get(kind, "make a function of it with @function_tool")
            raise UserError(f"The provider does not run tools of the type '{kind}' itself: {instead}.")

    @property
    def name(self) -> str:
        return str(self.declaration["type"])

    @property
    def declaration(self) -> JsonObject:
        """What the provider gets."""
        try:
            found = plain(dict(self.tool_config), "tool_config")
        except NotPlain as error:
            raise UserError(f"The declaration of a hosted tool must be plain JSON: {error}.") from error
        assert isinstance(found, dict)
        return found

    @property
    def include(self) -> Sequence[str]:
        """Parts of the response that have to be asked for."""
        return ()


@dataclass(eq=False)
class WebSearchTool(HostedTool):
    """The provider searches the web."""

    user_location: Mapping[str, Any] | None = None
    filters: Mapping[str, Any] | None = None
    search_context_size: Literal["low", "medium", "high"] = "medium"
    external_web_access: bool | None = None
    """False: only what the provider has kept of the web."""
    search_content_types: Sequence[Literal["text", "image"]] | None = None
    image_settings: Mapping[str, Any] | None = None
    tool_config: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        kinds = None if self.search_content_types is None else list(self.search_content_types)
        given = {
            "user_location": self.user_location,
            "filters": self.filters,
            "external_web_access": self.external_web_access,
            "search_content_types": kinds,
            "image_settings": self.image_settings,
        }
        self.tool_config = {
            "type": "web_search",
            "search_context_size": self.search_context_size,
            **_given(given),
        }
        super().__post_init__()


@dataclass(eq=False)
class FileSearchTool(HostedTool):
    """The provider searches its vector stores."""

    vector_store_ids: list[str] = field(default_factory=list)
    max_num_results: int | None = None
    include_search_results: bool = False
    ranking_options: Mapping[str, Any] | None = None
    filters: Mapping[str, Any] | None = None
    tool_config: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.vector_store_ids:
            raise UserError("FileSearchTool needs vector_store_ids=['vs_…'].")
        given = {
            "max_num_results": self.max_num_results,
            "ranking_options": self.ranking_options,
            "filters": self.filters,
        }
        self.tool_config = {"type": "file_search", "vector_store_ids": list(self.vector_store_ids), **_given(given)}
        super().__post_init__()

    @property
    def include(self) -> Sequence[str]:
        return ("file_search_call.results",) if self.include_search_results else ()


class CodeInterpreterTool(HostedTool):
    """The provider runs code: `CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}})`."""


class ImageGenerationTool(HostedTool):
    """The provider makes images: `ImageGenerationTool({"type": "image_generation"})`."""


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


# -- MCP servers that the provider talks to ---------------------------------------------------------------------------


class MCPApprovalRequest(msgspec.Struct, frozen=True):
    """The provider asks: may I call this tool of this server with these arguments?"""

    id: str
    server_label: str
    name: str
    arguments: str


class MCPToolApprovalRequest(msgspec.Struct, frozen=True):
    """What an `on_approval_request` function is given."""

    ctx_wrapper: RunContextWrapper[Any]
    data: MCPApprovalRequest


class MCPToolApprovalFunctionResult(TypedDict):
    """What it answers: `{"approve": True}`, or `{"approve": False, "reason": "…"}`."""

    approve: bool
    reason: NotRequired[str]


MCPToolApprovalFunction: TypeAlias = Callable[
    [MCPToolApprovalRequest], MCPToolApprovalFunctionResult | Awaitable[MCPToolApprovalFunctionResult]
]


@dataclass(eq=False)
class HostedMCPTool(HostedTool):
    """An MCP server that the provider talks to. Where `require_approval` wants it, a person is asked before a call.

    `on_approval_request` decides in code; anything that it answers but an explicit yes or no asks a person.
    """

    on_approval_request: MCPToolApprovalFunction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tool_config.get("type") != "mcp":
            raise UserError(f"HostedMCPTool declares a tool of the type 'mcp', not {self.tool_config.get('type')!r}.")
        if not isinstance(self.tool_config.get("server_label"), str) or not self.tool_config["server_label"]:
            raise UserError("HostedMCPTool needs a server_label, by which approvals and grants know the server.")
        _check_require_approval(self.server_label, self.tool_config.get("require_approval", "always"))
        if self.on_approval_request is not None and not callable(self.on_approval_request):
            raise UserError(f"on_approval_request is a function, not {self.on_approval_request!r}.")

    @property
    def server_label(self) -> str:
        return str(self.tool_config["server_label"])

    def callable_named(self, name: str) -> HostedMCPCallable:
        """One tool of the server, as approvals know it: by server and name, and by where the server is."""
        return HostedMCPCallable(self, name)


class HostedMCPCallable(FunctionTool):
    """A tool of an MCP server that the provider calls, once it may."""

    kind = HOSTED_MCP

    def __init__(self, server: HostedMCPTool, name: str) -> None:
        where = [server.tool_config.get("server_url"), server.tool_config.get("connector_id")]
        super().__init__(
            name=name,
            description="",
            params_json_schema={},
            on_invoke_tool=_runs_elsewhere,
            needs_approval=True,
            version=canonical(where).decode(),
        )
        self.server_label = server.server_label
        self.decide = server.on_approval_request

    @property
    def identity(self) -> str:
        return hosted_identity(self.server_label, self.name)


def _check_require_approval(label: str, given: object) -> None:
    """A misspelt rule would be the provider's to interpret: it is refused here."""
    if given in ("always", "never"):
        return
    if not isinstance(given, Mapping) or not given or set(given) - {"always", "never"}:
        raise UserError(
            f"The MCP server '{label}': require_approval is 'always', 'never' or "
            f"{{'always': {{'tool_names': […]}}, 'never': {{'tool_names': […]}}}}, not {given!r}."
        )
    for word, chosen in given.items():
        names = chosen.get("tool_names", []) if isinstance(chosen, Mapping) else None
        is_rule = isinstance(chosen, Mapping) and bool(chosen) and not set(chosen) - {"tool_names", "read_only"}
        if not is_rule or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError(
                f"The MCP server '{label}': require_approval['{word}'] is {{'tool_names': […]}} or "
                f"{{'read_only': True}}, not {chosen!r}."
            )


async def _runs_elsewhere(_ctx: ToolContext[Any], _arguments: str) -> object:
    raise UserError("A tool of a hosted MCP server is called by the model's provider, not from here.")
