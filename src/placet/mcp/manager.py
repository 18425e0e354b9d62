"""Several servers, connected and let go together: those that cannot be reached are named, and the others work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from placet.mcp.server import MCPServer

logger = logging.getLogger("placet.mcp")


class MCPServerManager:
    """`async with MCPServerManager(servers) as manager: Agent(mcp_servers=manager.active_servers)`."""

    def __init__(
        self,
        servers: Iterable[MCPServer],
        *,
        connect_timeout_seconds: float | None = 10.0,
        cleanup_timeout_seconds: float | None = 10.0,
        drop_failed_servers: bool = True,
        strict: bool = False,
        suppress_cancelled_error: bool = True,
        connect_in_parallel: bool = False,
    ) -> None:
        self.all_servers = list(servers)
        self.connect_timeout_seconds = connect_timeout_seconds
        self.cleanup_timeout_seconds = cleanup_timeout_seconds
        self.drop_failed_servers = drop_failed_servers
        self.strict = strict
        """Raise the first error, after letting the others go."""
        self.suppress_cancelled_error = suppress_cancelled_error
        self.connect_in_parallel = connect_in_parallel
        self.errors: dict[MCPServer, BaseException] = {}
        """Which servers could not be reached, and why."""
        self._open: dict[MCPServer, AsyncExitStack] = {}

    @property
    def failed_servers(self) -> list[MCPServer]:
        return [each for each in self.all_servers if each in self.errors]

    @property
    def active_servers(self) -> list[MCPServer]:
        """Those that an agent can be given."""
        is_kept = not self.drop_failed_servers
        return [each for each in self.all_servers if is_kept or each in self._open]

    async def connect_all(self) -> list[MCPServer]:
        await self._connect([each for each in self.all_servers if each not in self._open])
        return self.active_servers

    async def reconnect(self, *, failed_only: bool = True) -> list[MCPServer]:
        """Try those again that could not be reached, or all."""
        if not failed_only:
            await self.cleanup_all()
        chosen = self.failed_servers if failed_only else list(self.all_servers)
        for each in chosen:
            self.errors.pop(each, None)
        await self._connect(chosen)
        return self.active_servers

    async def cleanup_all(self) -> None:
        for server in reversed([*self._open]):
            stack = self._open.pop(server)
            try:
                async with asyncio.timeout(self.cleanup_timeout_seconds):
                    await stack.aclose()
            except Exception:
                logger.exception("an MCP server could not be let go", extra={"action": "mcp_cleanup_failed"})

    async def _connect(self, servers: Sequence[MCPServer]) -> None:
        if self.connect_in_parallel:
            await asyncio.gather(*map(self._connect_one, servers))
        else:
            for each in servers:
                await self._connect_one(each)
        if self.strict and self.errors:
            await self.cleanup_all()
            raise next(iter(self.errors.values()))

    async def _connect_one(self, server: MCPServer) -> None:
        stack = AsyncExitStack()
        try:
            async with asyncio.timeout(self.connect_timeout_seconds):
                await stack.enter_async_context(server)
        except Exception as error:  # it is kept, and shown as that server's
            logger.warning("an MCP server cannot be reached", extra={"action": "mcp_unreachable"}, exc_info=error)
            self.errors[server] = error
            await stack.aclose()
            return
        self.errors.pop(server, None)
        self._open[server] = stack

    async def __aenter__(self) -> Self:
        await self.connect_all()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.cleanup_all()
