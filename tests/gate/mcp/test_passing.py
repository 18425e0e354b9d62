"""Everything that is no call that asks passes unchanged and in order: a client hears through the gateway what it hears
without one, whichever protocol either side speaks."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.types import (
    CreateMessageResult,
    ListRootsResult,
    NotificationParams,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)

from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.raw import TASKS
from tests.gate.mcp import library as its
from tests.gate.mcp.scenes import PATIENCE, Scene, client_of, until

HERE = {"python": "tests.gate.mcp.library:library", "require_approval": "never"}
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
SERVERS = pytest.mark.parametrize("protocol", ["legacy", "modern"])
ROUTES = pytest.mark.parametrize("route", ["recorded", "straight"])


curious = MCPServer("curious")


@curious.tool(structured_output=True)
async def who(ctx: Context) -> dict[str, Any]:
    capabilities = ctx.client_capabilities
    return {
        "extensions": sorted((capabilities.extensions or {}) if capabilities else {}),
        "sampling": bool(capabilities and capabilities.sampling is not None),
    }


class Host:
    """A client's other half: it has a model and roots, and notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.roots = [Root(uri="file:///work", name="work")]

    async def sample(self, _context: Any, params: Any) -> CreateMessageResult:
        self.heard.append(("sampling", params.messages[0].content.text, params.max_tokens))
        return CreateMessageResult(role="assistant", content=TextContent(text="a whale"), model="m-1")

    async def list_roots(self, _context: Any) -> ListRootsResult:
        return ListRootsResult(roots=self.roots)

    async def log(self, params: Any) -> None:
        self.heard.append(("log", params.level, params.logger, params.data))

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append(("progress", progress, total, message))

    async def message(self, message: Any) -> None:
        method = getattr(message, "method", None)
        if (method is not None and "list_changed" in method) or method == "notifications/resources/updated":
            self.heard.append((method, str(getattr(message.params, "uri", ""))))

    @property
    def options(self) -> dict[str, Any]:
        return {
            "sampling_callback": self.sample,
            "list_roots_callback": self.list_roots,
            "logging_callback": self.log,
            "message_handler": self.message,
            "log_level": "info",
        }


@pytest.fixture(autouse=True)
def quiet() -> Any:
    its.SUBSCRIBED.clear()
    its.LEVELS.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.asynccontextmanager
async def direct(mode: str, host: Host) -> AsyncIterator[Client]:
    """The same server, with nothing between."""

    @contextlib.asynccontextmanager
    async def wire() -> AsyncIterator[Any]:
        async with (
            create_client_server_memory_streams() as (client, (read, write)),
            anyio.create_task_group() as group,
        ):
            group.start_soon(its.low.run, read, write, its.low.create_initialization_options())
            yield client
            group.cancel_scope.cancel()

    async with Client(wire(), mode=mode, **host.options) as client:  # type: ignore[arg-type]  # a mode is a text
        yield client


Step = Callable[[Client, Host], Awaitable[Any]]


def step(do: Callable[[Client], Awaitable[Any]]) -> Step:
    async def run(client: Client, _host: Host) -> Any:
        return await do(client)

    return run


async def _counted(client: Client, host: Host) -> Any:
    return await client.call_tool("count", {"to": 3}, progress_callback=host.progress)


PROMPT = PromptReference(name="summarize")
TEMPLATE = ResourceTemplateReference(uri="book://shelf/{shelf}/{number}")
SCRIPT: dict[str, Step] = {
    "resources": step(lambda c: c.list_resources()),
    "templates": step(lambda c: c.list_resource_templates()),
    "a resource": step(lambda c: c.read_resource("book://index")),
    "a picture": step(lambda c: c.read_resource("book://cover")),
    "out of a template": step(lambda c: c.read_resource("book://shelf/sea/7")),
    "no such resource": step(lambda c: c.read_resource("other://nowhere")),
    "prompts": step(lambda c: c.list_prompts()),
    "a prompt": step(lambda c: c.get_prompt("summarize", {"book": "Moby Dick"})),
    "no such prompt": step(lambda c: c.get_prompt("nowhere")),
    "a prompt without what it needs": step(lambda c: c.get_prompt("summarize", {})),
    "completion of a prompt": step(lambda c: c.complete(PROMPT, {"name": "book", "value": "Mo"})),
    "completion of a template": step(
        lambda c: c.complete(TEMPLATE, {"name": "number", "value": "1"}, {"shelf": "sea"})
    ),
    "a tool that fails": step(lambda c: c.call_tool("crash")),
    "a tool that asks the model": step(lambda c: c.call_tool("think", {"what": "an animal"})),
    "a tool that asks for roots": step(lambda c: c.call_tool("roots")),
    "a tool that tells how far it is": _counted,
}


async def what_happens(client: Client, host: Host, do: Step) -> Any:
    host.heard.clear()
    try:
        found: Any = (await do(client, host)).model_dump(by_alias=True, mode="json", exclude_none=True)
    except MCPError as error:
        found = (error.code, error.message, error.error.data)
    if isinstance(found, dict):  # what is about the answer and not about its content
        for name in ("ttlMs", "cacheScope", "_meta"):
            found.pop(name, None)
    return found, list(host.heard)


@contextlib.asynccontextmanager
async def through(at: Scene, mode: str, host: Host, protocol: Any, route: str) -> AsyncIterator[Client]:
    more = {"pass_through": ["*"]} if route == "straight" else {}
    async with at.gateway({"library": ServerConfig(protocol=protocol, **HERE, **more)}, wait=["open"]) as gateway:
        await at.pin(gateway)
        async with client_of(gateway, mode, **host.options) as client:
            yield client


