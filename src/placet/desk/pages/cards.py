"""What a reviewer sees of one request: the call, what led to it, who may decide, and which words fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from placet.core.elicitation import is_link
from placet.core.four_eyes import is_demanded
from placet.core.log import read_lines
from placet.core.story import story_of
from placet.core.story_tree import CallStory, RunStory
from placet.declare.tool import FunctionTool
from placet.desk.access.people import Actor
from placet.desk.desk import DeskRequest
from placet.desk.pages.argument_parts import ShownLines, arguments_of, shown_lines
from placet.desk.pages.arguments import ArgumentTable, argument_table, in_one_line
from placet.desk.pages.differences import Differences, differences_of
from placet.desk.pages.history import HistoryRow, all_before, lead_up
from placet.desk.pages.rendering import Notice, link
from placet.desk.pages.text_format import shortened
from placet.desk.web.asked_under import asked_under
from placet.desk.web.context import Web
from placet.desk.web.deciding import (
    LadderStep,
    SurerWay,
    Voting,
    call_of,
    can_take_back,
    delay_of,
    ladder_of,
    surer_way,
    voting_of,
    why_not_decide,
)
from placet.desk.web.grant_checks import grants_about, would_decide
from placet.facts.codec import JsonObject
from placet.facts.errors import PlacetError
from placet.facts.events import DecisionMade, GrantMade, GuestAdmitted
from placet.facts.ids import request_id
from placet.facts.preview import written_otherwise
from placet.facts.verdict_words import WORDS
from placet.service.guest_tools import lacks
from placet.service.stuck import all_who_could

MAX_NAMES = 12
MAX_COUNTED = 200
"""So many waiting calls are counted; a form that would decide more says so."""
STATUS_LABEL: dict[str, str] = {
    "pending": "Waiting",
    **{words.status: f"{words.label[:1].upper()}{words.label[1:]}" for words in WORDS.values()},
    "closed": "Closed without a decision",
}
_APPROVAL_LABELS = {"approve": "Approve", "reject": "Reject…", "edit": "Edit…", "respond": "Answer…", "more": "More…"}
_DOUBT_LABELS = {"respond": "It happened…", "reject": "Give up…", "more": "Run it again…"}
_ASKING_LABELS = {"approve": "Agree", "reject": "Decline…", "respond": "Answer…"}
_CAREFUL_LABELS = {"more": "Approve…"}
_LABELS = {"approval": _APPROVAL_LABELS, "in_doubt": _DOUBT_LABELS, "elicitation": _ASKING_LABELS}
_KEYS = {"reject": "r", "edit": "e", "respond": "w", "more": "m"}


@dataclass(frozen=True, slots=True)
class RequestCard:
    request: DeskRequest
    table: ArgumentTable
    steps: list[HistoryRow]
    steps_left_out: int
    tool: FunctionTool | None
    why_not: str | None
    """Why the reader may not say yes."""
    may_reject: bool
    who_may: str
    decision: DecisionMade | None
    decided_by_me: bool
    differs: Differences
    """What is said first: a sentence, and what is unusual."""
    can_undo: bool = False
    """Its approval can be taken back, by the reader, at this moment."""
    grants: list[GrantMade] = field(default_factory=list)
    """What stands about this tool of this agent already."""
    asked_table: ArgumentTable | None = None
    """What the agent asked for, where an edit made something else of it."""
    lines: ShownLines | None = None
    """Commands and patches line by line; None for the arguments of other calls."""
    story: CallStory | None = None
    voting: Voting | None = None
    asked_under: str | None = None
    """That the policy asks otherwise by now, and how this is asked anew."""
    ladder: Sequence[LadderStep] = ()
    """Who is told when it waits too long."""
    """Where several people have to approve: how it stands, and what the reader's yes would do."""
    also_decides: tuple[int, int] = (0, 0)
    """Other calls that wait now and that «always» would decide too: in this run, and in others."""
    surer: SurerWay | None = None
    """What the reader has to do to be sure enough: confirm it is them, or sign this call. None: they are."""
    has_passkey: bool = False
    guest: GuestAdmitted | None = None
    """Who executes the call, if that is not Placet."""

    @property
    def run_title(self) -> str:
        """What the run was asked, as its name: an id says nothing to people. Empty where the log is gone."""
        first = self.steps[0] if self.steps else None
        return " ".join(first.text.split()) if first is not None and first.sort == "asked" else ""

    @property
    def tool_description(self) -> str:
        return self.tool.description if self.tool is not None else ""

    @property
    def status_label(self) -> str:
        return "Taken back" if self.asked_anew else STATUS_LABEL[self.request.status]

    @property
    def asked_anew(self) -> str:
        """The question that followed, where the approval was taken back: only then a question was closed by hand."""
        if self.request.status != "closed" or self.request.decided_by is None:
            return ""
        call, number = call_of(self.request.id)
        return request_id(self.request.run_id, call, number + 1)

    @property
    def labels(self) -> dict[str, str]:
        """The buttons: what the host of a guest could not carry out is not offered."""
        kind = self.request.kind
        lacking = lacks(self.guest, kind) if self.guest is not None else ()
        words = _LABELS[kind] | _CAREFUL_LABELS if self.is_irreversible else _LABELS[kind]
        return {verb: label for verb, label in words.items() if verb not in lacking}

    @property
    def is_irreversible(self) -> bool:
        """Nobody can undo it: a form asks before it is approved."""
        return self.request.irreversible and self.request.kind == "approval"

    @property
    def heading(self) -> str:
        """What the arguments are, at this moment."""
        if self.request.kind == "in_doubt":
            return "What it may have done"
        if self.request.kind == "elicitation":
            return "What runs"
        if self.request.status == "pending":
            return "What will run"
        if self.request.status not in ("approved", "edited") or self.story is None:
            return "What was asked for"
        if self.story.outcome is not None:
            return "What ran" if self.story.began_at is not None else "What was asked for"
        return "What will run" if self.story.began_at is None else "What runs"

    @property
    def first_yes(self) -> DecisionMade | None:
        """Of a call in doubt: the approval with which it began."""
        if self.request.kind != "in_doubt" or self.story is None:
            return None
        number = call_of(self.request.id)[1]
        approvals = [
            each for each in self.story.decisions if each.verdict in ("approve", "edit") and each.request < number
        ]
        return approvals[0] if approvals else None

    @property
    def began_at(self) -> float | None:
        return self.story.began_at if self.story is not None else None

    @property
    def written_otherwise(self) -> list[tuple[str, str]]:
        """What validation filled in or changed, each with what the model wrote."""
        request = self.request
        if request.proposed_arguments is None or isinstance(request.arguments, str):
            return []
        return written_otherwise(request.proposed_arguments, request.arguments)

    @property
    def questions(self) -> list[Question]:
        """What a running call asks for."""
        return [Question(str(each.get("message") or ""), _web_address(each)) for each in self._asked()]

    def _asked(self) -> list[JsonObject]:
        return list((self.request.questions or {}).values())

    @property
    def can_be_approved(self) -> bool:
        """Whether a mere yes says all that is asked: a form that wants values is answered."""
        if self.request.kind == "in_doubt" or self.is_irreversible:  # a reflex would do it: a form asks first
            return False
        return all(is_link(each) or not wanted_of(each).get("required") for each in self._asked())

    @property
    def may_otherwise(self) -> bool:
        """Whether there is another yes than a plain one: for somebody else, or alone."""
        return self.voting is not None and (bool(self.voting.ways) or self.voting.may_break_glass)

    @property
    def answer_schema(self) -> JsonObject | None:
        """The schema of an answer, where the call asks for values."""
        asked = {key: each for key, each in (self.request.questions or {}).items() if not is_link(each)}
        if not asked:
            return None
        if len(asked) == len(self.request.questions or {}) == 1:
            return wanted_of(next(iter(asked.values())))
        parts: JsonObject = {key: wanted_of(each) for key, each in asked.items()}
        return {"type": "object", "properties": parts, "required": list(parts)}

    @property
    def panels(self) -> list[tuple[str, str, str]]:
        """What opens a form: the verb, its key, its word. «Run it again» has no key."""
        allowed = [verb for verb in self.labels if verb in _KEYS and (verb == "reject" or self.why_not is None)]
        if self.why_not is not None and self.may_otherwise:
            allowed.append("more")
        if isinstance(self.request.arguments, str):
            allowed = [verb for verb in allowed if verb != "edit"]
        keys = _KEYS | {"more": ""} if self.differs.care == "high" else _KEYS
        return [(verb, keys[verb], self.labels[verb]) for verb in allowed]

    @property
    def decision_detail(self) -> str:
        """What was decided beyond the verdict: the message, or the answer. Changed arguments have their table."""
        made = self.decision
        if made is None:
            return ""
        text = made.message if made.verdict == "reject" else made.output
        return shortened(f"the agent reads: {text}", 600) if text else ""


