"""What the tests of MCP servers share: the shop as a process, agents that use it, and what really happened there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from placet import Agent, RunResult
from placet.mcp import MCPServerInProcess, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from placet.testing import ScriptedModel, assistant_message, function_call
from tests.mcp import shop
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SHOP = Path(__file__).with_name("shop.py")
PATIENCE = 90.0
"""Seconds after which a test gives up what another process should have done. On an idle machine none waits for long."""


def call(tool: str, label: str, /, **arguments: Any) -> Any:
    return function_call(tool, arguments, call_id=label)


DONE = [assistant_message("done")]


class Effects:
    """What the shop did, as it wrote it down itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    async def wait_for(self, line: str) -> None:
        await until(lambda: line in self.lines)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process brings about."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.01)  # no event of ours tells of what another process does


def environment(effects: Effects, **more: str) -> dict[str, str]:
    return {"SHOP_EFFECTS": str(effects.path), **more}


def stdio_shop(effects: Effects, *, env: dict[str, str] | None = None, **options: Any) -> MCPServerStdio:
    params: Any = {
        "command": sys.executable,
        "args": [str(SHOP), "stdio"],
        "env": environment(effects, **(env or {})),
        "cwd": str(ROOT),
    }
    return MCPServerStdio(params, name=options.pop("name", "shop"), **options)


def own_shop(**options: Any) -> MCPServerInProcess:
    """The shop in this process, for tests in which no process matters."""
    return MCPServerInProcess(shop.shop, name=options.pop("name", "shop"), **options)


class ShopProcess:
    """The shop behind a port, started and killed by the test."""

    def __init__(self, effects: Effects, kind: str = "http", port: int | None = None, **env: str) -> None:
        self.port = port or free_port()
        self.kind = kind
        self._process = subprocess.Popen(  # noqa: S603  # a program of our own
            [sys.executable, str(SHOP), kind, str(self.port)],
            env={**os.environ, **environment(effects, **env)},
            cwd=ROOT,
        )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert self._process.poll() is None, "the shop did not start"
            time.sleep(0.02)
        raise AssertionError("the shop did not open its port in time")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{'/sse' if self.kind == 'sse' else '/mcp'}"

    def server(self, **options: Any) -> MCPServerStreamableHttp | MCPServerSse:
        kind = MCPServerSse if self.kind == "sse" else MCPServerStreamableHttp
        return kind({"url": self.url}, name=options.pop("name", "shop"), **options)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()


@contextlib.contextmanager
def running(effects: Effects, kind: str = "http", **given: Any) -> Iterator[ShopProcess]:
    process = ShopProcess(effects, kind, **given)
    try:
        yield process
    finally:
        process.close()


def agent_with(*servers: Any, steps: list[Any] | None = None, **options: Any) -> Agent[Any]:
    return Agent(
        name=options.pop("name", "ops"), mcp_servers=list(servers), model=ScriptedModel(steps or [DONE]), **options
    )


async def run_program(module: str, *arguments: str) -> str:
    """Run a program of the tests in a process of its own; what it said."""
    return await _run_python("-m", module, *arguments)


async def run_program_text(text: str) -> str:
    return await _run_python("-c", text)


async def _run_python(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0
    return said.decode()


def outputs(result: RunResult) -> dict[str, Any]:
    """What the model read, by call label."""
    return {
        item.call_id: item.output for item in result.new_items if getattr(item, "type", "") == "tool_call_output_item"
    }


def children() -> set[int]:
    """The servers that this process has started and that live; it may have others, for other tests."""
    found: set[int] = set()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parts = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(parts[1]) == os.getpid() and parts[0] != "Z" and _is_server(each):
                found.add(int(each.name))
    return found


def _is_server(process: Path) -> bool:
    try:
        return b"mcp" in (process / "cmdline").read_bytes()
    except OSError:
        return False
