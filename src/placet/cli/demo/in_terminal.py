"""The demo in the terminal: one run on a desk without a web server, cards, and a person who decides about them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Group
from rich.prompt import Prompt
from rich.text import Text

from placet.cli.cards import as_object, card
from placet.cli.commands.decide import typed_value
from placet.cli.demo.agents import TERMINAL_RUN, demo_agents, effects_of
from placet.cli.exit_codes import INTERRUPTED, OK
from placet.cli.output import Screen, Whole, echo_json, is_interactive, shown, value_text
from placet.cli.picture import call_lines, run_picture
from placet.core.log import read_lines
from placet.core.story import story_of
from placet.core.story_tree import RunStory
from placet.desk.desk import Desk, DeskRequest, DeskRun
from placet.facts.codec import JsonObject
from placet.facts.errors import PlacetError
from placet.facts.events import Verdict
from placet.facts.verdict_words import counted

STARTED_BY = "placet demo --terminal"
PATIENCE = 1.0
"""Seconds after which a run that another process drives is tried again: that process may have died."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody decides."""

    verdict: Verdict
    message: str | None = None
    arguments: JsonObject | None = None
    output: str | None = None

    @classmethod
    def by_options(cls, is_yes: bool, no_message: str | None) -> Answer | None:
        """What `--yes` and `--no` decide about all that waits; None: a person is asked."""
        if is_yes:
            return cls("approve")
        return None if no_message is None else cls("reject", no_message or None)


def decide_here(folder: Path, store: str, by: str, answer: Answer | None, *, as_json: bool) -> int:
    """Start the run, or go on with the one that was left; decide by `answer`, or ask the person who is there."""
    # Not one asyncio.run: while it lasts, Ctrl-C would only be noted, and a prompt would go on waiting.
    with asyncio.Runner() as runner:
        desk = Desk(store, agents=demo_agents(folder), run=False)
        runner.run(desk.__aenter__())
        try:
            demo = _Demo(runner, desk, by, Screen())
            demo.begin(quietly=as_json)
            if answer is not None:
                demo.decide_all(answer, quietly=as_json)
            elif not as_json and is_interactive():
                demo.decide_at_the_prompt()
            demo.finish(folder, store, as_json=as_json)
        except KeyboardInterrupt:
            Screen().show("", Text("The run waits. Run the command again to go on.", "bold"))
            return INTERRUPTED
        finally:
            runner.run(desk.__aexit__(None, None, None))
    return OK


class _Demo:
    def __init__(self, runner: asyncio.Runner, desk: Desk, by: str, screen: Screen) -> None:
        self._do = runner.run
        self._desk = desk
        self._by = by
        self._screen = screen
        self._printed: set[str] = set()
        """The calls whose end was told."""
        self.run: DeskRun

    # -- the course of the demo ---------------------------------------------------------------------------------------

    def begin(self, *, quietly: bool) -> None:
        found = self._do(self._left())
        self.run = self._do(self._rested(found or self._do(self._started())))
        if quietly:
            return
        if found is not None:
            self._screen.show(Text(f"Going on with {self.run.id}, where it was left.", "bold"), "")
        story = self._story()
        self._quote("Task", story.input)
        self._print_news(story)

    def decide_all(self, answer: Answer, *, quietly: bool) -> None:
        while waiting := self._waiting():
            for request in waiting:
                self._do(self._decided(request, answer))
            self._go_on(quietly=quietly)

    def decide_at_the_prompt(self) -> None:
        if self._waiting():
            leave = f"Leave whenever you like, even by kill -9 {os.getpid()}: run again, it goes on here."
            self._screen.show(Text(leave, "dim"))
        while waiting := self._waiting():
            self._show_waiting(waiting[:1], len(waiting))
            if not self._ask_about(waiting[0]):
                return
            self._screen.show("")
            self._go_on(quietly=False)

    def finish(self, folder: Path, store: str, *, as_json: bool) -> None:
        waiting = self._waiting()
        if as_json:
            pending = [as_object(request) for request in waiting]
            echo_json({"run": msgspec.to_builtins(self.run), "pending": pending, "effects": effects_of(folder)})
        elif self.run.status == "ended":
            self._show_end(folder)
        elif is_interactive():
            self._screen.show("", Text("The run waits. Run the command again to go on.", "bold"))
        else:
            self._show_waiting(waiting, len(waiting))
            self._screen.show(
                "Add --yes, or --no MESSAGE; or decide with the other commands, and run this one again:",
                *(Text(f"  placet approve '{request.id}' --store {store}") for request in waiting),
                soft=True,
            )

    # -- the desk -----------------------------------------------------------------------------------------------------

    async def _left(self) -> str | None:
        """The run that an earlier demo started and that has not ended."""
        rows = (await self._desk.runs(agent=TERMINAL_RUN[0])).rows
        return next((run.id for run in rows if run.started_by == STARTED_BY and run.status != "ended"), None)

    async def _started(self) -> str:
        return (await self._desk.start(*TERMINAL_RUN, by=STARTED_BY)).id

    async def _rested(self, run_id: str) -> DeskRun:
        while True:
            await self._desk.drive(run_id)
            with contextlib.suppress(TimeoutError):
                return await self._desk.wait(run_id, until="paused", timeout=PATIENCE)

    def _go_on(self, *, quietly: bool) -> None:
        self.run = self._do(self._rested(self.run.id))
        if not quietly:
            self._print_news(self._story())

    async def _decided(self, request: DeskRequest, answer: Answer) -> DeskRequest:
        given: dict[str, Any] = {"message": answer.message, "arguments": answer.arguments}  # Any: keywords of decide
        if answer.output is not None:
            given["output"] = answer.output
        return await self._desk.decide(request.id, answer.verdict, by=self._by, digest=request.digest, **given)

    def _waiting(self) -> list[DeskRequest]:
        return self._do(self._desk.pending(run_id=self.run.id))

    def _story(self) -> RunStory:
        return self._do(story_in(self._desk, self.run.id))

    # -- the person ---------------------------------------------------------------------------------------------------

    def _ask_about(self, request: DeskRequest) -> bool:
        """Ask until something is decided; False: the person leaves."""
        while True:
            answer = ask_answer(request, self._screen)
            if answer is None:
                return False
            try:
                self._do(self._decided(request, answer))
            except PlacetError as error:  # an edit that does not fit the tool, or another process that was faster
                self._screen.show(Text(shown(str(error), keep_lines=True), "red"))
                if request.id not in {each.id for each in self._waiting()}:
                    return True
            else:
                return True

    # -- what is printed ----------------------------------------------------------------------------------------------

    def _show_waiting(self, waiting: list[DeskRequest], total: int) -> None:
        what = "1 call waits" if total == 1 else f"{total} calls wait"
        cards = [card(as_object(request), self._screen) for request in waiting]
        self._screen.show(Text(f"{what} for a decision.", "bold"), *cards)

    def _show_end(self, folder: Path) -> None:
        self._quote(self.run.agent, str(self.run.final_output))
        self._screen.show(
            Text("What happened", "bold"), run_picture(self._story(), self.run.id, self._screen), "",
            Text(f"{counted(len(effects_of(folder)), 'effect')} so far, in {folder / 'effects.txt'}", "dim"),
        )  # fmt: skip

    def _print_news(self, story: RunStory) -> None:
        """Tell of every call that has ended since the last time."""
        for call in story.calls():
            if call.outcome is not None and call.id not in self._printed:
                self._printed.add(call.id)
                self._screen.show(Group(*call_lines(call, self._screen, self._screen.width)), "")

    def _quote(self, who: str, text: str) -> None:
        self._screen.show(Text(shown(who), "bold cyan"), Whole(shown(text, keep_lines=True), sign="  "), "")


