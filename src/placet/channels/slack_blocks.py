"""What Slack shows: one message about one question, as it stands at this moment, and the words of its buttons.

Rule of this file: nothing that a tool, a model or a person wrote is read as Slack's markup. It goes into plain texts.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from placet.channels.words import title_of
from placet.core.index import RequestRecord
from placet.facts.requirements import SURE_BY, is_at_least
from placet.facts.verdict_words import verdict_behind, verdict_label

Block: TypeAlias = dict[str, Any]  # Any: Slack's JSON

LONGEST_TEXT = 2900
"""Characters in one block: Slack takes 3,000."""
LONGEST_ARGUMENTS = 2900
APPROVE, REJECT, EDIT, OPEN = "placet_approve", "placet_reject", "placet_edit", "placet_open"


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """What a button says of itself: in which subscription, about which question, and what that one showed."""

    subscription: str
    request: str
    digest: str

    def text(self) -> str:
        return json.dumps([self.subscription, self.request, self.digest])

    @staticmethod
    def of(text: object) -> Marked | None:
        try:
            subscription, request, digest = msgspec.json.decode(text if isinstance(text, str) else "", type=_MARKED)
        except msgspec.DecodeError:
            return None
        return Marked(subscription=subscription, request=request, digest=digest)


_MARKED = tuple[str, str, str]
_LINK_LABELS: dict[str, str] = {"pending": "Open at the desk"}


def message_about(
    request: RequestRecord, subscription: str, link: str | None, *, shows_arguments: bool, can_be_edited: bool = True
) -> Block:
    """The text, for notifications, and the blocks."""
    title = title_about(request)
    lines = _facts_about(request)
    blocks: list[Block] = [section(title)]
    if shows_arguments:
        blocks += [section(request.summary)] if request.summary else []
        blocks.append(preformatted(arguments_text(request)))
    blocks.append(context(lines))
    buttons = _buttons(request, subscription, can_be_edited) if request.status == "pending" else []
    buttons += [] if link is None else [link_button(_LINK_LABELS.get(request.status, "Look"), link)]
    blocks += [{"type": "actions", "elements": buttons}] if buttons else []
    return {"text": escaped(title), "blocks": blocks}


def title_about(request: RequestRecord) -> str:
    verdict = verdict_behind(request.status)
    if verdict is not None:
        who = "a standing decision" if request.grant is not None else request.decided_by or "a rule"
        return f"{request.tool}: {verdict_label(verdict)} by {who}"
    if request.status == "closed":
        return f"{request.tool}: this question is over, without a decision"
    kind = "request.escalated" if request.escalated_at is not None else "request.waiting"
    return title_of(kind, {"tool": request.tool, "kind": request.kind})


def _facts_about(request: RequestRecord) -> list[str]:
    lines = [f"Agent: {request.agent}", f"Digest: {request.digest}"]
    if request.status == "pending" and request.needs is not None:
        said = ", ".join(f"{vote.by or 'somebody'}: {verdict_label(vote.verdict)}" for vote in request.votes)
        lines += [f"Needs: {request.needs}", f"So far: {said or 'nobody'}"]
    if request.status != "pending" and request.assurance != "none":
        lines.append(f"Known {SURE_BY[request.assurance]}")
    if request.status != "pending" and request.reason:
        lines.append(f"Reason: {request.reason}")
    return lines


def leads_to_the_desk(request: RequestRecord) -> bool:
    """Whether a chat is not the place to say yes: nobody can undo it, it asks for values, or the rule wants to be surer
    who it is than a chat makes it."""
    if request.kind != "approval" or request.irreversible:
        return True
    if request.ballot is None:
        return False
    return not all(is_at_least("chat", step.assurance) for step in request.ballot.requirement.steps())


def _buttons(request: RequestRecord, subscription: str, can_be_edited: bool) -> list[Block]:
    mark = Marked(subscription=subscription, request=request.id, digest=request.digest).text()
    if request.kind != "approval":
        return []
    no = button("Reject…", REJECT, mark, "danger")
    if leads_to_the_desk(request):
        return [] if request.ballot is not None else [no]
    edit = [button("Edit…", EDIT, mark)] if can_be_edited else []
    return [button("Approve", APPROVE, mark, "primary"), no, *edit]


def arguments_text(request: RequestRecord) -> str:
    """The arguments as they would run."""
    found = request.arguments
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, indent=2)


def is_shown_whole(request: RequestRecord) -> bool:
    return len(arguments_text(request)) <= LONGEST_ARGUMENTS


# -- blocks -----------------------------------------------------------------------------------------------------------


def section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}


def plain(text: str, longest: int = LONGEST_TEXT) -> Block:
    return {"type": "plain_text", "text": cut(text, longest) or " ", "emoji": False}


def context(lines: list[str]) -> Block:
    return {"type": "context", "elements": [plain(line, 300) for line in lines[:10]]}


def preformatted(text: str) -> Block:
    cut_text = text if len(text) <= LONGEST_ARGUMENTS else f"{text[:LONGEST_ARGUMENTS]}… (the rest is at the desk)"
    part = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": cut_text or " "}]}
    return {"type": "rich_text", "elements": [part]}


def button(label: str, action: str, value: str, style: str | None = None) -> Block:
    made: Block = {"type": "button", "text": plain(label), "action_id": action, "value": value}
    return made if style is None else made | {"style": style}


def link_button(label: str, url: str) -> Block:
    return {"type": "button", "text": plain(label), "action_id": OPEN, "url": url}


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def escaped(text: str) -> str:
    """For the one text of a message that Slack reads as markup."""
    return cut(text, 2000).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