@pytest.mark.parametrize("what", SCRIPT)
@ERAS
async def test_a_client_reads_and_hears_what_it_reads_and_hears_without_a_gateway(
    at: Scene, mode: str, what: str
) -> None:
    one, other, straight = Host(), Host(), Host()
    same = "legacy" if mode == "legacy" else "modern"
    async with direct(mode, one) as client:
        wanted = await what_happens(client, one, SCRIPT[what])
    async with through(at, mode, other, same, "recorded") as client:
        found = await what_happens(client, other, SCRIPT[what])
    async with through(at, mode, straight, same, "straight") as client:
        found_straight = await what_happens(client, straight, SCRIPT[what])

    assert found == wanted
    assert found_straight == wanted


@pytest.mark.parametrize("what", SCRIPT)
@pytest.mark.parametrize(("mode", "protocol"), [("legacy", "modern"), ("auto", "legacy")])
async def test_across_the_protocols_it_is_the_same_too(at: Scene, mode: str, protocol: Any, what: str) -> None:
    one, other, server = Host(), Host(), Host()
    async with direct(mode, one) as client:
        wanted, wanted_heard = await what_happens(client, one, SCRIPT[what])
    async with direct("legacy" if protocol == "legacy" else "auto", server) as client:
        of_server, _ = await what_happens(client, server, SCRIPT[what])
    async with through(at, mode, other, protocol, "recorded") as client:
        found, heard = await what_happens(client, other, SCRIPT[what])

    # The words of an error are the server's own, and it chooses them by its own protocol.
    assert found == (wanted if isinstance(wanted, dict) else of_server)
    assert heard == wanted_heard


@ERAS
@SERVERS
async def test_the_greeting_tells_what_the_server_can_and_says(at: Scene, mode: str, protocol: Any) -> None:
    host = Host()
    async with through(at, mode, host, protocol, "recorded") as client:
        info, capabilities = client.server_info, client.server_capabilities
        instructions = client.instructions

    assert info is not None
    assert (info.name, info.title, info.version) == ("library", "The library", "7.1")
    assert instructions == "Read quietly."
    assert capabilities.prompts is not None
    assert capabilities.completions is not None
    assert capabilities.resources is not None


# -- changes ----------------------------------------------------------------------------------------------------------


@SERVERS
async def test_a_client_of_the_older_protocol_hears_what_changed(at: Scene, protocol: Any) -> None:
    host = Host()
    async with through(at, "legacy", host, protocol, "recorded") as client:
        await client.subscribe_resource("book://index")
        for _ in range(50):  # a server of today's protocol listens to its subscription as soon as it can
            await client.call_tool("change")
            if ("notifications/resources/updated", "book://index") in host.heard:
                break
            await asyncio.sleep(0.1)
        await until(lambda: len({method for method, _ in host.heard}) >= 3)
        await client.unsubscribe_resource("book://index")

    assert {method for method, _ in host.heard} == {
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/updated",
    }
    if protocol == "legacy":
        assert its.SUBSCRIBED == ["+book://index", "-book://index"]


@SERVERS
async def test_a_client_of_todays_protocol_listens(at: Scene, protocol: Any) -> None:
    host = Host()
    heard: list[str] = []
    async with (
        through(at, "auto", host, protocol, "recorded") as client,
        client.listen(tools_list_changed=True, resource_subscriptions=["book://index"]) as stream,
        asyncio.timeout(PATIENCE),
    ):
        honored = stream.honored

        async def collect() -> None:
            async for event in stream:
                heard.append(type(event).__name__)  # noqa: PERF401  # it is read meanwhile

        task = asyncio.create_task(collect())
        while len(set(heard)) < 2:
            await client.call_tool("change")
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert honored.tools_list_changed
    assert honored.resource_subscriptions == ["book://index"]
    assert set(heard) == {"ToolsListChanged", "ResourceUpdated"}  # and not that prompts did
    if protocol == "legacy":
        assert its.SUBSCRIBED == ["+book://index", "-book://index"]


async def test_the_level_of_the_log_reaches_the_server_also_after_it_was_started_anew(at: Scene) -> None:
    host = Host()
    async with through(at, "legacy", host, "legacy", "recorded") as client:
        await client.set_logging_level("warning")
        await client.subscribe_resource("book://index")
        [gateway_session] = [s for s in at.gateways[-1]._sessions if s.line is not None and not s.is_modern]
        assert gateway_session.line is not None
        await (await gateway_session.line.upstream("library")).close()
        await client.list_prompts()

    assert its.LEVELS == ["warning", "warning"]
    assert its.SUBSCRIBED == ["+book://index", "+book://index"]


async def test_that_the_clients_roots_changed_reaches_the_server(at: Scene) -> None:
    heard: list[str] = []

    async def note(_context: Any, _params: Any) -> None:
        heard.append("roots changed")

    its.low.add_notification_handler("notifications/roots/list_changed", NotificationParams, note)
    async with through(at, "legacy", Host(), "legacy", "recorded") as client:
        await client.list_tools()
        await client.send_roots_list_changed()
        await until(lambda: bool(heard))

    assert heard == ["roots changed"]


# -- what stays with the gateway --------------------------------------------------------------------------------------


@SERVERS
async def test_a_server_learns_of_the_client_and_nothing_of_its_tasks(at: Scene, protocol: Any) -> None:
    host = Host()
    server = ServerConfig(protocol=protocol, python="tests.gate.mcp.test_passing:curious", require_approval="never")
    async with at.gateway({"curious": server}, wait=["open"]) as gateway:
        await at.pin(gateway)
        known = [advertise(TASKS), advertise("com.example/other")]
        async with client_of(gateway, "auto", extensions=known, **host.options) as client:
            told = (await client.call_tool("who")).structured_content

    assert told is not None
    assert TASKS not in told["extensions"]
    assert told["sampling"] is True
