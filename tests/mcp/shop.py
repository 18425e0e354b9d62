"""An MCP server for the tests, as a program: `shop.py stdio`, or `shop.py http | json | sse PORT`.

What it does it writes into the file SHOP_EFFECTS, line by line: so a test in another process counts what really
happened. SHOP_REFUND=strict gives `refund` another schema, SHOP_REFUND=gone takes it away.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import (
    AudioContent,
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
EFFECTS = Path(os.environ.get("SHOP_EFFECTS", os.devnull))
KEYS = [b"the same key for every process!!"]

shop = MCPServer("shop", request_state_security=RequestStateSecurity(keys=KEYS), log_level="ERROR")


def note(what: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(f"{what}\n")


def has_noted(what: str) -> bool:
    return EFFECTS.exists() and what in EFFECTS.read_text()


@shop.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def refund(order_id: str, cents: int) -> str:
    """Pay money back."""
    note(f"refund {order_id} {cents}")
    return f"refunded {order_id}"


if os.environ.get("SHOP_REFUND") == "strict":

    @shop.tool(name="refund")
    def refund_with_reason(order_id: str, cents: int, reason: str) -> str:
        """Pay money back, and say why."""
        note(f"refund {order_id} {cents} {reason}")
        return f"refunded {order_id}"

elif os.environ.get("SHOP_REFUND") != "gone":
    shop.add_tool(refund)


@shop.tool(annotations=ToolAnnotations(destructive_hint=True))
def delete_order(order_id: str) -> str:
    """Delete an order for good."""
    note(f"delete {order_id}")
    return f"deleted {order_id}"


@shop.tool()
async def slow(name: str, seconds: float) -> str:
    """Take some time: says when it begins and when it is done."""
    note(f"begin {name}")
    await asyncio.sleep(seconds)
    note(f"end {name}")
    return f"{name} done"


@shop.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def die(how: str) -> str:
    """End the server's process: before or after the effect. A second time it answers."""
    if has_noted("dying"):
        note("survived")
        return "survived"
    note("dying")
    os._exit(1)


@shop.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def always_die() -> str:
    """End the server's process, every time."""
    note("dying")
    os._exit(1)


@shop.tool()
def fail(why: str) -> str:
    """Raise an error."""
    raise ToolError(why)


@shop.tool()
def picture() -> CallToolResult:
    """A picture and a text."""
    return CallToolResult(
        content=[TextContent(text="a pixel:"), ImageContent(data=PIXEL, mime_type="image/png")],
    )


@shop.tool()
def everything() -> CallToolResult:
    """All kinds of content."""
    return CallToolResult(
        content=[
            TextContent(text="text"),
            AudioContent(data="AAAA", mime_type="audio/wav"),
            EmbeddedResource(resource=TextResourceContents(uri="note://1", text="a note")),
            ResourceLink(uri="file:///order.pdf", name="order", description="as a PDF"),
        ],
        structured_content={"kinds": 4},
    )


class Weather(BaseModel):
    city: str
    degrees: float


@shop.tool()
def weather(city: str) -> Weather:
    """The weather, structured."""
    return Weather(city=city, degrees=21.5)


# -- asking ------------------------------------------------------------------------------------------------------------


class Address(BaseModel):
    street: str = Field(min_length=1)
    number: int
    gift: bool = False


class Confirmation(BaseModel):
    sure: bool


async def ask_address(order_id: str) -> Elicit[Address]:
    return Elicit(f"Where should order {order_id} go?", Address)


@shop.tool()
async def ship(order_id: str, address: Annotated[ElicitationResult[Address], Resolve(ask_address)]) -> str:
    """Send an order: asks where to."""
    if not isinstance(address, AcceptedElicitation):
        note(f"not shipped {order_id} {address.action}")
        return f"order {order_id} was not shipped: {address.action}"
    note(f"ship {order_id} {address.data.street} {address.data.number}")
    return f"order {order_id} goes to {address.data.street} {address.data.number}"


async def ask_sure(address: Annotated[Address, Resolve(ask_address)]) -> Elicit[Confirmation]:
    return Elicit(f"Really to {address.street}?", Confirmation)


@shop.tool()
async def ship_carefully(
    order_id: str,
    address: Annotated[Address, Resolve(ask_address)],
    sure: Annotated[Confirmation, Resolve(ask_sure)],
) -> str:
    """Send an order: asks where to, and then whether that is right."""
    note(f"ship {order_id} {address.street} {sure.sure}")
    return f"order {order_id}: {address.street}, {'sent' if sure.sure else 'kept'}"


@shop.tool()
async def pay_by_card(order_id: str, ctx: Context) -> CallToolResult | InputRequiredResult:
    """Sends a person to a page."""
    answers = ctx.input_responses
    if not answers:
        params = ElicitRequestURLParams(message="Enter your card there.", url=f"https://pay.example/{order_id}")
        return InputRequiredResult(input_requests={"card": ElicitRequest(params=params)}, request_state=order_id)
    note(f"card {order_id} {answers['card'].action} {ctx.request_state}")
    return CallToolResult(content=[TextContent(text=f"card: {answers['card'].action}")])


@shop.tool()
async def ask_in_the_call(ctx: Context) -> str:
    """Asks over the connection of the call, as servers did before 2026."""
    found = await ctx.elicit("Your name?", schema=Name)
    note(f"asked {found.action}")
    return f"{found.action} {getattr(found, 'data', None)}"


class Name(BaseModel):
    name: str


@shop.tool()
async def needs_login(ctx: Context) -> str:
    """Refuses the call until a person went to a page, as servers did in 2025."""
    if not has_noted("login"):
        link = ElicitRequestURLParams(message="Log in first.", url="https://login.example", elicitation_id="login-1")
        raise UrlElicitationRequiredError([link])
    return "logged in"


@shop.tool()
async def learn(name: str, ctx: Context) -> str:
    """Gives the server one more tool."""

    def learned(x: int) -> int:
        return x

    shop.add_tool(learned, name=name, description="Learned.")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return f"learned {name}"


def main(kind: str, port: str = "0") -> None:
    if kind == "stdio":
        shop.run("stdio")
    elif kind == "http":
        shop.run("streamable-http", host="127.0.0.1", port=int(port))
    elif kind == "json":
        shop.run("streamable-http", host="127.0.0.1", port=int(port), json_response=True)
    elif kind == "sse":
        shop.run("sse", host="127.0.0.1", port=int(port))
    else:
        raise SystemExit(f"no such kind of server: {kind}")


if __name__ == "__main__":
    main(*sys.argv[1:])
