"""What a run produced, as its users see it: items with the agent that made them, and the model's responses.

A raw item is a plain dict in the shape of the Responses API (or, where the item was made by hand, an object of the
`openai` package). Fields and item types that we do not know are kept as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from placet.facts.codec import JsonObject, plain_item
from placet.facts.events import Usage, VoteCast
from placet.facts.native_items import NATIVE, asked_in
from placet.facts.requirements import Requirement


class Named(Protocol):
    """All that an item needs of its agent."""

    @property
    def name(self) -> str: ...


def field_of(raw_item: object, name: str) -> Any:  # Any: whatever the provider put there
    """A field of a raw item, whether it is a dict or an object."""
    return raw_item.get(name) if isinstance(raw_item, dict) else getattr(raw_item, name, None)


def _text_field(raw_item: object, name: str) -> str | None:
    found = field_of(raw_item, name)
    return found if isinstance(found, str) else None


def _asked_in(raw_item: object) -> tuple[str | None, str | None]:
    """The tool and the arguments of a call that its provider wrote as an item of its own kind."""
    if _text_field(raw_item, "type") not in NATIVE:
        return None, None
    return asked_in(plain_item(raw_item))[:2]


def _hosted_name(raw_item: object) -> str | None:
    kind = _text_field(raw_item, "type")
    return kind.removesuffix("_call") if kind is not None and kind.endswith("_call") else kind


class ToolOriginType(StrEnum):
    """Where a tool came from."""

    FUNCTION = "function"
    MCP = "mcp"
    AGENT_AS_TOOL = "agent_as_tool"


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """Where the tool of a call came from: a function of the program, an MCP server, an agent behind a tool."""

    type: ToolOriginType
    mcp_server_name: str | None = None
    agent_name: str | None = None
    agent_tool_name: str | None = None


@dataclass(eq=False, repr=False)
class Item:
    """The base of all items of a run."""

    agent: Named
    raw_item: Any  # Any: a dict of ours, or an object of another's
    type: ClassVar[str] = "item"

    def to_input_item(self) -> JsonObject:
        """The item as a model reads it."""
        return plain_item(self.raw_item)

    def __getitem__(self, name: str) -> Any:
        """A field of the raw item: an item reads like the dict that it stands for."""
        return self.raw_item[name] if isinstance(self.raw_item, dict) else getattr(self.raw_item, name)

    def get(self, name: str, default: Any = None) -> Any:
        found = field_of(self.raw_item, name)
        return default if found is None else found

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agent={self.agent.name!r}, raw_item={self.raw_item!r})"


class MessageOutputItem(Item):
    """A message of the model."""

    type: ClassVar[str] = "message_output_item"

    @property
    def text(self) -> str:
        return text_of(self.to_input_item())

    @property
    def refusal(self) -> str | None:
        """What the model said instead of answering, where it refused to."""
        return refusal_of(self.to_input_item())


class ReasoningItem(Item):
    """What the model thought, as far as its provider shows it."""

    type: ClassVar[str] = "reasoning_item"


@dataclass(eq=False, repr=False)
class CallItem(Item):
    """The base of all items by which a model asks for something to be done."""

    id: str = ""
    """Our id of the call; empty on an item made by hand."""
    tool_origin: ToolOrigin | None = None
    """Where the tool came from, as far as this process knows it."""

    @property
    def name(self) -> str | None:
        return _text_field(self.raw_item, "name")

    @property
    def tool_name(self) -> str | None:
        """The name of the tool; of one that the provider runs itself, what kind of call it is."""
        found = self.name
        return found if found is not None else _hosted_name(self.raw_item)

    @property
    def call_id(self) -> str | None:
        """The provider's label."""
        return _text_field(self.raw_item, "call_id")


class ToolCallItem(CallItem):
    """The model called a tool."""

    type: ClassVar[str] = "tool_call_item"


@dataclass(eq=False, repr=False)
class CallOutputItem(Item):
    """The base of all items that answer such a one."""

    output: Any = None  # Any: what the tool returned
    id: str = ""
    tool_origin: ToolOrigin | None = None

    @property
    def call_id(self) -> str | None:
        is_program = _text_field(self.raw_item, "type") == "local_shell_call_output"
        return _text_field(self.raw_item, "id" if is_program else "call_id")


