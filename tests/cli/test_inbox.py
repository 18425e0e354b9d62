"""The inbox in a terminal, driven by its keys: what it shows, what it decides, and what it does not. On a real desk."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static
from textual.worker import WorkerCancelled

from placet.cli.client import AsyncDesk
from placet.cli.inbox.app import InboxApp
from placet.cli.inbox.queue import Queue
from placet.facts.codec import JsonObject
from placet.service.search_index import SearchIndex
from tests.support.decided import remembered, waiting
from tests.support.desk_server import RunningDesk, running_desk

USUAL: list[JsonObject] = [{"order": f"{1000 + n}", "cents": 3900 + n * 50} for n in range(24)]
ODD: JsonObject = {"order": "1007", "cents": 490000}
PATIENCE = 60.0


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    """Nobody drives the runs: what was decided about a call stays in sight."""
    async with running_desk(tmp_path, run=False) as running:
        yield running


class Person:
    """Somebody before the screen."""

    def __init__(self, app: InboxApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.at_rest()

    async def at_rest(self) -> None:
        """Until what a key began has been done."""
        await self.pilot.pause()
        for each in [each for each in self.app.workers if each.group in ("list", "card")]:
            with contextlib.suppress(WorkerCancelled):  # a later one took its place
                await each.wait()
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        self.app.query_one("#ask", Input).value = text
        await self.press("enter")

    def sees(self, place: str = "#text") -> str:
        console = Console(width=100, color_system=None)
        with console.capture() as captured:
            console.print(self.app.query_one(place, Static).content)
        return captured.get()

    def lines(self) -> int:
        return self.app.query_one("#list", OptionList).option_count

    async def until(self, condition: Callable[[], bool]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < give_up, f"not seen: {self.sees('#bar')} {self.sees('#say')} {self.sees()}"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def before_the_screen(desk: RunningDesk, pace: float = 0.0) -> AsyncIterator[Person]:
    """Ana, with a token of hers, at a terminal of 140 by 40."""
    async with await desk.person("ana", "reviewer") as http:
        client = AsyncDesk(http)
        app = InboxApp(Queue(client), pace=pace)
        async with app.run_test(size=(140, 40)) as pilot:
            person = Person(app, pilot)
            await person.until(lambda: app.queue.total > 0 and app.card is not None)
            yield person


Statuses = Callable[[], Awaitable[list[str]]]


async def statuses(desk: RunningDesk) -> list[str]:
    return [row.status for row in (await desk.desk.requests(status=None)).rows if row.run_id in WAITING]


WAITING: set[str] = set()


async def asks(desk: RunningDesk, *calls: JsonObject, tool: str = "refund", irreversible: bool = False) -> None:
    run = await waiting(desk.desk.store, "Support", tool, calls, irreversible=irreversible)
    WAITING.add(run.id)


async def test_one_key_approves_a_usual_call_and_undo_takes_it_back_before_it_begins(desk: RunningDesk) -> None:
    await remembered(desk.desk.store, "Support", "refund", USUAL)
    await asks(desk, USUAL[3])
    async with before_the_screen(desk) as ana:
        shown = ana.sees()
        await ana.press("a")
        after = await statuses(desk)
        said = ana.sees("#say")
        await ana.press("u")

    assert "usual: 24 like it approved in 2 runs" in shown
    assert "4050" in shown
    assert after == ["approved"]
    assert "u: undo" in said
    assert await statuses(desk) == ["closed", "pending"]


async def test_a_deck_is_approved_whole_and_the_odd_one_stands_apart_until_it_was_seen(desk: RunningDesk) -> None:
    await remembered(desk.desk.store, "Support", "refund", USUAL)
    await asks(desk, *USUAL[:12], ODD)
    async with before_the_screen(desk) as ana:
        lines = ana.lines()
        deck = ana.sees()
        await ana.press("a")
        await ana.until(lambda: ana.app.card is not None and ana.app.card.deck is None)
        odd = ana.sees()
        await ana.press("a", "enter")
        refused = await statuses(desk)
        await ana.press("space", "a", "enter")

    assert lines == 2
    assert "12 × refund" in deck
    assert "would have made 24 of the last 24" in " ".join(deck.split())
    assert "cents: " in odd
    assert refused.count("approved") == 12
    assert await statuses(desk) == ["approved"] * 13


async def test_reject_with_a_message_takes_the_key_the_text_and_enter(desk: RunningDesk) -> None:
    await asks(desk, {"order": "7"})
    async with before_the_screen(desk) as ana:
        await ana.press("r")
        await ana.type("not without a ticket")

    (row,) = (await desk.desk.requests(status="rejected")).rows
    stored = await desk.desk.store.load(row.run_id)
    assert stored is not None
    assert stored.log is not None
    assert any(b"not without a ticket" in line for line in stored.log.lines)
    assert row.decided_by == "ana"


async def test_what_is_not_usual_asks_first_and_escape_decides_nothing(desk: RunningDesk) -> None:
    await asks(desk, {"order": "7"})
    async with before_the_screen(desk) as ana:
        await ana.press("a", "escape", "enter")
        left = await statuses(desk)
        await ana.press("a", "enter")

    assert left == ["pending"]
    assert await statuses(desk) == ["approved"]


async def test_what_cannot_be_undone_is_approved_by_its_name_alone(desk: RunningDesk) -> None:
    await asks(desk, {"table": "orders"}, tool="drop_table", irreversible=True)
    async with before_the_screen(desk) as ana:
        await ana.press("a", "enter", "a")
        await ana.type("drop")
        left = await statuses(desk)
        await ana.press("a")
        await ana.type("drop_table")

    assert left == ["pending"]
    assert await statuses(desk) == ["approved"]


async def test_the_standing_decision_that_a_deck_offers_is_read_with_one_key_and_made_with_the_next(
    desk: RunningDesk,
) -> None:
    await remembered(desk.desk.store, "Support", "refund", USUAL)
    await asks(desk, *USUAL[:4])
    async with before_the_screen(desk) as ana:
        await ana.press("o")
        read = ana.sees()
        await ana.press("enter")
        said = ana.sees("#say")

    assert "cents: 3900 to 5050" in read
    assert "are approved without asking" in said
    (grant,) = await desk.desk.store.grants()
    assert (grant.by, grant.scope) == ("ana", "agent")


async def test_a_key_that_comes_too_soon_decides_nothing(desk: RunningDesk) -> None:
    await remembered(desk.desk.store, "Support", "refund", USUAL)
    await asks(desk, USUAL[3])
    async with before_the_screen(desk, pace=3600.0) as ana:
        await ana.press("a", "a", "r", "o")

        assert "just come into sight" in ana.sees("#say")
        assert await statuses(desk) == ["pending"]


async def test_news_appears_by_itself_and_what_others_decided_ends_what_is_asked(desk: RunningDesk) -> None:
    await asks(desk, {"order": "7"})
    async with before_the_screen(desk) as ana:
        await ana.until(lambda: "live" in ana.sees("#bar"))
        await ana.press("a")
        (row,) = await desk.desk.pending()
        await desk.desk.decide(row.id, "reject", by="ben")
        await asks(desk, {"order": "8"}, tool="mail")
        await ana.until(lambda: ana.app.card is not None and ana.app.card.request.get("tool") == "mail")
        await ana.press("enter")

    assert await statuses(desk) == ["rejected", "pending"]


async def test_search_order_and_view_are_those_of_the_page(desk: RunningDesk) -> None:
    await asks(desk, *USUAL[:3])
    await asks(desk, {"to": "berlin"}, tool="mail")
    await SearchIndex(desk.desk.store).fill()
    async with before_the_screen(desk) as ana:
        together = ana.lines()
        await ana.press("v")
        apart = ana.lines()
        await ana.press("/")
        await ana.type("berlin")
        found, bar = ana.lines(), ana.sees("#bar")
        await ana.press("s")

        assert (together, apart, found) == (2, 4, 1)
        assert "1 found" in bar
        assert ana.app.queue.view.sort == "newest"


async def test_text_of_a_model_is_shown_and_never_interpreted(desk: RunningDesk) -> None:
    hostile = "[bold red]x[/] \x1b[31mred \u202eleft \u2800"
    await asks(desk, {"order": hostile, "[link=http://evil]": "y"})
    async with before_the_screen(desk) as ana:
        seen = ana.sees()

    assert "[bold red]x[/]" in seen
    assert "\x1b" not in seen
    assert "\u202e" not in seen
