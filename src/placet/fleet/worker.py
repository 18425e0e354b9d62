"""A worker: drives runs of its agents from the shared store, until it is asked to stop."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from placet.declare.agent import Agent
from placet.declare.run_config import RunConfig
from placet.facts.codec import JsonObject
from placet.facts.errors import StoreError, UserError
from placet.fleet.code_digest import code_digest
from placet.fleet.procrastinate_engine import DEFAULT_GRACE, ProcrastinateEngine
from placet.service.driving import MAX_TAKEOVERS, ContextFactory, Contexts, RunDriver, SessionFactory
from placet.service.outbox import Outbox
from placet.service.policies import PolicyGiven, opened
from placet.service.policy_keeping import PolicyKeeper
from placet.stores.postgres import PostgresStore


class Worker:
    """Runs of these agents, so many at once, out of one PostgreSQL: `await Worker(store, agents).run()`."""

    def __init__(
        self,
        store: PostgresStore,
        agents: Sequence[Agent[Any]],
        *,
        concurrency: int = 16,
        queues: Sequence[str] | None = None,
        name: str | None = None,
        grace: float = DEFAULT_GRACE,
        max_takeovers: int = MAX_TAKEOVERS,
        run_config: RunConfig | None = None,
        context_serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        context_deserializer: Callable[[JsonObject], Any] | None = None,
        context_factory: ContextFactory | None = None,
        session_factory: SessionFactory | None = None,
        policy: PolicyGiven | None = None,
    ) -> None:
        """`queues`: only runs of the agents with these names. `grace`: seconds that runs get to come to a good place
        when the worker is asked to stop. `policy`: rules about every call, as for a desk."""
        config = run_config or RunConfig()
        if policy is not None:
            config = dataclasses.replace(config, policy=opened(policy, agents))
        self.policy = config.policy
        """Where the rules in force are found; None: there are none."""
        chosen = _chosen(agents, queues)
        contexts = Contexts(serializer=context_serializer, deserializer=context_deserializer, factory=context_factory)
        self._driver = RunDriver(
            store, chosen, contexts, config, session_factory, leaves_missing=True, max_takeovers=max_takeovers
        )
        self.engine = ProcrastinateEngine(
            store,
            list(self._driver.agents),
            code=code_digest(chosen),
            limit=concurrency,
            name=name,
            grace=grace,
            clock=config.clock,
        )
        self._outbox = Outbox(store, config.clock)
        self._keeper = None if self.policy is None else PolicyKeeper(store, self.policy, config.clock)
        self._stop = asyncio.Event()

    @property
    def agents(self) -> list[str]:
        """The names of the agents whose runs it drives."""
        return [agent.name for agent in self._driver.agents.values()]

    def stop(self) -> None:
        """Begin nothing more; drives end at the next good place, or are handed back when the grace is over."""
        self._stop.set()

    async def run(self) -> None:
        """Work until `stop`."""
        if self._keeper is not None:
            await self._keeper.begin()
        serving = asyncio.create_task(self.engine.serve(self._driver.drive))
        beside = [asyncio.create_task(self._outbox.serve())]
        if self._keeper is not None:
            beside.append(asyncio.create_task(self._keeper.serve()))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.engine.leave()
            self._driver.leave()
            stopping.cancel()
            serving.cancel()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            if self._keeper is not None:
                with suppress(StoreError):
                    await self._keeper.close()
            with suppress(asyncio.CancelledError):
                await serving

    def stop_by_signals(self) -> None:
        """The first SIGTERM or SIGINT stops the worker; a second one ends the process at once."""
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            self.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number)


def _chosen(agents: Sequence[Agent[Any]], queues: Sequence[str] | None) -> list[Agent[Any]]:
    if queues is None:
        return list(agents)
    known = {agent.address: agent for agent in agents}
    by_name = {agent.name: agent for agent in agents}
    for name in queues:
        if name not in known and name not in by_name:
            raise UserError(f"There is no agent '{name}' here whose queue could be served: {', '.join(known)}.")
    return [agent for agent in agents if agent.address in queues or agent.name in queues]
