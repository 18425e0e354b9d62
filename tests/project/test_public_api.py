"""The public surface: its names, its documentation, its weight, its errors."""

from __future__ import annotations

import copy
import dataclasses
import importlib.resources
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, get_origin

import pytest

import placet
import placet.gate
import placet.policy
import placet.receipts
from placet.facts import errors

HEAVY = [
    "jsonschema_rs",
    "openai",
    "mcp",
    "anthropic",
    "starlette",
    "uvicorn",
    "jinja2",
    "psycopg",
    "procrastinate",
    "pydantic",
    "httpx",
]


def public_names() -> list[str]:
    return list(placet.__all__)


PINNED = [
    "AccessDenied",
    "Agent",
    "AgentHooks",
    "AgentTool",
    "AgentUpdatedStreamEvent",
    "AnthropicModel",
    "ApprovalRecord",
    "CallModelData",
    "CannotTell",
    "CodeInterpreterTool",
    "DeliveryUnknown",
    "Desk",
    "DidNotHappen",
    "Failed",
    "FileSearchTool",
    "FunctionTool",
    "FunctionToolResult",
    "Grant",
    "GuardrailFunctionOutput",
    "GuardrailResult",
    "GuardrailTripped",
    "Handoff",
    "HandoffCallItem",
    "HandoffInputData",
    "HandoffOutputItem",
    "Happened",
    "HostedMCPTool",
    "HostedTool",
    "ImageGenerationTool",
    "InMemorySession",
    "IndexAltered",
    "InputGuardrail",
    "InputGuardrailTripwireTriggered",
    "LimitExceeded",
    "Limits",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPConfig",
    "MCPToolApprovalFunction",
    "MCPToolApprovalFunctionResult",
    "MCPToolApprovalRequest",
    "MaxTurnsExceeded",
    "MemoryStore",
    "MessageOutputItem",
    "Model",
    "ModelBehaviorError",
    "ModelInputData",
    "ModelRefusalError",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryBackoffSettings",
    "ModelRetrySettings",
    "ModelSettings",
    "ModelTimeoutError",
    "Needs",
    "NeedsInput",
    "NotPending",
    "OpenAIChatCompletionsModel",
    "OpenAIConversationsSession",
    "OpenAIResponsesModel",
    "OpenAIServerConversationTracker",
    "OtherItem",
    "OutputGuardrail",
    "OutputGuardrailTripwireTriggered",
    "PlacetError",
    "ProviderError",
    "RawEvent",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "Reconciled",
    "RequestNotTaken",
    "RunConfig",
    "RunConflict",
    "RunContextWrapper",
    "RunErrorData",
    "RunErrorHandlerInput",
    "RunErrorHandlerResult",
    "RunErrorHandlers",
    "RunFinished",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "SQLiteSession",
    "SealBroken",
    "Secret",
    "ServerHistoryNotFound",
    "Session",
    "SessionBusy",
    "StaleApproval",
    "StateRefused",
    "StopAtTools",
    "Store",
    "StoreError",
    "StreamEvent",
    "Tool",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolError",
    "ToolErrorFormatterArgs",
    "ToolGuardrailFunctionOutput",
    "ToolInputGuardrail",
    "ToolInputGuardrailData",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutcomeUnknown",
    "ToolOutputError",
    "ToolOutputGuardrail",
    "ToolOutputGuardrailData",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolRaised",
    "ToolSpec",
    "ToolTimeoutError",
    "ToolsToFinalOutputResult",
    "Toolset",
    "ToolsetUnavailable",
    "Usage",
    "UserError",
    "WebSearchTool",
    "default_store",
    "function_tool",
    "handoff",
    "input_guardrail",
    "open_store",
    "output_guardrail",
    "set_default_store",
    "tool_input_guardrail",
    "tool_output_guardrail",
]
"""Whoever adds a public name adds it here, knowingly; whoever takes one away breaks somebody's program."""


def test_the_public_names_are_pinned() -> None:
    assert sorted(placet.__all__) == sorted(PINNED)


def test_every_public_name_is_there_and_stands_once() -> None:
    assert len(set(placet.__all__)) == len(placet.__all__)
    assert [name for name in placet.__all__ if not hasattr(placet, name)] == []


def _is_documented(value: object) -> bool:
    if get_origin(value) is not None or not (inspect.isclass(value) or inspect.isfunction(value)):
        return True  # an alias of a type: its parts are documented
    doc = value.__doc__ or ""
    if inspect.isclass(value) and issubclass(value, errors.PlacetError):
        return bool(doc) or value.__name__ in (errors.__doc__ or "")
    is_made_up = dataclasses.is_dataclass(value) and doc.startswith(f"{getattr(value, '__name__', '')}(")
    return bool(doc.strip()) and not is_made_up


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_documented(name: str) -> None:
    assert _is_documented(getattr(placet, name)), f"{name} has no docstring"


