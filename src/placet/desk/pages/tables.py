"""Tables of calls that are decided together: alike with alike, exactly what is decided in sight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placet.desk.access.people import Actor
from placet.desk.desk import DeskRequest
from placet.desk.pages.arguments import in_a_cell, in_one_line
from placet.desk.pages.cards import STATUS_LABEL
from placet.desk.pages.decks import deck_of
from placet.desk.pages.differences import comparison_of
from placet.desk.pages.form_data import Filters
from placet.desk.pages.offers import Offer, offer_for
from placet.desk.web.context import Web
from placet.desk.web.deciding import why_not_decide
from placet.desk.web.waiting import care_of
from placet.facts.verdict_words import counted

MAX_TOGETHER = 200
MAX_COLUMNS = 8


@dataclass(slots=True)
class GroupRow:
    id: str
    digest: str
    summary: str
    cells: list[str]
    created_at: float


@dataclass(slots=True)
class Group:
    tool: str
    agent: str
    columns: list[str]
    rows: list[GroupRow]


@dataclass(slots=True)
class Together:
    groups: list[Group]
    excluded: list[tuple[str, str]]
    deck: str = ""
    """The deck that it shows, if it is one: without it people chose what is in it."""
    left: int = 0
    """How many more are in the deck: they are shown when these are decided."""
    unusual: int = 0
    """How many that are alike stand apart."""
    is_usual: bool = False
    """All of them are as what people approved before."""
    offer: Offer | None = None
    """A standing decision that would spare questions like these."""

    @property
    def count(self) -> int:
        return sum(len(group.rows) for group in self.groups)

    @property
    def title(self) -> str:
        return counted(self.count, "request")


async def why_left_out(web: Web, actor: Actor, row: DeskRequest, digest: str) -> str | None:
    if row.status != "pending":
        return f"{STATUS_LABEL[row.status].lower()} by {row.decided_by or 'an unnamed person'} meanwhile"
    if row.digest != digest:
        return "it changed since it was on your screen"
    if row.kind == "in_doubt":
        return "it is unknown whether it happened: decide about it alone"
    if row.kind == "elicitation":
        return "it asks for something: answer it by itself"
    why = await why_not_decide(web, actor, row)
    return why if why is not None else await why_alone(web, row)


async def why_alone(web: Web, row: DeskRequest) -> str | None:
    """Why a yes to this call is not one of many."""
    care = care_of(row, await comparison_of(web, row))
    if care == "high":
        return "nobody can undo it: decide about it alone"
    return "it is unusual: decide about it alone" if care == "unusual" else None


def grouped(requests: Sequence[DeskRequest]) -> list[Group]:
    """Alike with alike: one table for each agent and tool, a column for each argument."""
    found: dict[tuple[str, str], list[DeskRequest]] = {}
    for each in requests:
        found.setdefault((each.tool, each.agent), []).append(each)
    return [_group(tool, agent, rows) for (tool, agent), rows in found.items()]


def _group(tool: str, agent: str, requests: list[DeskRequest]) -> Group:
    names: dict[str, None] = {}
    for each in requests:
        if isinstance(each.arguments, dict):
            names |= dict.fromkeys(each.arguments)
    columns = list(names)
    shown, rest = columns[:MAX_COLUMNS], columns[MAX_COLUMNS:]
    rows = [
        GroupRow(each.id, each.digest, in_one_line(each.arguments, 80), _cells(each, shown, rest), each.created_at)
        for each in requests
    ]
    return Group(tool, agent, [*shown, *(["more"] if rest else [])] or ["arguments"], rows)


def _cells(request: DeskRequest, shown: list[str], rest: list[str]) -> list[str]:
    given = request.arguments
    if isinstance(given, str) or not shown:
        text = given if isinstance(given, str) else "none"
        return [in_a_cell(text), *("" for _ in shown[1:])]
    cells = [in_a_cell(given[name]) if name in given else "" for name in shown]
    more = {name: given[name] for name in rest if name in given}
    return [*cells, *([in_a_cell(more)] if rest else [])]


async def table_of_deck(web: Web, actor: Actor, filters: Filters, deck_id: str) -> Together:
    """The calls of a deck as they wait now. Too few for a deck: what is left of it."""
    await web.waiting.refresh(web.clock.now())
    deck = deck_of(web.waiting, filters, deck_id)
    if deck is None:
        return Together([], [], deck_id)
    good: list[DeskRequest] = []
    excluded: list[tuple[str, str]] = []
    for each in deck.members[:MAX_TOGETHER]:
        row = await web.desk.store.request(each.request.id) if each.is_cut else each.request
        if row is None:
            continue
        why = await why_not_decide(web, actor, row)
        if why is None:
            good.append(row)
        else:
            excluded.append((f"{row.tool} {in_one_line(row.arguments, 60)}", why))
    left = max(0, len(deck.members) - MAX_TOGETHER)
    is_usual = deck.usual == len(deck.members)
    offer = await offer_for(web, deck.members[0]) if is_usual and good else None
    return Together(grouped(good), excluded, deck_id, left, deck.unusual, is_usual, offer)
