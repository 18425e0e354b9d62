"""The full-screen inbox: a list, a card, one line that asks. The same keys as on the page.

Rule of this file: a key decides only about what was in sight. What has just come into sight takes no decision yet; a
hasty key begins the wait anew.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import ClassVar

from click import ClickException
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from placet.cli.inbox import drawing
from placet.cli.inbox.queue import VERDICT, Card, Done, Queue
from placet.cli.output import shown
from placet.facts.codec import Json, JsonObject

PACE = 0.6
"""Seconds for which what has just come into sight takes no decision."""
GATHER = 0.2
"""Seconds for which news is let gather before the list is read again."""
RETRY = 2.0
SHORT_KEYS = "a approve  r reject  e edit  w answer  u undo  v together  s order  / search  ? keys  q quit"

Edit = Callable[[JsonObject], JsonObject | None]
"""Lets a person change arguments; None: they were left as they are."""
Then = Callable[[str], Awaitable[None]]


class InboxApp(App[None]):
    """What waits for a person, in a terminal."""

    CSS = """
    #bar { height: 1; background: $primary-background; padding: 0 1; text-style: bold; }
    #list { width: 42%; max-width: 72; height: 100%; border: none; border-right: solid $primary-background; }
    #list { scrollbar-size-vertical: 1; }
    #card { padding: 0 1; }
    #say { height: auto; max-height: 4; padding: 0 1; }
    #keys { height: 1; padding: 0 1; color: $text-muted; }
    #ask { display: none; height: 3; }
    .is-asking #ask { display: block; }
    .is-narrow #list { width: 100%; max-width: 100%; height: 45%; border-right: none; }
    .is-narrow #both { layout: vertical; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"press('{key}')", show=False) for key in "jkarewuovsq"),
        Binding("slash", "press('/')", show=False),
        Binding("question_mark", "press('?')", show=False),
        Binding("space", "press(' ')", show=False),
        Binding("enter", "confirm", show=False, priority=True),
        Binding("escape", "leave", show=False, priority=True),
        Binding("ctrl+c", "quit", show=False),
    ]

    def __init__(self, queue: Queue, *, edit: Edit | None = None, pace: float = PACE) -> None:
        super().__init__()
        self.queue = queue
        self.card: Card | None = None
        self._edit = edit
        self._pace = pace
        self._armed_at = 0.0
        self._confirm: Callable[[], Awaitable[None]] | None = None
        """What Enter does, where something is asked."""
        self._then: Then | None = None
        """What becomes of the text that is typed."""
        self._done: list[Done] = []
        """What the last gesture decided: «undo» takes it back."""
        self._state = "…"
        self._news = asyncio.Event()

    # -- what is seen -------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(id="bar", markup=False)
        with Horizontal(id="both"):
            yield OptionList(id="list", markup=False)
            with VerticalScroll(id="card"):
                yield Static(id="text", markup=False)
        yield Static(id="say", markup=False)
        yield Input(id="ask")
        yield Static(
            "a approve  r reject  e edit  w answer  u undo  v together  s order  / search  ? keys  q quit", id="keys"
        )

    def on_mount(self) -> None:
        self.query_one("#list").focus()
        self._fit()
        self.refresh_soon()
        self.listen()
        self.follow_news()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        self.set_class(self.size.width < 90, "is-narrow")
        if self.card is not None:
            self._draw_card()

    def say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self.query_one("#say", Static).update(Text(shown(text, keep_lines=True), style))

    def _draw_bar(self) -> None:
        order = {"": "oldest first", "risk": "most care first", "deadline": "deadline first", "newest": "newest first"}
        view = self.queue.view
        parts = ["Placet", f"{self.queue.total} {'found' if view.words else 'wait'}", order[view.sort], self._state]
        if view.words:
            parts.insert(2, f"«{view.words}» of {self.queue.waiting}")
        self.query_one("#bar", Static).update("  ·  ".join(shown(each) for each in parts))

    def _draw_list(self) -> None:
        """The lines anew; the one that is open stays so, or what is now in its place becomes it."""
        found = self.query_one("#list", OptionList)
        at = found.highlighted or 0
        ids = [str(each["id"]) for each in self.queue.lines]
        if self.card is not None and self.card.id in ids:
            at = ids.index(self.card.id)
        width = max(20, found.size.width - 4)
        found.clear_options()
        found.add_options([Option(drawing.line(each, width), id=str(each["id"])) for each in self.queue.lines])
        if ids:
            found.highlighted = min(at, len(ids) - 1)
        else:
            self.card = None
            self.query_one("#text", Static).update("Nothing waits." if not self.queue.view.words else "Nothing found.")

    def _draw_card(self) -> None:
        if self.card is None:
            return
        width = self.query_one("#card").size.width - 3
        self.query_one("#text", Static).update(drawing.card(self.card, width if width > 20 else 60))

    # -- what happens -------------------------------------------------------------------------------------------------

    @work(exclusive=True, group="list")
    async def refresh_soon(self) -> None:
        await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self.queue.refresh()
        except ClickException as error:
            self.say(error.message, "red")
            return
        self._draw_bar()
        self._draw_list()

    @work(group="news")
    async def listen(self) -> None:
        """News of the desk, for as long as this runs."""
        while True:
            try:
                self._state = "live"
                self._draw_bar()
                async for _ in self.queue.desk.events("/v1/events", {}):
                    self._news.set()
            except ClickException:
                self._state = "not live"
                self._draw_bar()
                await asyncio.sleep(RETRY)
                self._news.set()

    @work(group="follow")
    async def follow_news(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(GATHER)
            self._news.clear()
            await self._refresh()
            await self._look_again()

    async def _look_again(self) -> None:
        """What is open may have been decided by somebody else: what is asked about it then is over."""
        if self.card is None or self.card.deck is not None:
            return
        was = self.card.request.get("status")
        try:
            request = await self.queue.desk.ask("GET", f"/v1/approvals/{self.card.id}")
        except ClickException:
            return
        if request["status"] != was and request["id"] == self.card.request.get("id"):
            self.card.request = request
            self._draw_card()
            if self._confirm is not None or self._then is not None:
                self.action_leave()
                self.say(
                    f"{request['status']} by {request.get('decided_by') or 'an unnamed person'} meanwhile.", "yellow"
                )

    @on(OptionList.OptionHighlighted)
    def _opened(self, event: OptionList.OptionHighlighted) -> None:
        if event.option.id is not None and (self.card is None or event.option.id != self.card.id):
            self.open_line(event.option.id)

    @work(exclusive=True, group="card")
    async def open_line(self, line_id: str) -> None:
        self._forget_question()
        try:
            self.card = await self.queue.open(line_id)
        except ClickException as error:
            self.card = None
            self.say(error.message, "red")
            return
        self._armed_at = time.monotonic() + self._pace
        self._draw_card()
        self.query_one("#card", VerticalScroll).scroll_home(animate=False)

    # -- keys ---------------------------------------------------------------------------------------------------------

    async def action_press(self, key: str) -> None:
        if self._then is not None:  # typing
            return
        match key:
            case "j" | "k":
                found = self.query_one("#list", OptionList)
                found.action_cursor_down() if key == "j" else found.action_cursor_up()
            case "q":
                self.exit()
            case "?":
                self.say(drawing.KEYS)
                self.query_one("#text", Static).update(drawing.KEYS)
            case "v" | "s":
                self._another_view(key)
            case "/":
                self._type("Search", self._search, self.queue.view.words)
            case "u":
                await self._undo()
            case _:
                await self._about_the_card(key)

    def _another_view(self, key: str) -> None:
        view, sorts = self.queue.view, self.queue.sorts
        if key == "v":
            view.is_grouped = not view.is_grouped
        else:
            view.sort = sorts[(sorts.index(view.sort) + 1) % len(sorts)] if view.sort in sorts else ""
        self.card = None
        self.refresh_soon()

    async def _search(self, words: str) -> None:
        self.queue.view.words = words.strip()
        self.card = None
        await self._refresh()

    async def _about_the_card(self, key: str) -> None:
        card = self.card
        if card is None or not card.is_open:
            self.say("Nothing is open that waits for a decision.")
            return
        if time.monotonic() < self._armed_at:
            self._armed_at = time.monotonic() + self._pace
            self.say("This has just come into sight: look at it, then decide.", "yellow")
            return
        if key == " ":
            card.seen = True
            self._draw_card()
        elif key == "o":
            self._offer(card)
        elif key == "a":
            await self._approve(card)
        elif key == "r":
            self._type("Reject, with a message to the model", lambda text: self._reject(card, text))
        elif card.deck is not None:
            self.say("Open one by itself (v) to edit or answer it.")
        elif key == "e":
            await self._change(card)
        elif key == "w":
            self._type("The answer in the tool's place", lambda text: self._decide(card, "respond", output=text))

    async def _approve(self, card: Card) -> None:
        """What is usual at once; what is unusual after it was seen; what cannot be undone by its name."""
        if card.deck is None and card.differs.get("why_not"):
            self.say(str(card.differs["why_not"]), "red")
        elif card.odd and not card.seen:
            self.say("Something is unusual: read it, and press Space when you have seen it.", "yellow")
        elif card.care == "high":
            tool = str(card.request["tool"])
            self._type(
                f"Nobody can undo it: type {tool} to approve it", lambda text: self._approve_named(card, tool, text)
            )
        elif card.care == "usual":
            await self._yes(card)
        else:
            self._ask("Approve this? Enter approves, Esc leaves it.", lambda: self._yes(card))

    async def _approve_named(self, card: Card, tool: str, text: str) -> None:
        if text.strip() == tool:
            await self._yes(card)
        else:
            self.say(f"That is not {tool}: nothing was decided.", "yellow")

    async def _yes(self, card: Card) -> None:
        if card.deck is not None:
            await self._took(await self.queue.decide_deck(card, "approve"))
        else:
            await self._decide(card, "approve")

    async def _reject(self, card: Card, text: str) -> None:
        given: dict[str, Json] = {"message": text} if text else {}
        if card.deck is not None:
            await self._took(await self.queue.decide_deck(card, "reject", text))
        else:
            await self._decide(card, "reject", **given)

    async def _change(self, card: Card) -> None:
        arguments = card.request["arguments"]
        if self._edit is None or not isinstance(arguments, dict):
            self.say("These arguments cannot be edited here.")
            return
        with self.suspend():
            try:
                edited = self._edit(arguments)
            except (ClickException, json.JSONDecodeError) as error:
                self.say(str(error), "red")
                return
        if edited is None or edited == arguments:
            self.say("Nothing was changed, and nothing decided.")
        else:
            await self._decide(card, "edit", arguments=edited)

    async def _decide(self, card: Card, verdict: VERDICT, **given: Json) -> None:
        await self._took([await self.queue.decide(card, verdict, **given)])

    async def _took(self, done: list[Done]) -> None:
        good = [each for each in done if each.is_good]
        bad = [each for each in done if not each.is_good]
        self._done = [each for each in good if each.can_undo]
        text = good[0].text if len(good) == 1 else f"{len(good)} decided"
        said = [text] if good else []
        said += [each.text for each in bad[:3]]
        undo = "  u: undo" if self._done else ""
        self.say(f"{'. '.join(said)}.{undo}", "green" if not bad else "red")
        if good:
            self.card = None
        await self._refresh()

    async def _undo(self) -> None:
        if not self._done:
            self.say("Nothing can be taken back.")
            return
        done, self._done = self._done, []
        answers = [await self.queue.undo(each) for each in done]
        self.say(". ".join(dict.fromkeys(each.text for each in answers)), "green" if answers[-1].is_good else "red")
        await self._refresh()

    def _offer(self, card: Card) -> None:
        if card.deck is None or not card.deck.get("offer"):
            self.say("Nothing is offered here.")
            return
        self.query_one("#text", Static).update(drawing.offer(card))
        self._ask("Make this standing decision? Enter makes it, Esc leaves it.", lambda: self._take_offer(card))

    async def _take_offer(self, card: Card) -> None:
        await self._took([await self.queue.take_offer(card)])

    # -- asking -------------------------------------------------------------------------------------------------------

    def _ask(self, text: str, then: Callable[[], Awaitable[None]]) -> None:
        self._confirm = then
        self.say(text, "bold")

    def _type(self, label: str, then: Then, value: str = "") -> None:
        self._then = then
        self._confirm = None
        field = self.query_one("#ask", Input)
        field.border_title = label
        field.placeholder = label
        field.value = value
        self.add_class("is-asking")
        field.focus()

    def _forget_question(self) -> None:
        self._confirm = self._then = None
        self.remove_class("is-asking")
        self.query_one("#list").focus()

    async def action_confirm(self) -> None:
        then, confirm, text = self._then, self._confirm, self.query_one("#ask", Input).value
        if then is None and confirm is None:
            return
        self._forget_question()
        if then is not None:
            await then(text)
        elif confirm is not None:
            await confirm()

    def action_leave(self) -> None:
        self._forget_question()
        self.say("")
        self._draw_card()