@pytest.mark.parametrize(
    "made",
    [
        placet.ModelSettings(temperature=0.5),
        placet.ModelRetrySettings(max_retries=2),
        placet.ModelRetryBackoffSettings(jitter=False),
        placet.RunConfig(max_nesting=3),
        placet.Limits(log=7),
        placet.Grant(uses=3),
        placet.ModelInputData([], "go"),
        placet.HandoffInputData((), (), ()),
        placet.ModelResponse([], response_id="resp_1"),
        placet.Agent("Clerk", "Be kind."),
        placet.WebSearchTool(search_context_size="low"),
    ],
    ids=lambda made: type(made).__name__,
)
def test_what_users_make_and_vary_are_dataclasses(made: Any) -> None:
    names = [each.name for each in dataclasses.fields(made)]

    changed = dataclasses.replace(made)

    assert changed is not made
    assert [getattr(changed, name) for name in names] == [getattr(made, name) for name in names]


@pytest.mark.parametrize(
    "make",
    [
        lambda: placet.GuardrailFunctionOutput("info", tripwire_triggered=True),
        lambda: placet.ToolGuardrailFunctionOutput.reject_content("no"),
        lambda: placet.GuardrailResult("polite", placet.GuardrailFunctionOutput()),
        lambda: placet.ToolsToFinalOutputResult(is_final_output=True, final_output="done"),
        lambda: placet.FunctionToolResult(None, "refund", "done", was_run=True),
        lambda: placet.RunErrorHandlerResult("done"),
        lambda: placet.Reconciled(taken=True),
        lambda: placet.ApprovalRecord(approved=("call_1",)),
    ],
    ids=lambda make: type(make()).__name__,
)
def test_what_is_handed_over_is_a_value_that_nobody_can_change(make: Callable[[], Any]) -> None:
    first, second = make(), make()
    name = type(first).__match_args__[0]

    assert first == second
    assert hash(first) == hash(second)
    assert repr(first).startswith(f"{type(first).__name__}({name}=")
    assert copy.copy(first) == first
    with pytest.raises(AttributeError):
        setattr(first, name, "other")


def test_importing_placet_is_light() -> None:
    script = f"import sys, placet; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)  # noqa: S603

    assert found.stdout.strip() == "[]"


def test_importing_the_test_tools_is_light_too() -> None:
    script = f"import sys, placet.testing; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)  # noqa: S603

    assert found.stdout.strip() == "[]"


def test_the_types_are_shipped() -> None:
    assert importlib.resources.files("placet").joinpath("py.typed").is_file()


# -- errors


def every_error() -> list[type[errors.PlacetError]]:
    found = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.PlacetError)]
    assert len(found) > 10
    return found


def test_every_error_has_a_code_of_its_own() -> None:
    codes = {error: error.code for error in every_error()}

    assert len(set(codes.values())) == len(codes)
    assert all(re.fullmatch(r"[a-z][a-z_]*", code) for code in codes.values())


def test_the_tree_at_the_top_of_the_file_is_the_tree_of_the_classes() -> None:
    drawn: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^ {4}([│ ]*)(├── |└── )?([A-Z]\w+)(?:  +\S.*)?$", line)
        if found is None:
            continue
        depth = len(found[1]) + (4 if found[2] else 0)
        above = [(each, name) for each, name in above if each < depth]
        drawn[found[3]] = above[-1][1] if above else "Exception"
        above.append((depth, found[3]))
    real = {error.__name__: error.__bases__[0].__name__ for error in every_error()}

    assert drawn == real


def test_the_tree_has_one_line_for_each_error() -> None:
    tree = (errors.__doc__ or "").split("PlacetError\n", 1)[1].split("\n\n", 1)[0]

    assert all(re.match(r"^ {4}[│├└ ]+── ?[A-Z]|^ {4}[│ ]*[├└]── [A-Z]", line) for line in tree.splitlines())


@pytest.mark.parametrize("error", every_error(), ids=lambda each: each.__name__)
def test_every_error_can_be_made_of_a_message_and_carries_no_state_of_its_own(error: type[errors.PlacetError]) -> None:
    made = error("what happened, and what to do")

    assert str(made) == "what happened, and what to do"
    assert made.state is None


def test_the_names_of_the_errors_are_public() -> None:
    internal = {"PositionConflict", "BudgetExhausted", "IllegalTransition"}  # a store's business

    public = {
        *placet.__all__,
        *placet.gate.__all__,
        *placet.policy.__all__,
        *placet.receipts.__all__,
    }  # each where its part is
    assert {error.__name__ for error in every_error()} - internal <= public


def test_the_version_is_the_packages() -> None:
    import importlib.metadata

    assert placet.__version__ == importlib.metadata.version("placet")
