"""What the inbox in a terminal knows and asks: lines, cards, decks, decisions. It draws nothing.

Rule of this file: a decision names the id and the digest of what was on the screen, and what of it was acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode

from placet.cli.client import AsyncDesk, Refused, part
from placet.facts.codec import Json, JsonObject

VERDICT: TypeAlias = Literal["approve", "reject", "edit", "respond"]


@dataclass(slots=True)
class View:
    """Which requests are listed, and in which order: as in the address of the page."""

    words: str = ""
    sort: str = ""
    is_grouped: bool = True
    agent: str = ""
    tool: str = ""

    @property
    def query(self) -> dict[str, str]:
        view = "" if self.is_grouped else "each"
        found = {"q": self.words, "sort": self.sort, "view": view, "agent": self.agent, "tool": self.tool}
        return {name: each for name, each in found.items() if each}


@dataclass(slots=True)
class Card:
    """What is open: one request, or a deck."""

    id: str
    request: JsonObject = field(default_factory=dict)
    """As the API shows it."""
    differs: JsonObject = field(default_factory=dict)
    deck: dict[str, Any] | None = None  # Any: as the desk describes it
    seen: bool = False
    """What is unusual about it was acknowledged."""

    @property
    def care(self) -> str:
        if self.deck is not None:
            return "usual" if self.deck["is_usual"] else "plain"
        return str(self.differs.get("care", "plain"))

    @property
    def odd(self) -> list[JsonObject]:
        found = self.differs.get("odd")
        return found if isinstance(found, list) else []

    @property
    def is_open(self) -> bool:
        return self.deck is not None or self.request.get("status") == "pending"


@dataclass(frozen=True, slots=True)
class Done:
    """A decision that was taken, or why not."""

    id: str
    text: str
    is_good: bool
    can_undo: bool = False
    undo_until: float | None = None


class Queue:
    """The desk's inbox, asked over its API."""

    def __init__(self, desk: AsyncDesk) -> None:
        self.desk = desk
        self.view = View()
        self.lines: list[JsonObject] = []
        self.total = 0
        self.waiting = 0
        self.has_more = False
        self.sorts: list[str] = [""]
        self.filters = ""

    async def refresh(self) -> None:
        found = await self.desk.ask("GET", "/inbox/lines.json", self.view.query)
        self.lines, self.total, self.waiting = found["lines"], found["total"], found["waiting"]
        self.has_more, self.sorts, self.filters = found["next"] is not None, list(found["sorts"]), found["filters"]

    async def open(self, line_id: str) -> Card:
        if line_id.startswith("deck-"):
            query = {**self.view.query, "open": line_id}
            return Card(line_id, deck=await self.desk.ask("GET", "/inbox/deck.json", query))
        request = await self.desk.ask("GET", f"/v1/approvals/{part(line_id)}")
        return Card(line_id, request, await self.desk.ask("GET", "/inbox/differs.json", {"open": line_id}))

    async def decide(self, card: Card, verdict: VERDICT, **given: Json) -> Done:
        decision: JsonObject = {"decision": verdict, "digest": card.request["digest"], **given}
        seen: list[Json] = [note["name"] for note in card.odd] if card.seen else []
        return await self._send(str(card.request["id"]), str(card.request["tool"]), decision, seen)

    async def decide_deck(self, card: Card, verdict: VERDICT, message: str = "") -> list[Done]:
        """Each call that the table showed, as it was shown."""
        assert card.deck is not None
        given: JsonObject = {"message": message} if verdict == "reject" and message else {}
        return [
            await self._send(row["id"], card.deck["tool"], {"decision": verdict, "digest": row["digest"], **given}, [])
            for row in card.deck["rows"]
        ]

    async def _send(self, request_id: str, tool: str, decision: JsonObject, seen: list[Json]) -> Done:
        body: JsonObject = {"request": request_id, "decision": decision, "seen": seen}
        try:
            done = await self.desk.ask("POST", "/inbox/decide.json", body=body)
        except Refused as refused:
            return Done(request_id, str(refused.message), is_good=False)
        text = f"{done['status']}: {tool}"
        return Done(done["id"], text, is_good=True, can_undo=done["can_undo"], undo_until=done["undo_until"])

    async def take_offer(self, card: Card) -> Done:
        assert card.deck is not None
        offer, first = card.deck["offer"], card.deck["rows"][0]
        body = {"deck": card.id, "offer": offer["digest"], "digest": first["digest"], "filters": self.filters}
        try:
            done = await self.desk.ask("POST", "/inbox/offer.json", body=body)
        except Refused as refused:
            return Done(card.id, str(refused.message), is_good=False)
        text = f"{done['status']}. Up to {offer['uses']} more, for {offer['days']} days, are approved without asking."
        return Done(done["id"], text, is_good=True, can_undo=done["can_undo"])

    async def undo(self, done: Done) -> Done:
        try:
            await self.desk.ask("POST", f"/v1/approvals/{part(done.id)}/revocation", body={})
        except Refused as refused:
            return Done(done.id, str(refused.message), is_good=False)
        return Done(done.id, "taken back: it waits again", is_good=True)

    @property
    def address(self) -> str:
        """The same list on the page."""
        return f"/inbox?{urlencode(self.view.query)}" if self.view.query else "/inbox"