class ToolCallOutputItem(CallOutputItem):
    """What the model reads of a call that has ended."""

    type: ClassVar[str] = "tool_call_output_item"


class HandoffCallItem(CallItem):
    """The model asked to hand over."""

    type: ClassVar[str] = "handoff_call_item"


@dataclass(eq=False, repr=False)
class HandoffOutputItem(Item):
    """The conversation went from one agent to another."""

    source_agent: Named | None = None
    target_agent: Named | None = None
    type: ClassVar[str] = "handoff_output_item"


class MCPApprovalRequestItem(CallItem):
    """The provider asks whether it may call a tool of an MCP server."""

    type: ClassVar[str] = "mcp_approval_request_item"

    @property
    def call_id(self) -> str | None:
        return _text_field(self.raw_item, "id")

    @property
    def server_label(self) -> str | None:
        return _text_field(self.raw_item, "server_label")


class MCPApprovalResponseItem(CallOutputItem):
    """What the provider gets: it may, or it may not."""

    type: ClassVar[str] = "mcp_approval_response_item"

    @property
    def call_id(self) -> str | None:
        return _text_field(self.raw_item, "approval_request_id")


class MCPListToolsItem(Item):
    """The provider asked an MCP server for its tools."""

    type: ClassVar[str] = "mcp_list_tools_item"


class ToolSearchCallItem(Item):
    """The model looked for tools."""

    type: ClassVar[str] = "tool_search_call_item"


class ToolSearchOutputItem(Item):
    """The tools that the model found."""

    type: ClassVar[str] = "tool_search_output_item"


class CompactionItem(Item):
    """What the provider made of an earlier part of the conversation, to keep it short."""

    type: ClassVar[str] = "compaction_item"


class OtherItem(Item):
    """An item type that Placet has no name for: kept, sent back, and shown as it is."""

    type: ClassVar[str] = "other_item"


@dataclass(eq=False, repr=False)
class ToolApprovalItem(Item):
    """What a person is asked about: one call, as it would run."""

    tool_name: str | None = None
    item_type: InitVar[str] = "tool_approval_item"
    """The type, for programs that give it by its place: it is always this one."""
    id: str = field(default="", kw_only=True)
    """Our id of the call: decisions find it by this. Empty on an item made by hand."""
    kind: Literal["approval", "in_doubt", "mcp_approval", "elicitation"] = field(default="approval", kw_only=True)
    """`mcp_approval`: the model's provider would call the tool, on an MCP server; it can be approved or rejected.
    `elicitation`: the call runs, and asks for input."""
    request_id: str = field(default="", kw_only=True)
    """The id of the question: a changed or in-doubt call is asked about again, under a new one."""
    digest: str = field(default="", kw_only=True)
    agent_path: str = field(default="", kw_only=True)
    why: str | None = field(default=None, kw_only=True)
    """Why a person is asked, where it is not simply the tool's rule."""
    proposed_arguments: str | None = field(default=None, kw_only=True)
    """What the model wrote, where validation filled in or changed something; else None."""
    questions: dict[str, JsonObject] | None = field(default=None, kw_only=True)
    """Of an elicitation: what the running call wants to know, by key. `respond` answers."""
    tool_namespace: str | None = field(default=None, kw_only=True)
    """The group of tools that the tool is in, where its model knows groups."""
    requirement: Requirement | None = field(default=None, kw_only=True)
    """What is needed before it is decided; None: one word of anybody who may decide it."""
    votes: tuple[VoteCast, ...] = field(default=(), kw_only=True)
    """What people voted: in the log, and on this state."""
    missing: int | None = field(default=None, kw_only=True)
    """How many approvals are missing at least. None: nobody can tell here, because it depends on people whom only the
    store knows, or on a condition."""
    type: ClassVar[str] = "tool_approval_item"

    def __post_init__(self, item_type: str) -> None:
        if self.tool_name is None:
            self.tool_name = _text_field(self.raw_item, "name") or _asked_in(self.raw_item)[0]
        if self.tool_namespace is None:
            self.tool_namespace = _text_field(self.raw_item, "namespace")

    @property
    def qualified_name(self) -> str | None:
        """The tool's name with that of its group before it."""
        group, name = self.tool_namespace, self.tool_name
        is_inside = group and name and group != name and not name.startswith(f"{group}.")
        return f"{group}.{name}" if is_inside else name

    @property
    def name(self) -> str | None:
        return self.tool_name

    @property
    def arguments(self) -> str | None:
        """The arguments that would run: a JSON text. As the model wrote them, where validation left them alone."""
        found = _text_field(self.raw_item, "arguments")
        return found if found is not None else _asked_in(self.raw_item)[1]

    @property
    def call_id(self) -> str | None:
        """The provider's label; it may be missing, or stand on several calls."""
        return _text_field(self.raw_item, "call_id") or _text_field(self.raw_item, "id")

    @property
    def server_label(self) -> str | None:
        """The MCP server on which the provider would call the tool; None for a function of ours."""
        return _text_field(self.raw_item, "server_label") if self.kind == "mcp_approval" else None