@dataclass(frozen=True, slots=True)
class Question:
    message: str
    url: str | None
    """The page to go to, where the answer is given there."""


def _web_address(question: JsonObject) -> str | None:
    """Only an address of the web becomes a link; anything else is text."""
    url = question.get("url")
    return url if isinstance(url, str) and url.startswith(("https://", "http://")) else None


def wanted_of(question: JsonObject) -> JsonObject:
    found = question.get("requestedSchema")
    return found if isinstance(found, dict) else {"type": "object", "properties": {}}


async def _story_of(web: Web, run_id: str) -> RunStory | None:
    """What the run's log tells; None when its log is gone or cannot be read here."""
    try:
        stored = await web.desk.store.load(run_id)
        if stored is None or stored.log is None:
            return None
        return story_of(read_lines(stored.log.lines))
    except PlacetError:
        return None


async def card_of(web: Web, actor: Actor, request: DeskRequest) -> RequestCard:
    story = await _story_of(web, request.run_id)
    call, number = call_of(request.id)
    found = story.find(call) if story is not None else None
    steps, left_out = lead_up(story, call) if story is not None else ([], 0)
    earlier = all_before(story, call) if left_out and story is not None else steps
    tool = await tool_of(web, request)
    schema = tool.params_json_schema if tool is not None else None
    no_yes, may_reject, surer = await _what_they_may(web, actor, request)
    runs_with = await arguments_of(web, request)
    return RequestCard(
        request=request,
        table=argument_table(runs_with, schema),
        asked_table=argument_table(request.arguments, schema) if request.status == "edited" else None,
        lines=shown_lines(runs_with),
        story=found,
        voting=await voting_of(
            web,
            actor,
            request,
            everybody=await all_who_could(web.desk.store) if request.ballot is not None else None,
            with_ways=True,
        ),
        asked_under=await asked_under(web, request),
        ladder=await ladder_of(web, request),
        also_decides=await _also_decided(web, request),
        steps=steps,
        steps_left_out=left_out,
        tool=tool,
        why_not=no_yes,
        may_reject=may_reject,
        surer=surer,
        has_passkey=surer is not None and bool(await web.passkeys.keys(actor.name)),
        who_may=await who_may(web, actor, request),
        decision=_decision(found, number, request),
        decided_by_me=request.decided_by == actor.name,
        differs=await differences_of(web, request, earlier),
        can_undo=await can_take_back(web, actor, request),
        grants=await grants_about(web, request) if request.status == "pending" else [],
        guest=story.guest if story is not None else None,
    )


