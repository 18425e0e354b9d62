"""How lines, cards and decks look in a terminal: text that came from a model is shown, never interpreted."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placet.cli.cards import request_card
from placet.cli.inbox.queue import Card
from placet.cli.output import Screen, Whole, shown
from placet.cli.tables import ago
from placet.facts.codec import JsonObject

CARE = {
    "usual": ("usual", "green"),
    "unusual": ("unusual", "yellow"),
    "high": ("cannot be undone", "red"),
    "plain": ("", ""),
}
MAX_ROWS = 200
MAX_LETTERS = 400

KEYS = """\
j k, arrows   next, previous line
a             approve what is usual, at once; anything else asks first, and Enter approves
r             reject, with a message that the model reads
e             edit the arguments in your editor
w             write the answer in the tool's place
Space         I have seen what is unusual
u             undo the last decision, while its calls have not begun
o             read the standing decision that a deck offers; Enter makes it
v             each request by itself, or what is alike together
s             another order: oldest, newest, deadline, care
/             search; an empty search shows everything
Esc           leave what is asked
?             these keys
q             quit"""


def line(found: JsonObject, width: int) -> Text:
    """One line of the list: what it is, how much care it needs, what it says."""
    word, style = CARE.get(str(found["care"]), ("", ""))
    head = Text()
    if found["is_deck"]:
        head.append(f"{found['count']} × ", "bold")
    head.append(shown(str(found["tool"])), "bold")
    if found.get("kind") == "in_doubt":
        word, style = "in doubt", "red"
    if word:
        head.append(f"  {word}", style)
    if found.get("unusual"):
        head.append(f"  {found['unusual']} unusual", "yellow")
    if found["expires_at"]:
        head.append(f"  {ago(found['expires_at'])}", "magenta")
    head.append(f"  {ago(found['created_at'])}", "dim")
    rest = Text(shown(str(found["text"]).replace("\n", " ")), "dim")
    for each in (head, rest):
        each.truncate(width, overflow="ellipsis")
    return Text("\n").join([head, rest])


def card(found: Card, width: int) -> RenderableType:
    return Group(*(_deck(found) if found.deck is not None else _request(found, width)))


def _request(found: Card, width: int) -> Iterator[RenderableType]:
    differs = found.differs
    yield Whole(shown(str(differs["sentence"])), "bold")
    word, style = CARE[found.care]
    if found.care == "usual":
        yield Text(f"{word}: {differs['approved']} like it approved in {differs['runs']} runs, none rejected.", style)
    elif word:
        yield Text(word, f"bold {style}")
    for note in found.odd:
        mark = "✓" if found.seen else "!"
        yield Whole(shown(f"{note['name']}: {note['text']}"), "yellow", f"{mark} ")
    if found.odd and not found.seen:
        yield Text("Space: I have seen this", "yellow")
    if differs.get("why_not"):
        yield Whole(shown(str(differs["why_not"])), "red")
    yield ""
    yield request_card(found.request, Screen(width=max(30, width)))
    yield from _beside(differs)
    yield from _steps(differs)


def _beside(differs: JsonObject) -> Iterator[RenderableType]:
    """What is said beside arguments: what people approved, and where a value occurs earlier."""
    notes, origins = differs["notes"], differs["origins"]
    if not isinstance(notes, dict) or not isinstance(origins, dict):
        return
    names = dict.fromkeys([*notes, *origins])
    rows = [(name, [*notes.get(name, []), *([origins[name]] if name in origins else [])]) for name in names]
    if rows:
        yield Padding(Text("Beside what was approved", "bold"), (1, 0, 0, 0))
    for name, said in rows:
        yield Whole(shown(f"{name}: {'; '.join(said)}"), "dim")


def _steps(differs: JsonObject) -> Iterator[RenderableType]:
    steps = differs["steps"]
    if not isinstance(steps, list) or not steps:
        return
    yield Padding(Text("What led to it", "bold"), (1, 0, 0, 0))
    if differs["steps_left_out"]:
        yield Text(f"… {differs['steps_left_out']} earlier steps …", "dim")
    for step in steps:
        who = {"asked": "asked", "said": f"{step['who']} said"}.get(str(step["sort"]), str(step["who"]))
        yield Whole(shown(f"{who}: {step['text']}"[:MAX_LETTERS], keep_lines=True), "", "· ")


def _deck(found: Card) -> Iterator[RenderableType]:
    deck = found.deck or {}
    rows = deck["rows"]
    assert isinstance(rows, list)
    yield Text(f"{len(rows)} × {shown(str(deck['tool']))}  ({shown(str(deck['agent']))})", "bold")
    if deck["is_usual"]:
        yield Text("usual: each is as what people approved before.", "green")
    if deck["unusual"]:
        yield Text(f"{deck['unusual']} unusual: each stands in a line of its own.", "yellow")
    if deck["left"]:
        yield Text(f"{deck['left']} more are shown when these are decided.", "dim")
    offer = deck["offer"]
    if isinstance(offer, dict):
        said = (
            f"o: stop asking about these? It would have made {offer['would_have']} of the last {offer['of']} decisions."
        )
        yield Text(said, "cyan")
    yield ""
    columns = list(dict.fromkeys(name for row in rows for name in row["cells"]))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(shown(name), overflow="fold")
    for row in rows[:MAX_ROWS]:
        table.add_row(*(Text(shown(str(row["cells"].get(name, "")))) for name in columns))
    yield table
    excluded = deck["excluded"]
    for each in excluded if isinstance(excluded, list) else ():
        yield Whole(shown(f"{each[0]}: {each[1]}"), "dim")


def offer(found: Card) -> RenderableType:
    """What would be made, before it is."""
    assert found.deck is not None
    it = found.deck["offer"]
    parts: list[RenderableType] = [
        Text("A standing decision", "bold"),
        Text(f"{shown(str(found.deck['tool']))} of {shown(str(found.deck['agent']))} is approved without asking, if"),
        *(Whole(shown(f"{name}: {bound}"), "", "  ") for name, bound in it["bounds"]),
        Text(f"at most {it['uses']} times, for {it['days']} days."),
        Text(f"It would have made {it['would_have']} of the last {it['of']} decisions, none of which was a no."),
        "",
        Text("Enter makes it, Esc leaves it.", "cyan"),
    ]
    return Group(*parts)