RunItem: TypeAlias = (
    MessageOutputItem
    | ReasoningItem
    | ToolCallItem
    | ToolCallOutputItem
    | HandoffCallItem
    | HandoffOutputItem
    | MCPApprovalRequestItem
    | MCPApprovalResponseItem
    | MCPListToolsItem
    | ToolSearchCallItem
    | ToolSearchOutputItem
    | CompactionItem
    | OtherItem
    | ToolApprovalItem
)


_HOSTED_CALLS = ("code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call", "web_search_call")
"""Calls of tools that the provider runs itself: they come with their results."""
_BY_KIND: dict[str, type[RunItem]] = {
    "message": MessageOutputItem,
    "reasoning": ReasoningItem,
    "compaction": CompactionItem,
    "function_call": ToolCallItem,
    "function_call_output": ToolCallOutputItem,
    "mcp_list_tools": MCPListToolsItem,
    "tool_search_call": ToolSearchCallItem,
    "tool_search_output": ToolSearchOutputItem,
    **dict.fromkeys(_HOSTED_CALLS, ToolCallItem),
    **dict.fromkeys(NATIVE, ToolCallItem),
    **{native.output: ToolCallOutputItem for native in NATIVE.values()},
}


def as_run_item(agent: Named, item: JsonObject) -> RunItem:
    """What a raw item is, by its type alone."""
    kind = item.get("type") or ("message" if item.get("role") == "assistant" else "")
    return _BY_KIND.get(str(kind), OtherItem)(agent, RawItem(item))


@dataclass(slots=True)
class ModelResponse:
    """What a model answered to one request."""

    output: list[Any]  # Any: dicts, or objects of the `openai` package
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None
    request_id: str | None = None
    """The provider's own name for the request: its support asks for it."""
    incomplete: str | None = None
    """Why the answer was cut short, as half a sentence («it reached …»); None: it is whole."""

    def to_input_items(self) -> list[JsonObject]:
        return [plain_item(item) for item in self.output]


def text_of(item: JsonObject) -> str:
    """The text of a message: its output_text (or text) parts joined; a refusal counts as text."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(_part_text(part) for part in content if isinstance(part, dict))


def _part_text(part: JsonObject) -> str:
    found = part.get("text") if part.get("text") is not None else part.get("refusal")
    return found if isinstance(found, str) else ""


def refusal_of(item: JsonObject) -> str | None:
    """The text of a message's refusal, or None when it holds none."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    found = [part.get("refusal") for part in parts if isinstance(part, dict) and part.get("type") == "refusal"]
    return "".join(text for text in found if isinstance(text, str)) if found else None


def final_text(output: Sequence[JsonObject]) -> str | None:
    """The text of the last message of a response, or None when it holds no message."""
    messages = [item for item in output if item.get("type") == "message"]
    return text_of(messages[-1]) if messages else None


class RawItem(dict[str, Any]):
    """A plain dict whose keys are attributes as well. What is inside of it is wrapped when it is looked at."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return readable(self[name])
        except KeyError:
            raise AttributeError(f"this item has no field {name!r}; it has {', '.join(self)}") from None

    def model_dump(self, **_options: object) -> dict[str, Any]:
        """The item as a plain dict: the spelling of the `openai` package's objects."""
        return dict(self)


def readable(value: Any) -> Any:  # Any: whatever a provider put into an item
    """A value of an item, with what is a dict in it readable as an object."""
    if isinstance(value, RawItem):
        return value
    if isinstance(value, dict):
        return RawItem(value)
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        return [readable(each) for each in value]
    return value
