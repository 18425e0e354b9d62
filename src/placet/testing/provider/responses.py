"""The Responses API: stored responses, chains of them, conversations, and a strict eye on what each request brings."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placet.facts.codec import plain_item
from placet.facts.errors import UserError
from placet.testing.provider.conversations import (
    Conversation,
    Conversations,
    new_item_id,
    page_of,
    refuse_if_locked,
)
from placet.testing.provider.ids import Mint
from placet.testing.provider.recording import ProviderRequest
from placet.testing.provider.refusal import Refused
from placet.testing.provider.reply import Reply, event_reply, json_reply, named_event, raw_reply
from placet.testing.provider.response_events import error_event, response_events
from placet.testing.provider.response_history import GivenItems, check_history
from placet.testing.provider.response_items import CALLS, Item, check_item, stored_form, type_of
from placet.testing.provider.response_parameters import check_body
from placet.testing.provider.steps import Answer, Raw
from placet.testing.provider.tokens import openai_usage


@dataclass(slots=True)
class Stored:
    """A response that the service keeps."""

    body: Item
    input: list[Item]
    history: list[Item]
    """All that the model had read and said when the response was complete."""


@dataclass(slots=True)
class Prepared:
    """A request that keeps all rules, ready to be answered."""

    body: Item
    held: list[Item]
    new: list[Item]
    conversation: Conversation | None


class ResponsesService:
    def __init__(self, mint: Mint) -> None:
        self._mint = mint
        self._ledger = GivenItems()
        self.conversations = Conversations(mint, self._ledger)
        self.stored: dict[str, Stored] = {}
        self._looks_left: dict[str, int] = {}
        """By the ids of responses that are made in the background."""

    # -- checking -----------------------------------------------------------------------------------------------------

    def check(self, request: ProviderRequest) -> Prepared:
        body = request.body
        check_body(body)
        conversation, held = self._context(body)
        new = self._resolved(_input_items(body.get("input")))
        if not new and not held and not body.get("prompt"):
            raise Refused(
                'One of "input", "previous_response_id", "prompt" or "conversation" must bring something to answer.',
                param="input",
                code="missing_required_parameter",
            )
        check_history(held, new, self._ledger)
        return Prepared(body, held, new, conversation)

    def _context(self, body: Item) -> tuple[Conversation | None, list[Item]]:
        previous, conversation = body.get("previous_response_id"), body.get("conversation")
        if previous is not None:
            if previous not in self.stored:
                raise Refused(
                    f"Previous response with id '{previous}' not found.",
                    param="previous_response_id",
                    code="previous_response_not_found",
                )
            return None, self.stored[previous].history
        if conversation is None:
            return None, []
        found = self.conversations.find(conversation if isinstance(conversation, str) else conversation["id"])
        refuse_if_locked(found)
        return found, found.items

    def _resolved(self, items: Sequence[Any]) -> list[Item]:
        """The input's items, each checked, references replaced by what they refer to."""
        found: list[Item] = []
        for index, item in enumerate(items):
            check_item(item, f"input[{index}]", self._ledger.given(item))
            if type_of(item) == "item_reference":
                if item["id"] not in self._ledger.items:
                    raise Refused(f"Item with id '{item['id']}' not found.", param="input", status=404)
                item = self._ledger.items[item["id"]]  # noqa: PLW2901  # the reference stands for it
            found.append(item)
        return found

    # -- answering ----------------------------------------------------------------------------------------------------

    def respond(self, prepared: Prepared, answer: Answer | Raw, *, kept: bool, now: float) -> Reply:
        is_streamed = prepared.body.get("stream") is True
        if isinstance(answer, Raw):
            return raw_reply(answer.body, named_event, is_streamed=is_streamed)
        response = self._made(prepared, answer, now)
        new = [stored_form(item, item.get("id") or new_item_id(item, self._mint)) for item in prepared.new]
        self._ledger.learn(response["output"], kept=kept and response["store"])
        if kept:
            self._keep(prepared, response, new)
        if not is_streamed and response["background"] and kept:
            self._looks_left[response["id"]] = LOOKS
            return json_reply(_unfinished(response, "queued"))
        if not is_streamed:
            return json_reply(response)
        return event_reply([named_event(event) for event in response_events(response)])

    def _made(self, prepared: Prepared, answer: Answer, now: float) -> Item:
        body, output = prepared.body, [self._output_item(item) for item in answer.output]
        status = "failed" if answer.failure else "incomplete" if answer.stopped else "completed"
        if status == "incomplete" and output and "status" in output[-1]:
            output[-1]["status"] = "incomplete"
        return {
            "id": self._response_id(answer.response_id),
            "object": "response",
            "created_at": int(now),
            "completed_at": int(now) if status == "completed" else None,
            "status": status,
            "background": body.get("background") is True,
            "error": None if answer.failure is None else {"code": answer.failure[0], "message": answer.failure[1]},
            "incomplete_details": {"reason": answer.stopped} if answer.stopped else None,
            "output": output,
            "usage": openai_usage(answer.usage, prepared.held + prepared.new, output),
            "conversation": None if prepared.conversation is None else {"id": prepared.conversation.id},
            **{name: body.get(name, default) for name, default in _ECHOED.items()},
            **answer.extra,
        }

    def _response_id(self, scripted: str | None) -> str:
        if scripted is not None and not self._mint.claim(scripted):
            raise UserError(f"The provider's script gives two responses the id {scripted!r}.")
        return scripted or self._mint.short("resp")

    def _output_item(self, item: Any) -> Item:
        plain: Item = dict(plain_item(item))
        kind = plain.setdefault("type", "message")
        if kind == "message":
            plain.setdefault("role", "assistant")
        if kind in CALLS and not plain.get("call_id"):
            plain["call_id"] = self._mint.long("call")
        if kind == "mcp_call":
            plain = {"approval_request_id": None, "error": None, "output": None, "status": "completed", **plain}
        item_id = plain.get("id") or new_item_id(plain, self._mint)
        if plain.get("id") and not self._mint.claim(item_id):
            raise UserError(
                f"The provider's script gives two items the id {item_id!r}. A service never does: "
                "leave the id out, and it gets one of its own."
            )
        made = stored_form(plain, item_id)
        if kind == "reasoning":
            made.setdefault("summary", [])
            made.setdefault("encrypted_content", _sealed(item_id))
        return made

    def _keep(self, prepared: Prepared, response: Item, new: list[Item]) -> None:
        for item in new:
            self._mint.claim(item["id"])
        if response["store"]:
            history = [*prepared.held, *new, *response["output"]]
            self.stored[response["id"]] = Stored(response, new, history)
            self._ledger.items.update({item["id"]: item for item in new})
        if prepared.conversation is not None and response["status"] != "failed":
            prepared.conversation.items.extend([*new, *response["output"]])

    def error_event(self, message: str, code: str | None, number: int) -> bytes:
        return named_event(error_event(code, message, number))

    # -- the other verbs ----------------------------------------------------------------------------------------------

    def carry_out(self, request: ProviderRequest) -> Reply:
        match request.method, request.path.split("/")[2:]:
            case "GET", [name]:
                return json_reply(self._looked_at(name))
            case "DELETE", [name]:
                self.forget(name)
                return json_reply({"id": name, "object": "response.deleted", "deleted": True})
            case "GET", [name, "input_items"]:
                return json_reply(page_of(self._found(name).input, request.query, newest_first=True))
            case _:
                raise Refused(f"Invalid URL ({request.method} {request.path})", status=404)

    def _looked_at(self, name: str) -> Item:
        """A stored response. One in the background is done when it has been looked at often enough."""
        found, left = self._found(name).body, self._looks_left.get(name, 0)
        if left:
            self._looks_left[name] = left - 1
            return _unfinished(found, "in_progress")
        return found

    def forget(self, name: str) -> None:
        """Delete a stored response, and the items of its answer."""
        self._ledger.forget(self.stored.pop(self._found(name).body["id"]).body["output"])

    def _found(self, name: str) -> Stored:
        if name not in self.stored:
            raise Refused(f"Response with id '{name}' not found.", status=404)
        return self.stored[name]


_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "model": "",
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


LOOKS = 1
"""So often a response in the background is not done yet when somebody asks for it."""


def _unfinished(response: Item, status: str) -> Item:
    return {**response, "status": status, "output": [], "usage": None, "completed_at": None}


def _input_items(given: Any) -> list[Any]:
    if given is None:
        return []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _sealed(item_id: str) -> str:
    """Encrypted reasoning: nobody but the service can make or read it."""
    return "gAAAAA" + base64.urlsafe_b64encode(hashlib.sha256(f"reasoning of {item_id}".encode()).digest()).decode()
