"""The forms of a card: what they ask for, what they begin with, and what a sent one says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from placet.core.json_schema import problems as schema_problems
from placet.desk.pages.arguments import count_values
from placet.desk.pages.cards import MAX_COUNTED, RequestCard
from placet.desk.pages.form_data import Form
from placet.desk.pages.forms import Field, FormBuilder, FormReader, Reading, problems_by_place
from placet.desk.pages.text_format import json_text, shortened, size
from placet.desk.web.deciding import Always, as_datetime
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.verdict_words import WORDS, counted

HOUR = 3600.0
UNTILS = (("", "with its run"), ("1", "in an hour"), ("24", "in a day"), ("168", "in a week"), ("720", "in 30 days"))
MAX_PINNABLE = 12
MAX_FORM_FIELDS = 400
MAX_EDITED = 100_000
"""Characters of JSON that are edited on a page: with more of them a browser stands still."""
"""More than this is no form for people: it is edited as JSON."""
_TITLES = {
    "reject": ("Reject", "Reject"),
    "edit": ("Change the arguments", "Approve with these arguments"),
    "respond": ("Answer in the tool's place", "Send this answer"),
    "more": ("Approve, with a note or for longer", "Approve"),
}
_DOUBT_TITLES = {
    "reject": ("Give this call up", "Give up"),
    "respond": ("It happened", "Record this result"),
    "more": ("Run it again, with a note", "Run it again"),
}
_ASKING_TITLES = {
    "reject": ("Decline to answer", "Decline"),
    "respond": ("Answer what the call asks", "Send this answer"),
}
_TITLES_OF = {"approval": _TITLES, "in_doubt": _DOUBT_TITLES, "elicitation": _ASKING_TITLES}
NO_SCHEMA: dict[str, object] = {}


@dataclass(slots=True)
class Values:
    """What the fields hold."""

    message: str = ""
    output: str = ""
    reason: str = ""
    always: str = ""
    uses: str = ""
    until: str = ""
    confirm: str = ""
    """The tool's name, typed: a second look at what is wide."""
    same: list[str] = field(default_factory=list)
    whose: str = ""
    """Whose word it is: mine, `for NAME`, or `alone`."""

    @property
    def has_bounds(self) -> bool:
        return bool(self.uses or self.until or self.same or self.confirm or self.always == "agent")


@dataclass(slots=True)
class Panel:
    verb: str
    title: str
    submit: str
    values: Values
    scopes: list[tuple[str, str]]
    pinnable: list[tuple[str, str]]
    fields: list[Field] = field(default_factory=list)
    as_json: bool = False
    only_json: bool = False
    json: str = ""
    json_problem: str = ""
    too_large: str = ""
    """How large the arguments are, if that is too large for a page."""
    problems: list[str] = field(default_factory=list)
    focus: str | None = None
    """The place of the field that is to be looked at first."""
    untils: tuple[tuple[str, str], ...] = UNTILS
    look: str = "primary yes"
    """How its button looks. One that is not `primary` has no key."""


def panel_of(card: RequestCard, verb: str, form: Form | None = None, *, as_json: bool = False) -> Panel:
    title, submit = _TITLES_OF[card.request.kind][verb]
    panel = Panel(verb, title, submit, values_of(form), scope_sentences(card, verb), _pinnable(card))
    panel.look = _look(card, verb)
    if verb == "edit":
        panel.only_json = card.tool is None
        panel.as_json = as_json or panel.only_json
        fill_edit(panel, card, Reading(original_arguments(card)))
    if verb == "respond" and card.answer_schema is not None:
        fill_answer(panel, card, Reading({}))
    return panel


def _look(card: RequestCard, verb: str) -> str:
    """What cannot be undone, or may happen twice, has no green button and no key."""
    is_final = card.differs.care == "high"
    if is_final and verb == "more":
        return "no"
    if card.request.kind == "in_doubt":
        return "primary neutral"
    if verb == "reject":
        return "primary no"
    return "neutral" if is_final and verb == "edit" else "primary yes"


def original_arguments(card: RequestCard) -> JsonObject:
    return card.request.arguments if isinstance(card.request.arguments, dict) else {}


def values_of(form: Form | None) -> Values:
    if form is None:
        return Values()
    names = ("message", "output", "reason", "always", "uses", "until", "confirm", "whose")
    texts = {name: form.text(name) for name in names}
    return Values(**texts, same=form.getlist("same"))


def scope_sentences(card: RequestCard, verb: str) -> list[tuple[str, str]]:
    """The scope of «always», spelled out."""
    tool, agent = card.request.tool, card.request.agent
    done = WORDS["reject" if verb == "reject" else "approve"].label
    here, in_other_runs = card.also_decides
    always = f"{tool} by {agent} is {done} without asking."
    return [
        ("", f"Only this call. Every other call of {tool} is asked about."),
        (
            "run",
            f"In this run, every further call of {always}{_also(here, 0, done)}",
        ),
        (
            "agent",
            f"In this run and in all later runs, every call of {always}{_also(here, in_other_runs, done)}",
        ),
    ]


