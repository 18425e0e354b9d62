"""Agents: declarations that hold no run state. The same agent may be in any number of runs at once."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar

import msgspec

from placet.core.state import Call
from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.guardrail import InputGuardrail, OutputGuardrail
from placet.declare.handoff import Handoff, handoff
from placet.declare.hosted_tools import HostedMCPTool, HostedTool
from placet.declare.lifecycle import AgentHooks, RunHooks
from placet.declare.output_schema import OutputSchema
from placet.declare.prompts import DynamicPromptFunction, Prompt, prompt_of
from placet.declare.tool import (
    ApprovalRule,
    EnabledRule,
    FailureText,
    FunctionTool,
    Tool,
    default_tool_error_function,
    escaped,
    fingerprint_of,
    if_of_kind,
)
from placet.declare.tool_schema import strict_schema
from placet.declare.tool_values import InvalidArguments, ValidatedArguments, WholeType
from placet.declare.toolset import name_apart
from placet.facts.checks import (
    COUNT,
    FLAG,
    FUNCTION,
    MODEL,
    NAME,
    TEXT,
    TYPE,
    Kind,
    check,
    having,
    instance_of,
    optional,
    sequence_of,
)
from placet.facts.codec import Json, JsonObject, encode, plain_str
from placet.facts.errors import UserError
from placet.facts.model_settings import ModelSettings
from placet.ports import Model, Toolset

T = TypeVar("T")
_OUTPUT_TYPE = Kind(
    "a type that pydantic knows, an OutputSchema, or None",
    lambda value: value is None or isinstance(value, OutputSchema) or TYPE.fits(value),
)
_PROMPT = Kind(
    "a dict with the id of a prompt, a function that gives one, or None",
    lambda value: value is None or callable(value) or isinstance(value, dict),
)


class StopAtTools(TypedDict):
    """The run ends with the output of the first of these tools that the model called."""

    stop_at_tool_names: list[str]


class FunctionToolResult(msgspec.Struct, frozen=True):
    """A call of the turn and its output, for a `tool_use_behavior` function."""

    tool: Tool | None
    tool_name: str
    output: Any
    was_run: bool
    """False for a call that was rejected, answered, denied, expired or superseded: its tool function never ran."""


class ToolsToFinalOutputResult(msgspec.Struct, frozen=True):
    """What a `tool_use_behavior` function says: is this the end, and with which output?"""

    is_final_output: bool
    final_output: Any = None


ToolUseBehavior: TypeAlias = (
    Literal["run_llm_again", "stop_on_first_tool"]
    | StopAtTools
    | Callable[
        [RunContextWrapper[Any], list[FunctionToolResult]],
        ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult],
    ]
)


class AgentToolStreamEvent(TypedDict):
    """What `as_tool(on_stream=…)` is told: an event of the nested run, whose it is, and in which call it happened."""

    event: Any
    agent: Agent[Any]
    tool_call: Any


class MCPConfig(TypedDict, total=False):
    """How an agent uses the tools of its servers."""

    convert_schemas_to_strict: bool
    """Make the servers' schemas strict where that is possible."""
    failure_error_function: FailureText | None
    """What the model reads when a call of a server's tool fails; None: the error ends the drive of the run."""
    include_server_in_tool_names: bool
    """Put the server's name before every tool's; without it only where two tools would have one name."""


class InputBuilderOptions(TypedDict):
    """What an `input_builder` is given."""

    params: JsonObject
    """The arguments of the call."""
    summary: str | None
    json_schema: JsonObject | None
    """What the arguments may be."""


InputBuilder: TypeAlias = Callable[[InputBuilderOptions], str | list[JsonObject] | Awaitable[str | list[JsonObject]]]


def _with_schema(options: InputBuilderOptions) -> str:
    """The input of a nested run that is to know what its input could have been."""
    given, schema = encode(options["params"]).decode(), encode(options["json_schema"]).decode()
    return f"The input, as JSON:\n{given}\n\nIts JSON schema:\n{schema}"


