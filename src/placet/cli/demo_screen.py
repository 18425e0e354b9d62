"""The demo as somebody sees it: what was asked, what waits, what came of it; or a report for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from placet.cli.cards import Card, render_card
from placet.cli.demo_prompt import ask_decision
from placet.cli.demo_report import report_of
from placet.cli.demo_session import DemoSession
from placet.cli.exit_codes import CommandFailed, UsageError
from placet.cli.story import counted
from placet.cli.terminal import Style, Terminal, is_interactive, shown, wrap
from placet.cli.timeline import render_call, render_story
from placet.cli.verdicts import Decision, Spec

HOW_TO_DECIDE = """\
Run the command again in a terminal, or decide with options:
  --yes                                   approve all
  --no "MESSAGE"                          reject all
  --decide "1=approve,2=reject:MESSAGE"   one by one; --help says more"""


class DemoScreen:
    def __init__(self, session: DemoSession, terminal: Terminal, *, for_programs: bool) -> None:
        self._session = session
        self._terminal = terminal
        self._for_programs = for_programs
        self._printed: set[str] = set()
        """The calls whose end was told."""

    # -- the course of the demo --------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._session.begin()
        if self._for_programs:
            return
        story = self._session.story()
        if self._session.is_resumed:
            self._print(f"Going on with {self._session.result.run_id}, where it was left.", "bold")
            self._terminal.print_line()
        self._quote("Task", story.input)
        self._quote(story.agent, story.turns[0].text)
        self._print_news()

    def decide_by_options(self, specs: Mapping[int, Spec], rest: Decision | None) -> None:
        """Decide what `specs` name, and everything else (also what comes up later) as `rest` says."""
        cards = self._session.waiting()
        chosen = self._checked(specs, cards)
        while cards:
            if rest is not None:
                chosen |= {card.number: rest for card in cards if card.number not in chosen}
            if not chosen:
                return
            self._session.decide([(card, chosen[card.number]) for card in cards if card.number in chosen])
            self._print_news()
            chosen, cards = {}, self._session.waiting()

    def _checked(self, specs: Mapping[int, Spec], cards: list[Card]) -> dict[int, Decision]:
        """The decisions that the specs mean for these cards, all of them possible; otherwise an error says why not."""
        waiting = {card.number: card for card in cards}
        chosen: dict[int, Decision] = {}
        for number, spec in specs.items():
            if number not in waiting:
                listed = ", ".join(map(str, waiting)) or "nothing"
                raise UsageError(f"Call {number} does not wait (what waits: {listed}). Nothing was decided.")
            chosen[number] = spec.decision(waiting[number].arguments or {})
            problem = self._session.problem_with(waiting[number], chosen[number])
            if problem is not None:
                raise CommandFailed(f"Call {number}: {problem}\nNothing was decided.")
        return chosen

    def decide_at_the_prompt(self) -> None:
        if self._session.waiting():
            self._print(f"Leave whenever you like, even by kill -9 {os.getpid()}: run again, it goes on here.", "dim")
        while cards := self._session.waiting():
            card = cards[0]
            self._show_waiting([card], len(cards))

            def check(decision: Decision, card: Card = card) -> str | None:
                return self._session.problem_with(card, decision)

            decision = ask_decision(card, self._terminal, check)
            if decision is None:
                return
            self._session.decide([(card, decision)])
            self._terminal.print_line()
            self._print_news()

    def finish(self) -> None:
        """Show the end, or what waits. Only a run whose end was shown is put aside."""
        session = self._session
        if self._for_programs:
            self._terminal.print_line(json.dumps(report_of(session), indent=2, ensure_ascii=False))
        elif session.has_ended:
            self._show_end()
        elif is_interactive():
            self.print_how_to_continue()
        else:
            cards = session.waiting()
            self._show_waiting(cards, len(cards))
            self._terminal.print_line(HOW_TO_DECIDE)
        if session.has_ended:
            session.folder.put_aside()

    # -- what is printed ---------------------------------------------------------------------------------------------

    def _show_waiting(self, cards: list[Card], total: int) -> None:
        what = "1 call waits" if total == 1 else f"{total} calls wait"
        self._print(f"{what} for a decision.", "bold")
        for card in cards:
            self._terminal.print_lines(render_card(card, self._terminal))

    def _show_end(self) -> None:
        session, story = self._session, self._session.story()
        self._quote(story.agent, str(session.result.final_output))
        self._print("What happened", "bold")
        self._terminal.print_lines([*render_story(story, session.result.run_id, self._terminal), ""])
        paid = counted(len(session.shop.refunds()), "refund")
        self._print(f"The shop paid {paid}; its receipts are in {session.shop.receipts}{os.sep}", "dim")
        self._print(f"The run's log is in {session.folder.last}", "dim")

    def print_how_to_continue(self) -> None:
        if not self._for_programs:
            self._terminal.print_line()
            self._print(f"The run waits in {self._session.folder.state}. Run the command again to go on.", "bold")

    def _print_news(self) -> None:
        """Tell of every call that has ended since the last time."""
        if self._for_programs:
            return
        for call in self._session.story().calls():
            if call.outcome is not None and call.id not in self._printed:
                self._printed.add(call.id)
                self._terminal.print_lines([*render_call(call, self._terminal), ""])

    def _quote(self, who: str, text: str) -> None:
        terminal = self._terminal
        indent = "  "
        terminal.print_line(terminal.paint(shown(who), "bold", "cyan"))
        for line in wrap(shown(text, keep_lines=True), terminal.width - len(indent)):
            terminal.print_line(f"{indent}{line}".rstrip())
        terminal.print_line()

    def _print(self, text: str, style: Style) -> None:
        for line in wrap(shown(text), self._terminal.width):
            self._terminal.print_line(self._terminal.paint(line.rstrip(), style))
