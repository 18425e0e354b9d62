"""An MCP server that has everything: resources, prompts, completion, logs, progress, and questions to its client."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import ListRoots, Resolve, Sample
from mcp.server.request_state import RequestStateSecurity
from mcp.types import (
    Completion,
    CreateMessageResult,
    EmptyResult,
    ListRootsResult,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequestParams,
)

library = MCPServer(
    "library",
    title="The library",
    version="7.1",
    instructions="Read quietly.",
    request_state_security=RequestStateSecurity(keys=[b"the same key for every process!!"]),
    log_level="ERROR",
)
SUBSCRIBED: list[str] = []
LEVELS: list[str] = []


@library.resource("book://index", title="Index", mime_type="text/markdown")
def index() -> str:
    return "# All books"


@library.resource("book://cover", mime_type="image/png")
def cover() -> bytes:
    return b"\x89PNG\x00"


@library.resource("book://shelf/{shelf}/{number}", title="A book")
def book(shelf: str, number: str) -> str:
    return f"book {number} of {shelf}"


@library.prompt(title="Summarize")
def summarize(book: str, words: str = "100") -> str:
    """Tell a book in few words."""
    return f"Tell {book} in {words} words."


@library.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
    known = (context.arguments or {}) if context else {}
    name = getattr(ref, "name", None) or getattr(ref, "uri", "")
    return Completion(values=[f"{name} {argument.name}={argument.value}… {dict(known)}"], total=1, has_more=False)


@library.tool(title="Count", structured_output=True)
async def count(to: int, ctx: Context) -> dict[str, int]:
    """Count, and tell of it."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await ctx.log("info", {"counted": number}, logger_name="counter")
    return {"counted": to}


async def ask_model(what: str) -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(text=f"Think of {what}"))], max_tokens=20)


@library.tool()
async def think(what: str, thought: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the client's model."""
    return f"thought: {getattr(thought.content, 'text', '')}"


async def ask_roots() -> ListRoots:
    return ListRoots()


@library.tool()
async def roots(found: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask where the client works."""
    return " ".join(str(root.uri) for root in found.roots)


@library.tool()
async def change(ctx: Context) -> str:
    """Tell everybody that everything changed."""
    await ctx.notify_tools_changed()
    await ctx.notify_prompts_changed()
    await ctx.notify_resource_updated("book://index")
    if "2025" in (ctx.protocol_version or ""):
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_updated("book://index")
    return "changed"


@library.tool()
def crash() -> str:
    """Fail."""
    raise RuntimeError("the shelf fell over")


async def _subscribe(_context: Any, params: Any) -> EmptyResult:
    SUBSCRIBED.append(f"+{params.uri}")
    return EmptyResult()


async def _unsubscribe(_context: Any, params: Any) -> EmptyResult:
    SUBSCRIBED.append(f"-{params.uri}")
    return EmptyResult()


async def _set_level(_context: Any, params: Any) -> EmptyResult:
    LEVELS.append(params.level)
    return EmptyResult()


low = library._lowlevel_server
low.add_request_handler("resources/subscribe", SubscribeRequestParams, _subscribe)
low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, _unsubscribe)
low.add_request_handler("logging/setLevel", SetLevelRequestParams, _set_level)
