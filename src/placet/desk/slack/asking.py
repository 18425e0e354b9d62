"""Dialogues in Slack: what is asked before a decision, and what the answer says.

A dialogue carries nothing but its own name: what it is about, and for whom, is kept at the desk, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from placet.channels.slack_blocks import (
    Block,
    arguments_text,
    context,
    is_shown_whole,
    link_button,
    plain,
    preformatted,
    section,
)
from placet.core.index import RequestRecord
from placet.declare.tool import FunctionTool
from placet.desk.access.secrets import new_secret
from placet.desk.slack.edit_form import EditForm, edit_form, place_of
from placet.desk.web.context import Web
from placet.desk.web.deciding import Decision
from placet.desk.web.problems import Problem
from placet.facts.codec import encode
from placet.facts.errors import PlacetError
from placet.ports import StoredRecord

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

View: TypeAlias = dict[str, Any]  # Any: Slack's JSON

ASKED, ASKED_SECONDS = "chat_dialogue", 3600.0
WORD_DIALOGUE, DIALOGUE = "placet_word", "placet_dialogue"
MESSAGE, REASON, WORD, VALUE = "message", "reason", "word", "value"
_TITLES = {"approve": "Approve", "reject": "Reject", "edit": "Edit and approve"}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a dialogue is about, and whose it is."""

    account: str
    channel: str
    request: str
    digest: str
    verb: Literal["approve", "reject", "edit"]


class Reading(msgspec.Struct, kw_only=True):
    """What was said in it: a decision, or what is wrong, by block."""

    decision: Decision | None
    problems: dict[str, str] = {}


class Dialogues:
    def __init__(self, web: Web, client: AsyncWebClient) -> None:
        self._web = web
        self._client = client

    async def open(self, asked: Asked, request: RequestRecord, trigger: str) -> str | None:
        """Ask; None, or why it cannot be asked here."""
        blocks = await self._blocks(asked, request)
        if isinstance(blocks, str):
            return blocks
        name = new_secret()
        kept = StoredRecord(
            kind=ASKED,
            id=name,
            data=encode(asked).decode(),
            expires_at=self._web.clock.now() + ASKED_SECONDS,
        )
        await self._web.desk.store.add_record(kept)
        view = _view(_TITLES[asked.verb], blocks, callback=DIALOGUE, submit=_TITLES[asked.verb], metadata=name)
        await self._client.views_open(trigger_id=trigger, view=view)
        return None

    async def _blocks(self, asked: Asked, request: RequestRecord) -> list[Block] | str:
        match asked.verb:
            case "reject":
                return [*_about(request), _input(MESSAGE, "What the agent reads", "It may be empty.")]
            case "edit":
                form = await self._form(request)
                return form if isinstance(form, str) else [*_about(request)[:1], *form.blocks()]
            case "approve":
                if is_shown_whole(request):
                    return [*_about(request), preformatted(arguments_text(request))]
                return "The arguments are too long for a chat: look at them at the desk, and decide there."

    async def ask_for_word(self, trigger: str) -> None:
        blocks = [
            section("Log in at the desk. The page of your account gives you a word, which is good for ten minutes."),
            _input(WORD, "The word", "Such as ABCD-2345", multiline=False),
        ]
        await self._client.views_open(
            trigger_id=trigger, view=_view("Link my account", blocks, callback=WORD_DIALOGUE, submit="Go on")
        )

    def word_in(self, view: View) -> str:
        return _value(view, WORD) or ""

    async def asked(self, account: str, view: View) -> Asked | None:
        """What a dialogue is about, if it is this account's and was not used yet."""
        name = str(view.get("private_metadata"))
        record = await self._web.desk.store.record(ASKED, name) if name.isascii() and name.isprintable() else None
        asked = None if record is None else msgspec.json.decode(record.data, type=Asked)
        return asked if asked is not None and asked.account == account else None

    async def used(self, view: View) -> None:
        await self._web.desk.store.take_record(ASKED, str(view.get("private_metadata")))

    async def read(self, asked: Asked, request: RequestRecord, view: View) -> Reading:
        match asked.verb:
            case "approve":
                return Reading(decision=Decision(decision="approve", digest=asked.digest))
            case "reject":
                said = _value(view, MESSAGE)
                return Reading(decision=Decision(decision="reject", message=said or None, digest=asked.digest))
            case "edit":
                form = await self._form(request)
                if isinstance(form, str):
                    return Reading(decision=None, problems={})
                arguments, problems = form.read(_values(view))
                decision = Decision(decision="edit", arguments=arguments, digest=asked.digest)
                return Reading(decision=None if problems else decision, problems=problems)

    async def _form(self, request: RequestRecord) -> EditForm | str:
        try:
            tool: FunctionTool | None = await self._web.desk.shown_tool(request)
        except PlacetError:
            tool = None
        if tool is None:
            return "The code of this tool is not at this desk: edit it at the desk, as JSON."
        return edit_form(tool.params_json_schema, request.arguments)

    # -- what a dialogue becomes --------------------------------------------------------------------------------------

    def shows(self, text: str, link: str | None, blocks: list[Block] | None = None) -> View:
        """The same dialogue, saying this instead."""
        shown = blocks or [section(text)]
        if link is not None:
            shown = [*shown, {"type": "actions", "elements": [link_button("Open at the desk", link)]}]
        return {"response_action": "update", "view": _view("Placet", shown)}

    def wrong(self, view: View, problem: Problem) -> View:
        """What was refused, beside the field that it is about where there is one."""
        places = {str(each.get("block_id")) for each in view.get("blocks") or [] if each.get("type") == "input"}
        found = {place_of(each.field): each.message for each in problem.errors or [] if place_of(each.field) in places}
        if not found and places and problem.status == 422:
            found = {next(iter(sorted(places))): problem.detail}
        if found:
            return {"response_action": "errors", "errors": {place: text[:2000] for place, text in found.items()}}
        return self.shows(problem.detail, None)


def _about(request: RequestRecord) -> list[Block]:
    shown = [section(f"{request.tool} of {request.agent}")]
    shown += [section(request.summary)] if request.summary else []
    return [*shown, context([f"Digest: {request.digest}"])]


def _view(title: str, blocks: list[Block], *, callback: str = "", submit: str = "", metadata: str = "") -> View:
    made: View = {"type": "modal", "title": plain(title, 24), "close": plain("Close"), "blocks": blocks}
    if submit:
        made |= {"submit": plain(submit, 24), "callback_id": callback, "private_metadata": metadata}
    return made


def _input(name: str, label: str, hint: str, *, multiline: bool = True) -> Block:
    return {
        "type": "input",
        "block_id": name,
        "optional": multiline,
        "label": plain(label, 150),
        "hint": plain(hint, 150),
        "element": {"type": "plain_text_input", "action_id": VALUE, "multiline": multiline, "max_length": 3000},
    }


def _values(view: View) -> dict[str, str | None]:
    """What stands in each input, by its block."""
    state = (view.get("state") or {}).get("values") or {}
    return {str(name): _said(actions) for name, actions in state.items() if isinstance(actions, dict)}


def _value(view: View, block: str) -> str | None:
    return _values(view).get(block)


def _said(actions: dict[str, Any]) -> str | None:
    found = actions.get(VALUE) or {}
    chosen = found.get("selected_option")
    said = chosen.get("value") if isinstance(chosen, dict) else found.get("value")
    return said if isinstance(said, str) else None
