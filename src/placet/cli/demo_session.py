"""One run of the demo, from whichever process: begun, gone on with, decided about, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from placet import Runner, RunResult, RunState, UserError
from placet.cli.cards import Card
from placet.cli.demo_case import MAX_TURNS, TASK, Shop, stakes, support_agent
from placet.cli.demo_folder import DemoFolder, SavingStore
from placet.cli.exit_codes import CommandFailed
from placet.cli.verdicts import Decision, decide
from placet.core.story import Asked, RunStory, Story, story_of
from placet.facts.codec import parse_arguments
from placet.facts.errors import PlacetError
from placet.facts.ids import split_call_id


class DemoSession:
    def __init__(self, folder: DemoFolder, by: str) -> None:
        self.folder = folder
        self.shop = Shop(folder.shop)
        self.is_resumed = False
        self._by = by
        self._agent = support_agent(self.shop)
        self._store = SavingStore(folder)
        self._result: RunResult | None = None

    @property
    def result(self) -> RunResult:
        assert self._result is not None, "begin() comes first"
        return self._result

    @property
    def has_ended(self) -> bool:
        return self.result.to_state().has_ended

    def begin(self) -> None:
        """Go on with the run in the folder, or start one."""
        text = self.folder.read()
        if text is None:
            self.folder.clear()
            self.shop.open()
            self._result = Runner.run_sync(self._agent, TASK, store=self._store, max_turns=MAX_TURNS)
            return
        self.is_resumed = True
        self.shop.open()
        state = self._load(text)
        self._store.know(state)
        self._result = Runner.run_sync(self._agent, state, store=self._store)

    def _load(self, text: str) -> RunState[None]:
        try:
            return asyncio.run(RunState.from_string(self._agent, text))
        except PlacetError as error:
            raise CommandFailed(
                f"{self.folder.state} cannot be gone on from. {error}\n«placet demo --terminal --reset» starts afresh."
            ) from error

    def story(self) -> RunStory:
        return story_of(self._store.records())

    def waiting(self) -> list[Card]:
        """What waits, each under the number that it keeps for the whole run."""
        numbers = self._numbers()
        return [
            Card(numbers[split_call_id(item.id)[1]], item, stakes(item.name, parse_arguments(item.arguments or "")))
            for item in self.result.interruptions
        ]

    def _numbers(self) -> dict[str, int]:
        """The calls that a person was ever asked about, numbered in the order of asking."""
        steps = Story().read(self._store.records())
        asked = dict.fromkeys(step.call for step in steps if isinstance(step, Asked))
        return {call: number for number, call in enumerate(asked, 1)}

    def problem_with(self, card: Card, decision: Decision) -> str | None:
        """Why this cannot be decided, or None. Nothing is changed by asking."""
        try:
            self._note(self.result.to_state(), card, decision)
        except UserError as error:
            return str(error)
        return None

    def decide(self, decisions: Iterable[tuple[Card, Decision]]) -> None:
        """Note the decisions, all or none; they are in the file before the run goes on, and the run goes on."""
        state = self.result.to_state()
        for card, decision in decisions:
            self._note(state, card, decision)
        self.folder.save(state.to_string())
        self._result = Runner.run_sync(self._agent, state, store=self._store)

    def _note(self, state: RunState[None], card: Card, decision: Decision) -> None:
        decide(state, card.item, card.arguments or {}, decision, self._by)