@dataclass(eq=False)
class AgentTool(FunctionTool):
    """An agent behind a tool: a call of it is a run nested in the caller's."""

    agent: Agent[Any] = None  # type: ignore[assignment]  # a dataclass field after defaults needs one; as_tool gives it
    custom_output_extractor: Callable[[Any], str | Awaitable[str]] | None = None
    max_turns: int | None = None
    input_builder: InputBuilder | None = None
    nested_config: Any = None  # Any: a RunConfig, which is declared on top of this
    nested_hooks: RunHooks[Any] | None = None
    on_stream: Callable[[Any], Any] | None = None

    kind = "agent"

    @property
    def fingerprint(self) -> str:
        """Besides the schema and the version: who would act, since that is what a reviewer says yes to."""
        return fingerprint_of(self.params_json_schema, self.version, who_acts(self.agent))


def who_acts(agent: Agent[Any]) -> list[Json]:
    """What makes an agent the one that it is, and all agents that it can give the work to: their names (or keys), their
    instructions where they are a text, and what they can do. Their models are no part of it, nor is what servers list.
    """
    known = [agent]
    return [_description(each, known) for each in known]  # it grows meanwhile: each once, however many lead to it


def _description(agent: Agent[Any], known: list[Agent[Any]]) -> JsonObject:
    return {
        "agent": agent.address,
        "instructions": agent.instructions if isinstance(agent.instructions, str) else None,
        "tools": [_ability(tool, known) for tool in sorted(agent.tools, key=_order)],
        "servers": sorted(server.name for server in agent.mcp_servers),
        "handoffs": [_place_of(each.agent, known) for each in agent.all_handoffs] if agent.handoffs else [],
    }


def _order(tool: Tool | HostedTool) -> str:
    return f"{type(tool).__name__} {tool.name}"


def _ability(tool: Tool | HostedTool, known: list[Agent[Any]]) -> list[Json]:
    if isinstance(tool, AgentTool):
        return [tool.identity, tool.first_fingerprint, _place_of(tool.agent, known)]
    if isinstance(tool, FunctionTool):
        return [tool.identity, tool.fingerprint]
    if isinstance(tool, HostedMCPTool):
        return [tool.server_label, tool.callable_named("*").fingerprint]
    return [tool.name]


def _place_of(agent: Agent[Any], known: list[Agent[Any]]) -> int:
    for place, each in enumerate(known):
        if each is agent:
            return place
    known.append(agent)
    return len(known) - 1


