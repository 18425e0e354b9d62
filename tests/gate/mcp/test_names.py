"""What several servers offer under one roof: names that clash, and which server a call goes to."""

from __future__ import annotations

from mcp.server import MCPServer

from placet.gate.mcp.catalog import shown_names
from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.passing import fits_template
from tests.gate.mcp.scenes import Scene, client_of, handle_of, text_of

left, right = MCPServer("left"), MCPServer("right")


@left.tool(name="search")
def search_left(what: str) -> str:
    """Look on the left."""
    return f"left: {what}"


@right.tool(name="search")
def search_right(what: str) -> str:
    """Look on the right."""
    return f"right: {what}"


@right.tool()
def placet_check() -> str:
    """Named like the gateway's own tool."""
    return "not the gateway"


@left.resource("notes://left")
def note_left() -> str:
    return "a note on the left"


@right.resource("notes://right/{name}")
def note_right(name: str) -> str:
    return f"the note {name} on the right"


@left.prompt()
def greet(name: str) -> str:
    return f"Greet {name} from the left."


BOTH = {
    "left": ServerConfig(python="tests.gate.mcp.test_names:left"),
    "right": ServerConfig(python="tests.gate.mcp.test_names:right"),
}


async def test_tools_of_one_name_get_their_servers_name_and_reach_their_server(at: Scene) -> None:
    async with at.gateway(BOTH, wait=["handle"]) as gateway, client_of(gateway) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        told = await client.call_tool("right__search", {"what": "x"})
        [request] = await at.waiting()
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert names == {"left__search", "right__search", "right__placet_check", "placet_check"}
    assert request.tool == "right/search"
    assert text_of(done) == "right: x"


async def test_resources_and_prompts_come_from_the_server_that_has_them(at: Scene) -> None:
    async with at.gateway(BOTH) as gateway, client_of(gateway) as client:
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        one = await client.read_resource("notes://left")
        other = await client.read_resource("notes://right/7")
        prompt = await client.get_prompt("greet", {"name": "Ana"})

    assert listed == ["notes://left"]
    assert getattr(one.contents[0], "text", None) == "a note on the left"
    assert getattr(other.contents[0], "text", None) == "the note 7 on the right"
    assert "from the left" in str(prompt.messages[0].content)


def test_names_that_clash_are_told_apart_whatever_the_order() -> None:
    one = shown_names({"b": ["x", "y"], "a": ["x"], "c d": ["placet_check"]}, ("placet_check",))
    other = shown_names({"c d": ["placet_check"], "a": ["x"], "b": ["x", "y"]}, ("placet_check",))

    assert one == other
    assert one == {
        ("a", "x"): "a__x",
        ("b", "x"): "b__x",
        ("b", "y"): "y",
        ("c d", "placet_check"): "c_d__placet_check",
    }


def test_a_name_that_already_looks_prefixed_is_kept_apart() -> None:
    found = shown_names({"a": ["x"], "b": ["x", "a__x"]})

    assert len(set(found.values())) == 3


def test_a_template_fits_what_may_have_come_of_it() -> None:
    assert fits_template("notes://right/{name}", "notes://right/7")
    assert not fits_template("notes://right/{name}", "notes://left")
    assert fits_template("a{x}.b{y}", "a1.b2")
    assert not fits_template("a{x}.b", "a1xb")