async def _what_they_may(web: Web, actor: Actor, request: DeskRequest) -> tuple[str | None, bool, SurerWay | None]:
    """Why the reader may not say yes, whether they may say no, and what they can do to be sure enough. What only a
    signature is missing for is offered: the button asks for it."""
    no_yes = await why_not_decide(web, actor, request)
    if no_yes is None:
        return None, True, None
    surer = await surer_way(web, actor, request)
    if surer == "signed":
        return None, True, surer
    return no_yes, await why_not_decide(web, actor, request, "reject") is None, surer


async def tool_of(web: Web, request: DeskRequest) -> FunctionTool | None:
    """The tool, if this desk has the agent's code, or a guest declared it."""
    try:
        return await web.desk.shown_tool(request)
    except PlacetError:  # the code here knows the agent, and not the way that led to it
        return None


async def _also_decided(web: Web, request: DeskRequest) -> tuple[int, int]:
    """How many other calls that wait now «always» would decide: in this run, and, for all runs, in the others."""
    if request.status != "pending" or request.kind != "approval":
        return 0, 0
    here = len(await would_decide(web, request))
    page = await web.desk.requests(agent=request.agent, tool=request.tool, limit=MAX_COUNTED)
    others = [each for each in page.rows if each.run_id != request.run_id and each.kind == "approval"]
    return here, MAX_COUNTED if page.cursor else len(others)


async def who_may(web: Web, actor: Actor, request: DeskRequest) -> str:
    if web.settings.is_open:
        return "All who reach this desk: it runs on this machine alone and asks for no log-in."
    users = await web.accounts.users()
    names = [
        f"{user.name} (you)" if user.name == actor.name else user.name
        for user in users
        if user.is_active
        and Actor(name=user.name, role=user.role, via="session", decides=user.decides).may_decide(
            request.agent, request.tool
        )
    ]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    text = f"{', '.join(names[:MAX_NAMES])}{more}." if names else "No one yet: an admin must give a user the right."
    if is_demanded(await web.desk.four_eyes(), request.agent, request.tool):
        text += " The person who started the run can only reject."
    return text


def _decision(call: CallStory | None, number: int, request: DeskRequest) -> DecisionMade | None:
    if call is None or request.status == "pending":
        return None
    return next((each for each in call.decisions if each.request == number), None)


async def notice_of(web: Web, actor: Actor, done: DeskRequest, warnings: Sequence[str] = ()) -> Notice:
    """What has just become of a request, and what should be known about it; it can be undone from there, if at all."""
    arguments = await arguments_of(web, done)
    voting = await voting_of(web, actor, done)
    label = STATUS_LABEL[done.status] if voting is None else f"Vote counted, {voting.missing} missing"
    text = f"{label}: {done.tool}, {shortened(in_one_line(arguments), 70)}"
    return Notice(
        " ".join([f"{text}.", *warnings] if warnings else [text]),
        "bad" if done.status == "closed" or warnings else "good",
        link("/inbox", open=done.id),
        "Show",
        done.id if await can_take_back(web, actor, done) else "",
        await delay_of(web, done),
    )