@dataclass(eq=False)
class Agent(Generic[T]):
    """A model with instructions and tools."""

    name: str
    handoff_description: str | None = None
    """What a model that may hand over to this agent reads of it."""
    instructions: str | Callable[[RunContextWrapper[T], Agent[T]], str | Awaitable[str]] | None = None
    tools: list[Tool | HostedTool] = field(default_factory=list)
    handoffs: list[Agent[Any] | Handoff] = field(default_factory=list)
    model: str | Model | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    output_type: type[Any] | OutputSchema | None = None
    """A type that pydantic knows, or a schema of your own: the final output is parsed into it. None: it is text."""
    input_guardrails: list[InputGuardrail] = field(default_factory=list)
    output_guardrails: list[OutputGuardrail] = field(default_factory=list)
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    reset_tool_choice: bool = True
    """After calls, `model_settings.tool_choice` does not apply to the next request: the model may answer."""
    hooks: AgentHooks[T] | None = None
    key: str | None = None
    """Distinguishes this agent where its name does not; stored states find their agent by it."""
    mcp_servers: list[Toolset[Tool]] = field(default_factory=list)
    """Servers whose tools the agent has as well, as they are when a run is driven."""
    mcp_config: MCPConfig = field(default_factory=MCPConfig)
    prompt: Prompt | DynamicPromptFunction | None = None
    """A prompt that the provider keeps: a dict with its id, or a function that chooses one."""

    def __post_init__(self) -> None:
        self.model_settings = ModelSettings.of(self.model_settings)
        self._check_fields()
        if not self.name:
            raise UserError(f"An agent's name is a text, not {self.name!r}.")
        behavior = self.tool_use_behavior
        if behavior not in ("run_llm_again", "stop_on_first_tool") and not callable(behavior):
            names = behavior.get("stop_at_tool_names") if isinstance(behavior, dict) else None
            if not isinstance(names, list):
                raise UserError(
                    f"Agent '{self.name}': tool_use_behavior is 'run_llm_again', 'stop_on_first_tool', "
                    f"{{'stop_at_tool_names': […]}} or a function, not {behavior!r}."
                )
        self.check_names()

    def _check_fields(self) -> None:
        """What was given by mistake is refused where it was given, in words."""
        name: object = self.name
        instructions: object = self.instructions
        tools: object = self.tools
        handoffs: object = self.handoffs
        if not isinstance(name, str):
            raise UserError(f"An agent's name is a text, not {name!r}.")
        if instructions is not None and not isinstance(instructions, str) and not callable(instructions):
            raise UserError(f"Agent '{name}': instructions is a text or a function (ctx, agent), not {instructions!r}.")
        if not isinstance(tools, list) or not isinstance(handoffs, list):
            raise UserError(f"Agent '{name}': tools and handoffs are lists.")
        for tool in tools:
            if not isinstance(tool, FunctionTool | HostedTool):
                hint = "put @function_tool above it" if callable(tool) else "it is no tool"
                raise UserError(
                    f"Agent '{name}': {getattr(tool, '__name__', tool)!r} cannot be called by a model: {hint}."
                )
        for each in handoffs:
            if not isinstance(each, Agent | Handoff):
                raise UserError(f"Agent '{name}': a handoff is an Agent or handoff(agent), not {each!r}.")
        check(
            f"Agent '{name}': ",
            handoff_description=(self.handoff_description, optional(TEXT)),
            model=(self.model, MODEL),
            model_settings=(self.model_settings, instance_of(ModelSettings)),
            output_type=(self.output_type, _OUTPUT_TYPE),
            prompt=(self.prompt, _PROMPT),
            input_guardrails=(self.input_guardrails, sequence_of(InputGuardrail, "a list of input guardrails")),
            output_guardrails=(self.output_guardrails, sequence_of(OutputGuardrail, "a list of output guardrails")),
            reset_tool_choice=(self.reset_tool_choice, FLAG),
            hooks=(self.hooks, optional(having("on_start", "an object with the methods of AgentHooks"))),
            key=(self.key, optional(NAME)),
        )
        self._check_servers(name)

    def _check_servers(self, name: str) -> None:
        servers: object = self.mcp_servers
        config: object = self.mcp_config
        if not isinstance(servers, list) or not all(hasattr(each, "tools_for") for each in servers):
            raise UserError(f"Agent '{name}': mcp_servers is a list of servers (placet.mcp), not {servers!r}.")
        known = MCPConfig.__annotations__
        if not isinstance(config, dict) or not set(config) <= set(known):
            raise UserError(f"Agent '{name}': mcp_config is a dict with {', '.join(known)}, not {config!r}.")

    def check_names(self) -> None:
        """A model names what it calls: two things with one name could not be distinguished."""
        name = _first_repeated(self._own_names())
        if name is not None:
            raise UserError(
                f"Ambiguous function tool configuration: agent '{self.name}' has two tools named '{name}'. Rename one "
                "(name_override=…)."
            )
        label = _first_repeated([tool.server_label for tool in self.tools if isinstance(tool, HostedMCPTool)])
        if label is not None:
            raise UserError(f"Agent '{self.name}' has two hosted MCP servers labelled '{label}': rename one.")
        server = _first_repeated([server.name for server in self.mcp_servers]) if self.mcp_servers else None
        if server is not None:
            raise UserError(
                f"Agent '{self.name}' has two servers named '{server}', and what is approved for one "
                "would hold for the other: give each a name of its own (name=…)."
            )

    def _own_names(self) -> list[str]:
        """What the model can call the agent's own tools and handoffs by."""
        names = [tool.name for tool in self.function_tools]
        return names + [each.tool_name for each in self.all_handoffs] if self.handoffs else names

    @property
    def function_tools(self) -> list[Tool]:
        """The tools of our own process."""
        return [tool for tool in self.tools if isinstance(tool, FunctionTool)]

    @property
    def hosted_tools(self) -> list[HostedTool]:
        """The tools that the model's provider runs."""
        return [tool for tool in self.tools if isinstance(tool, HostedTool)]

    @property
    def address(self) -> str:
        """Where this agent is found when a run begins with it: its key or name, with the signs of the path escaped."""
        return plain_str(self.key or self.name).replace("%", "%25").replace("/", "%2F").replace(">", "%3E")

    @property
    def all_handoffs(self) -> list[Handoff]:
        return [each if isinstance(each, Handoff) else handoff(each) for each in self.handoffs]

    def handoff_named(self, tool_name: str) -> Handoff | None:
        return (
            next((each for each in self.all_handoffs if each.tool_name == tool_name), None) if self.handoffs else None
        )

    def tool_named(self, name: str) -> Tool | None:
        for tool in self.tools:
            if isinstance(tool, FunctionTool) and tool.name == name:
                return tool
        return None

    def tool_of(self, call: Call) -> Tool | None:
        """The tool that a call means: one of our own, or one of an MCP server that the provider talks to."""
        if call.server is None:
            found = self.tool_named(call.name)
            return found if call.native_kind is None else if_of_kind(found, call.native_kind)
        servers = (tool for tool in self.tools if isinstance(tool, HostedMCPTool) and tool.server_label == call.server)
        server = next(servers, None)
        return server.callable_named(call.name) if server is not None else None

    def name_apart(self, found: Sequence[tuple[Toolset[Tool], Sequence[Tool]]]) -> list[Tool]:
        """Tools of the agent's servers, under the names by which its model knows them."""
        return name_apart(
            self._own_names(), found, always_prefixed=self.mcp_config.get("include_server_in_tool_names", False)
        )

    def tool_known_as(self, name: str, identity: str) -> Tool | None:
        """A tool that waits for a decision, as far as this process knows it without asking a server."""
        found = self.tool_named(name)
        if found is not None or not self.mcp_servers:
            return found
        listed = self.name_apart([(server, server.last_listed()) for server in self.mcp_servers])
        return next((tool for tool in listed if tool.identity == identity), None)

    def toolset_of(self, identity: str) -> Toolset[Tool] | None:
        """The server that a tool with this identity came from, if the agent still has it."""
        kind, _, rest = identity.partition(":")
        if kind != "mcp":
            return None
        return next((each for each in self.mcp_servers if rest.startswith(f"{escaped(each.name)}:")), None)

    def as_tool(
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        *,
        custom_output_extractor: Callable[[Any], str | Awaitable[str]] | None = None,
        is_enabled: EnabledRule = True,
        needs_approval: ApprovalRule = False,
        max_turns: int | None = 10,
        hooks: RunHooks[Any] | None = None,
        on_stream: Callable[[Any], Any] | None = None,
        failure_error_function: FailureText | None = default_tool_error_function,
        parameters: type[Any] | None = None,
        input_builder: InputBuilder | None = None,
        include_input_schema: bool = False,
        run_config: Any = None,  # Any: a RunConfig
        version: str | None = None,
        decide_within: float | None = None,
        at_deadline: Literal["reject", "escalate"] = "reject",
        approval_valid_for: float | None = None,
    ) -> AgentTool:
        """This agent as a tool of another. Its own gated calls pause the outermost run and are decided there.

        `parameters` is a pydantic model for structured input; `input_builder` makes the nested run's input of it: it is
        given a dict with `params` (the arguments), `summary` and `json_schema`. `run_config` is the nested run's own.
        """
        check(
            f"Agent '{self.name}' as a tool: ",
            tool_name=(tool_name, optional(NAME)),
            tool_description=(tool_description, optional(TEXT)),
            custom_output_extractor=(custom_output_extractor, optional(FUNCTION)),
            max_turns=(max_turns, optional(COUNT)),
            hooks=(hooks, optional(having("on_agent_start", "an object with the methods of RunHooks"))),
            on_stream=(on_stream, optional(FUNCTION)),
            parameters=(parameters, optional(TYPE)),
            input_builder=(input_builder, optional(FUNCTION)),
        )
        return AgentTool(
            name=tool_name or re.sub(r"[^a-zA-Z0-9_-]", "_", self.name).lower(),
            description=tool_description or self.handoff_description or f"Ask the agent {self.name}.",
            params_json_schema=_nested_schema(parameters),
            on_invoke_tool=_only_nested,
            is_enabled=is_enabled,
            needs_approval=needs_approval,
            failure_error_function=failure_error_function,
            recovery="retry",  # nothing happens between the claim and the first fact of the nested run
            version=version,
            decide_within=decide_within,
            at_deadline=at_deadline,
            approval_valid_for=approval_valid_for,
            validate_arguments=_text_input if parameters is None else WholeType(parameters),
            agent=self,
            custom_output_extractor=custom_output_extractor,
            max_turns=max_turns,
            input_builder=input_builder or (_with_schema if include_input_schema else None),
            nested_config=run_config,
            nested_hooks=hooks,
            on_stream=on_stream,
        )

    async def get_system_prompt(self, run_context: RunContextWrapper[T]) -> str | None:
        """The instructions, as they are for this run."""
        found = self.instructions(run_context, self) if callable(self.instructions) else self.instructions
        return await found if inspect.isawaitable(found) else found

    async def get_prompt(self, run_context: RunContextWrapper[T]) -> dict[str, Any] | None:
        """The prompt that the provider keeps, as it is for this run."""
        return await prompt_of(self.prompt, run_context, self)

    async def get_mcp_tools(self, run_context: RunContextWrapper[T]) -> list[Tool]:
        """The tools of the agent's servers, as they are now."""
        found: list[Tool] = []
        for server in self.mcp_servers:
            async with server.in_use():
                found.extend(await server.tools_for(run_context, self))
        return found

    async def get_all_tools(self, run_context: RunContextWrapper[T]) -> list[Tool | HostedTool]:
        """All tools that the agent has in this run: those of its servers, and its own that are enabled."""
        found: list[Tool | HostedTool] = [*await self.get_mcp_tools(run_context)]
        for tool in self.tools:
            is_on: object = getattr(tool, "is_enabled", True)
            is_on = is_on(run_context, self) if callable(is_on) else is_on
            if (await is_on if inspect.isawaitable(is_on) else is_on) is True:
                found.append(tool)
        return found

    def clone(self, **changes: Any) -> Agent[T]:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def _first_repeated(names: list[str]) -> str | None:
    if not names or len(set(names)) == len(names):
        return None
    return next(name for index, name in enumerate(names) if name in names[:index])


async def _only_nested(_ctx: ToolContext[Any], _arguments: str) -> object:
    raise UserError("An agent tool is run by the runtime, as a nested run, and cannot be invoked by itself.")


_TEXT_INPUT: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def _nested_schema(parameters: type[Any] | None) -> JsonObject:
    if parameters is None:
        return _TEXT_INPUT
    import pydantic

    return strict_schema(pydantic.TypeAdapter(parameters).json_schema(), "as_tool: parameters")


def _text_input(arguments: JsonObject) -> ValidatedArguments:
    if not isinstance(arguments.get("input"), str):
        raise InvalidArguments("input: a text is required")
    return ValidatedArguments(arguments)