async def story_in(desk: Desk, run_id: str) -> RunStory:
    """What the log of a run says."""
    stored = await desk.store.load(run_id)
    return story_of(read_lines(stored.log.lines) if stored is not None and stored.log is not None else [])


# -- asking -----------------------------------------------------------------------------------------------------------

_MENU = {"a": "pprove", "r": "eject", "e": "dit", "s": "ay the result yourself", "q": "uit"}
_MENU_IN_DOUBT = {"a": "gain: run it", "r": "eject: give up", "s": "ay the result yourself", "q": "uit"}


class _Menu(Prompt):
    illegal_choice_message = "Type one of the letters in brackets, and Enter."
    prompt_suffix = " "


def ask_answer(request: DeskRequest, screen: Screen) -> Answer | None:
    """What the person decides; None when they leave."""
    menu = _MENU_IN_DOUBT if request.kind == "in_doubt" else _MENU
    words = Text("   ").join(Text.assemble((f"[{key}]", "bold cyan"), rest) for key, rest in menu.items())
    prompt = words.append(f"\n{screen.signs.prompt}")
    while True:
        try:
            choice = _Menu.ask(prompt, console=screen, choices=list(menu), show_choices=False, case_sensitive=False)
        except EOFError:
            return None
        if choice == "q":
            return None
        answer = _with_its_words(choice, request, screen)
        if answer is not None:
            return answer


def _with_its_words(choice: str, request: DeskRequest, screen: Screen) -> Answer | None:
    """The decision, with what it needs; None when the person thinks better of it."""
    sign = screen.signs.prompt
    try:
        match choice:
            case "a":
                return Answer("approve")
            case "r":
                message = _line(screen, f"What should the model read? (Enter: only that it was not approved) {sign}")
                return Answer("reject", message or None)
            case "s":
                output = _line(screen, f"The result that the model reads in the tool's place {sign}")
                return Answer("respond", output=output) if output else None
            case _:
                return _edit(request, screen)
    except EOFError:
        screen.show("")
        return None


def _edit(request: DeskRequest, screen: Screen) -> Answer | None:
    """Ask argument by argument."""
    asked = request.arguments if isinstance(request.arguments, dict) else {}
    changed: JsonObject = {}
    screen.show(Text("Enter keeps what stands in brackets; Ctrl-D leaves the call as it is.", "dim"))
    for name, value in asked.items():
        typed = _line(screen, f"  {shown(name)} [{value_text(value)}] {screen.signs.prompt}")
        if typed:
            changed[name] = typed_value(typed, value)
    if all(asked[name] == value for name, value in changed.items()):
        screen.show("Nothing was changed.")
        return None
    return Answer("edit", arguments={**asked, **changed})


def _line(screen: Screen, prompt: str) -> str:
    """A line that the person typed; EOFError when they closed the input (Ctrl-D)."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # being imported is all it needs: people can then correct what they type
    try:
        return screen.input(Text(f"{prompt} "), markup=False, emoji=False).strip()
    except UnicodeDecodeError:
        return ""  # not text: as good as nothing