def _also(here: int, in_other_runs: int, done: str) -> str:
    """What waits already and would be decided too, unseen."""
    if not here + in_other_runs:
        return ""
    many = (
        f"{MAX_COUNTED} or more calls" if in_other_runs >= MAX_COUNTED else counted(here + in_other_runs, "other call")
    )
    where = f" ({in_other_runs} in other runs)" if 0 < in_other_runs < MAX_COUNTED else ""
    waits = "waits" if here + in_other_runs == 1 else "wait"
    return f" {many} that {waits} now{where} would be {done} with it, unless you narrow it."


def _pinnable(card: RequestCard) -> list[tuple[str, str]]:
    given = original_arguments(card)
    texts = [(name, shortened(json_text(each, indent=None), 60)) for name, each in given.items()]
    return texts[:MAX_PINNABLE]


def always_of(panel_values: Values, arguments: JsonObject, now: float) -> tuple[bool | Always, list[str]]:
    """The standing decision that the form asks for, and what is wrong with it."""
    if panel_values.always not in ("run", "agent"):
        return False, []
    uses = panel_values.uses
    if uses and not (uses.isdecimal() and 1 <= int(uses) <= 1_000_000):
        return False, ["«At most so many times» is a whole number, 1 or more, or empty."]
    hours = panel_values.until
    if hours and hours not in dict(UNTILS):
        return False, ["Choose when the standing decision ends."]
    pinned = {name: arguments[name] for name in panel_values.same if name in arguments}
    return (
        Always(
            scope="agent" if panel_values.always == "agent" else "run",
            arguments=pinned or None,
            until=as_datetime(now + float(hours) * HOUR) if hours else None,
            uses=int(uses) if uses else None,
            confirm=panel_values.confirm.strip() or None,
        ),
        [],
    )


# -- edits ------------------------------------------------------------------------------------------------------------


def fill_edit(panel: Panel, card: RequestCard, reading: Reading) -> None:
    """Put arguments, and what is wrong with them, into the fields."""
    schema = card.tool.params_json_schema if card.tool is not None else NO_SCHEMA
    if not panel.as_json and count_values(reading.arguments, MAX_FORM_FIELDS + 1) > MAX_FORM_FIELDS:
        panel.as_json = panel.only_json = True
    if not panel.as_json:
        panel.fields = FormBuilder(schema, reading.raw, reading.problems).fields(reading.arguments)
        panel.as_json = panel.only_json = sum(len(each.family()) for each in panel.fields) > MAX_FORM_FIELDS
    if panel.as_json:
        panel.json = reading.raw.get("", json_text(reading.arguments))
        panel.json_problem = reading.problems.get("", "")
        if len(panel.json) > MAX_EDITED and "" not in reading.raw:  # a person continues what they wrote
            panel.too_large, panel.json = size(len(panel.json)), ""
    else:
        panel.focus = _first_to_look_at(panel.fields)


def _first_to_look_at(fields: Sequence[Field]) -> str | None:
    """The place of the first field that is wrong, or else of the first one."""
    leaves = [each for top in fields for each in top.family() if not each.fields and each.kind != "array"]
    with_problems = [each for each in leaves if each.problem]
    return (with_problems or leaves)[0].place if leaves else None


def fill_answer(panel: Panel, card: RequestCard, reading: Reading) -> None:
    """Put an answer to what a running call asks, and what is wrong with it, into the fields."""
    schema = card.answer_schema or NO_SCHEMA
    panel.fields = FormBuilder(schema, reading.raw, reading.problems).fields(reading.arguments)
    panel.focus = _first_to_look_at(panel.fields)


def read_answer(card: RequestCard, form: Form) -> Reading:
    """What the form answers, and what is wrong with it by the schema of the question."""
    schema = card.answer_schema or NO_SCHEMA
    reading = FormReader(schema, form, form.get("change") or "").read({})
    found = [] if reading.problems or form.get("change") else schema_problems(schema, reading.arguments)
    if found:
        fields = FormBuilder(schema, {}, {}).fields(reading.arguments)
        beside, general = problems_by_place("\n".join(found), fields)
        reading.problems = beside | ({"": "; ".join(general)} if general else {})
    return reading


def read_edit(card: RequestCard, form: Form) -> Reading:
    """The arguments that the form holds, and what is wrong with them by their schema and the tool's own check."""
    if form.get("as") == "json" or card.tool is None:
        reading = _read_json(form, original_arguments(card))
    else:
        change = form.get("change") or ""
        reading = FormReader(card.tool.params_json_schema, form, change).read(original_arguments(card))
    if not reading.problems and card.tool is not None and not form.get("change"):
        reading.problems = _problems_of_tool(card, reading)
    return reading


def _read_json(form: Form, original: JsonObject) -> Reading:
    text = (form.get("j.") or "").replace("\r\n", "\n")
    if text == json_text(original):
        return Reading(original)
    found = parse_arguments(text) if text.strip() else None
    if found is None:
        return Reading(original, {"": "This is not one JSON object (or a key stands twice in it)."}, {"": text})
    return Reading(found, {}, {"": text})


def _problems_of_tool(card: RequestCard, reading: Reading) -> dict[str, str]:
    assert card.tool is not None
    problem = card.tool.problem_with(reading.arguments)
    if problem is None:
        return {}
    fields = FormBuilder(card.tool.params_json_schema, {}, {}).fields(reading.arguments)
    beside, general = problems_by_place(problem, fields)
    return beside | ({"": "; ".join(general)} if general else {})
