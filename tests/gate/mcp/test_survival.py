"""The gateway, its servers and its clients die at every point. The witness is a file that only the server writes:
nothing happens twice unless somebody said so, and nothing that was not approved."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from placet.gate.mcp.config import ServerConfig
from tests.gate.mcp.scenes import PATIENCE, Scene, client_of, handle_of, text_of

ROGUE = Path(__file__).parent / "rogue.py"
ROOT = Path(__file__).parents[3]
ACT = {"what": "1"}


def rogue(folder: Path, behaviour: str, **settings: Any) -> ServerConfig:
    return ServerConfig(command=sys.executable, args=[str(ROGUE), str(folder), behaviour], **settings)


def acts(folder: Path) -> list[str]:
    file = folder / "effects"
    return file.read_text().splitlines() if file.exists() else []


async def check(client: Client, handle: str, **more: Any) -> CallToolResult:
    return await client.call_tool("placet_check", {"handle": handle, **more})


# -- the server dies --------------------------------------------------------------------------------------------------

BEFORE = ["die-starting once", "die-listing once"]
DURING = {"die-receiving once": 0, "die-acting once": 1, "die-answering once": 1}
"""A server that dies while it has the call, and how often it had acted."""


@pytest.mark.parametrize("point", [*BEFORE, "die-after once", "killed while it waits"])
async def test_a_server_that_dies_before_it_got_the_call_or_after_it_answered_acts_once(at: Scene, point: str) -> None:
    server = rogue(at.folder, point)
    async with at.gateway({"it": server}, wait=["handle"]) as gateway, client_of(gateway) as client:
        if point in BEFORE:
            await asyncio.gather(client.list_tools(), return_exceptions=True)
        told = await client.call_tool("act", ACT)
        if point.startswith("killed"):
            os.kill(int((at.folder / "pid").read_text()), signal.SIGKILL)
        before = acts(at.folder)
        await at.decide()
        done = await check(client, handle_of(told))
        again = await check(client, handle_of(told))

    assert before == []
    assert text_of(done) == text_of(again) == "acted 1"
    assert len(acts(at.folder)) == 1
    assert await at.desk.pending() == []


@pytest.mark.parametrize("verdict", ["approve", "reject"])
@pytest.mark.parametrize("point", DURING)
async def test_a_server_that_dies_with_the_call_leaves_it_in_doubt_and_a_person_says_what_then(
    at: Scene, point: str, verdict: str
) -> None:
    server = rogue(at.folder, point)
    async with at.gateway({"it": server}, wait=["handle"]) as gateway, client_of(gateway) as client:
        told = await client.call_tool("act", ACT)
        handle = handle_of(told)
        await at.decide()
        doubted = await check(client, handle)
        [question] = await at.waiting()
        between = acts(at.folder)
        await at.decide(verdict)
        done = await check(client, handle)
    found = acts(at.folder)

    assert "It is unknown whether 'it/act' happened" in text_of(doubted)
    assert len(between) == DURING[point]
    assert question.tool == "it/act"
    assert len(found) == DURING[point] + (verdict == "approve")
    assert len(set(found)) <= 1  # and with one key
    assert (text_of(done) == "acted 1") is (verdict == "approve")


@pytest.mark.parametrize("point", DURING)
async def test_where_repeating_is_said_to_be_safe_it_is_repeated_under_one_key(at: Scene, point: str) -> None:
    server = rogue(at.folder, point, recovery="retry")
    async with at.gateway({"it": server}, wait=["handle"]) as gateway, client_of(gateway) as client:
        told = await client.call_tool("act", ACT)
        await at.decide()
        done = await check(client, handle_of(told))
    found = acts(at.folder)

    assert text_of(done) == "acted 1"
    assert len(found) == DURING[point] + 1
    assert len(set(found)) == 1
    assert await at.desk.pending() == []


async def test_a_server_that_dies_every_time_is_not_asked_for_ever(at: Scene) -> None:
    server = rogue(at.folder, "die-acting", recovery="retry")
    async with at.gateway({"it": server}, wait=["handle"]) as gateway, client_of(gateway) as client:
        told = await client.call_tool("act", ACT)
        await at.decide()
        done = await check(client, handle_of(told))
        [question] = await at.waiting()

    assert "unknown" in text_of(done)
    assert question.tool == "it/act"
    assert len(acts(at.folder)) == 3


# -- the gateway dies -------------------------------------------------------------------------------------------------


class Killable:
    """`placet mcp serve` as a client starts it, until it is killed."""

    def __init__(self, at: Scene, **settings: Any) -> None:
        import json

        entry = {"command": sys.executable, "args": [str(ROGUE), str(at.folder), settings.pop("behaviour", "good")]}
        entry["placet"] = {"lease": 5}
        self.file = at.folder / "gateway.json"
        self.pid_file = at.folder / "gateway.pid"
        self.file.write_text(json.dumps({"mcpServers": {"it": entry}, "placet": {"store": at.url, **settings}}))

    def client(self, mode: Any = "legacy", **options: Any) -> Client:
        program = f"import os, sys; open({str(self.pid_file)!r}, 'w').write(str(os.getpid())); "
        program += "from placet.cli.main import main; sys.exit(main(sys.argv[1:]))"
        params = StdioServerParameters(
            command=sys.executable, args=["-c", program, "mcp", "serve", str(self.file)], cwd=ROOT
        )
        return Client(stdio_client(params), mode=mode, **options)

    def kill(self) -> None:
        os.kill(int(self.pid_file.read_text()), signal.SIGKILL)


ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@pytest.mark.timeout(180)
@ERAS
@pytest.mark.parametrize("decided", ["while it is away", "afterwards"])
async def test_a_gateway_that_was_killed_while_calls_wait_finds_them_again(at: Scene, mode: str, decided: str) -> None:
    gateway = Killable(at, wait=["handle"])
    async with gateway.client(mode) as client:
        told = [await client.call_tool("act", {"what": str(number)}) for number in range(3)]
        gateway.kill()
    between = acts(at.folder)
    if decided == "while it is away":
        for _ in range(3):
            await at.decide()
    async with gateway.client(mode) as client:
        if decided == "afterwards":
            for each in told:
                await check(client, handle_of(each), wait_seconds=0)
            for _ in range(3):
                await at.decide()
        done = [text_of(await check(client, handle_of(each), wait_seconds=40)) for each in told]

    assert between == []
    assert done == ["acted 0", "acted 1", "acted 2"]
    assert sorted(each.split()[1] for each in acts(at.folder)) == ["0", "1", "2"]


@pytest.mark.timeout(180)
async def test_a_call_that_was_held_open_is_found_by_the_handle_that_its_progress_told(at: Scene) -> None:
    heard: list[str] = []
    first = anyio.Event()

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message or "")
        first.set()

    gateway = Killable(at, wait=["open"])
    async with gateway.client() as client:
        call = asyncio.create_task(client.call_tool("act", ACT, progress_callback=hear))
        await first.wait()
        gateway.kill()
        await asyncio.gather(call, return_exceptions=True)
    await at.decide()
    handle = heard[0].rpartition("handle ")[2].rstrip(")")
    again = Killable(at, wait=["handle"])
    async with again.client() as client:
        done = await check(client, handle, wait_seconds=40)

    assert text_of(done) == "acted 1"
    assert len(acts(at.folder)) == 1


@pytest.mark.timeout(180)
async def test_a_gateway_that_was_killed_while_a_call_runs_leaves_it_in_doubt(at: Scene) -> None:
    gateway = Killable(at, wait=["handle"], behaviour="silence once")
    async with gateway.client() as client:
        told = await client.call_tool("act", ACT)
        await at.decide()
        async with asyncio.timeout(PATIENCE):
            while not acts(at.folder):  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.05)
        gateway.kill()
    async with gateway.client() as client:
        running = await check(client, handle_of(told), wait_seconds=0)
        between = acts(at.folder)
        [question] = await at.waiting()  # when the lease of the one that is gone is over
        await at.decide("reject")
        done = await check(client, handle_of(told), wait_seconds=40)

    assert "is running" in text_of(running)
    assert len(between) == len(acts(at.folder)) == 1
    assert question.tool == "it/act"
    assert done.is_error


@pytest.mark.timeout(180)
async def test_of_two_gateways_on_one_store_one_executes(at: Scene) -> None:
    """The client started anew while the earlier gateway still runs."""
    async with (
        at.gateway({"it": rogue(at.folder, "good")}, wait=["handle"]) as one,
        at.gateway({"it": rogue(at.folder, "good")}, wait=["handle"]) as other,
        client_of(one) as first,
        client_of(other) as second,
    ):
        told = [await first.call_tool("act", {"what": str(number)}) for number in range(5)]
        waiting = [asyncio.create_task(check(second, handle_of(each), wait_seconds=40)) for each in told]
        for _ in told:
            await at.decide()
        done = [text_of(await each) for each in waiting]
        again = [text_of(await check(first, handle_of(each))) for each in told]

    assert done == again == [f"acted {number}" for number in range(5)]
    assert len(acts(at.folder)) == 5
