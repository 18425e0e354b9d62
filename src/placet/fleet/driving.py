"""Driving stored runs: take one, find its agent, make its context, go on with it as far as it goes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from placet.agent import Agent
from placet.agent_graph import AgentGraph
from placet.codec import JsonObject
from placet.core.state import RunFold
from placet.errors import RunConflict, StateRefused, UserError
from placet.ports import DeskStore
from placet.run_config import RunConfig
from placet.run_state import RunState
from placet.runtime.frame import awaited
from placet.runtime.journal import fold_log
from placet.runtime.runner import Order, carry_out
from placet.secrets import split_secrets, spoken

logger = logging.getLogger("placet.fleet")

ContextFactory: TypeAlias = Callable[[str, JsonObject | None], Any | Awaitable[Any]]
"""Called with the run's id and its stored context whenever the run is driven: for what cannot be stored."""


class Contexts:
    """How a run's context is stored and made again."""

    def __init__(
        self,
        *,
        serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        deserializer: Callable[[JsonObject], Any] | None = None,
        factory: ContextFactory | None = None,
    ) -> None:
        if (serializer is None) != (deserializer is None):
            raise UserError("A context needs a serializer and a deserializer, or neither.")
        self._serializer = serializer
        self._deserializer = deserializer
        self._factory = factory

    def dump(self, context: Any) -> JsonObject | None:
        """The context as it is stored; None: nothing of it is."""
        if context is None or (self._factory is not None and self._serializer is None):
            return None
        value = self._serializer(context) if self._serializer is not None else context
        if not isinstance(value, Mapping):
            raise UserError(
                f"A stored run's context is a mapping, not a {type(value).__name__}: pass context_serializer and "
                "context_deserializer, or a context_factory that makes it whenever the run is driven."
            )
        kept, secrets = split_secrets(value)
        if secrets:
            raise UserError(
                f"The context's fields {', '.join(map(spoken, secrets))} are secrets and cannot be stored: "
                "supply them by a context_factory."
            )
        return dict(kept) if isinstance(kept, dict) else None

    async def load(self, run_id: str, stored: JsonObject | None) -> Any:
        if self._factory is not None:
            return await awaited(self._factory(run_id, stored))
        if stored is not None and self._deserializer is not None:
            return self._deserializer(stored)
        return stored


class RunDriver:
    """Drives runs of these agents on this store."""

    def __init__(self, store: DeskStore, agents: Sequence[Agent[Any]], contexts: Contexts, config: RunConfig) -> None:
        self.agents = {agent.address: agent for agent in agents}
        if len(self.agents) != len(agents):
            raise UserError("Two agents of this desk have one name: give one of them Agent(key=…).")
        for agent in agents:
            AgentGraph(agent).check()
        self._store = store
        self._contexts = contexts
        self._config = config

    async def drive(self, run_id: str) -> None:
        """As far as it goes. A run that somebody else drives, or whose code is not here, is left alone."""
        try:
            stored = await self._store.load(run_id)
            run = fold_log(stored.log) if stored is not None and stored.log is not None else None
        except StateRefused as error:  # a fact that this version does not know: newer code will
            logger.warning(
                "run left to others", extra={"action": "run_unreadable", "run_id": run_id, "error": str(error)}
            )
            return
        agent = self.agents.get(run.starting_agent) if run is not None else None
        if stored is None or stored.log is None or run is None or agent is None or run.has_ended:
            return
        try:
            await self._go_on(agent, RunState.of_run(AgentGraph(agent), stored.log, run, None, self._config.clock), run)
        except RunConflict:
            logger.info("run driven by others", extra={"action": "run_taken", "run_id": run_id})
        except Exception as error:  # noqa: BLE001  # one run's error must not stop the others; the log of the run has it
            logger.warning(
                "run stopped", extra={"action": "run_stopped", "run_id": run_id, "error": type(error).__name__}
            )

    async def _go_on(self, agent: Agent[Any], state: RunState[Any], run: RunFold) -> None:
        context = await self._contexts.load(state.run_id, run.context)
        order = Order(
            agent=agent,
            input=state,
            config=self._config,
            store=self._store,
            context=context,
            save_context=self._contexts.dump,
        )
        await carry_out(order, None)
