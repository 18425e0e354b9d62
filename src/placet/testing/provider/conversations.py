"""The Conversations API: items that the service keeps, listed newest first, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from placet.testing.provider.ids import Mint
from placet.testing.provider.parameters import check_metadata, check_one_of, check_parameters, check_type, missing
from placet.testing.provider.recording import ProviderRequest
from placet.testing.provider.refusal import Refused
from placet.testing.provider.response_history import GivenItems
from placet.testing.provider.response_items import FORMS, Item, check_item, stored_form, type_of


@dataclass(slots=True)
class Conversation:
    id: str
    created_at: int
    metadata: Any = None
    items: list[Item] = field(default_factory=list)
    is_locked: bool = False
    """A response in it is not complete yet."""

    def shown(self) -> Item:
        return {"id": self.id, "object": "conversation", "created_at": self.created_at, "metadata": self.metadata or {}}


class Conversations:
    def __init__(self, mint: Mint, ledger: GivenItems) -> None:
        self._mint = mint
        self._ledger = ledger
        self.by_id: dict[str, Conversation] = {}

    def find(self, name: str) -> Conversation:
        if name not in self.by_id:
            raise Refused(f"Conversation with id '{name}' not found.", status=404)
        return self.by_id[name]

    def create(self, items: Sequence[Any] = (), metadata: Any = None, now: float = 0.0) -> Conversation:
        conversation = Conversation(f"conv_{uuid4().hex}", int(now), metadata)
        conversation.items = self._stored(items)
        self.by_id[conversation.id] = conversation
        return conversation

    def carry_out(self, request: ProviderRequest, now: float) -> Any:
        body = request.body
        match request.method, request.path.split("/")[2:]:
            case "POST", []:
                given = body or {}
                check_parameters(given, {"items": "array?", "metadata": "object?"}, ())
                check_metadata(given)
                return self.create(self._checked(given.get("items") or []), given.get("metadata"), now).shown()
            case "GET", [name]:
                return self.find(name).shown()
            case "POST", [name]:
                check_parameters(body, {"metadata": "object"}, ("metadata",))
                check_metadata(body)
                self.find(name).metadata = body["metadata"]
                return self.find(name).shown()
            case "DELETE", [name]:
                del self.by_id[self.find(name).id]
                return {"id": name, "object": "conversation.deleted", "deleted": True}
            case "POST", [name, "items"]:
                return self._add(self.find(name), body)
            case "GET", [name, "items"]:
                return page_of(self.find(name).items, request.query, newest_first=True)
            case "GET", [name, "items", item]:
                return shown_item(_item_of(self.find(name), item), request.query)
            case "DELETE", [name, "items", item]:
                conversation = self.find(name)
                conversation.items.remove(_item_of(conversation, item))
                return conversation.shown()
            case _:
                raise Refused(f"Invalid URL ({request.method} {request.path})", status=404)

    def _add(self, conversation: Conversation, body: Any) -> Any:
        check_parameters(body, {"items": "array"}, ("items",))
        refuse_if_locked(conversation)
        new = self._checked(body["items"])
        known = {item["id"] for item in conversation.items}
        for item in new:
            if item.get("id") in known:
                raise Refused(f"Duplicate item found with id {item['id']} in the conversation.", param="items")
        stored = self._stored(new)
        conversation.items.extend(stored)
        return listed(stored, has_more=False)

    def _checked(self, items: Sequence[Any]) -> list[Item]:
        if len(items) > 20:
            raise Refused(
                f"Invalid 'items': array too long. Expected at most 20 items, but got {len(items)} instead.",
                param="items",
                code="array_above_max_length",
            )
        for index, item in enumerate(items):
            check_item(item, f"items[{index}]", self._ledger.given(item))
            if type_of(item) == "item_reference":
                raise Refused(f"Invalid value: 'item_reference' for 'items[{index}].type'.", param=f"items[{index}]")
            if type_of(item) == "reasoning" and not item.get("id") and not item.get("encrypted_content"):
                raise missing(f"items[{index}].id")
        return list(items)

    def _stored(self, items: Sequence[Any]) -> list[Item]:
        stored = [stored_form(item, item.get("id") or new_item_id(item, self._mint)) for item in items]
        for item in stored:
            self._mint.claim(item["id"])
            self._ledger.items[item["id"]] = item
        return stored


def new_item_id(item: Item, mint: Mint) -> str:
    form = FORMS.get(type_of(item))
    return mint.long(form.prefix if form is not None else "item")


def refuse_if_locked(conversation: Conversation) -> None:
    if conversation.is_locked:
        raise Refused(
            "Another response is being made in this conversation. Try again in a few seconds.",
            param="conversation",
            code="conversation_locked",
        )


def _item_of(conversation: Conversation, name: str) -> Item:
    for item in conversation.items:
        if item["id"] == name:
            return item
    raise Refused(f"Item with id '{name}' not found in conversation '{conversation.id}'.", status=404)


def page_of(items: Sequence[Item], query: dict[str, list[str]], *, newest_first: bool) -> Any:
    """A page of a list: `limit`, `order` and `after` as in all lists of the API."""
    limit = _limit(query)
    order = query.get("order", ["desc" if newest_first else "asc"])[0]
    check_one_of("order", order, ("asc", "desc"))
    ordered = list(items) if order == "asc" else list(items)[::-1]
    after = query.get("after", [None])[0]
    if after is not None:
        names = [item["id"] for item in ordered]
        if after not in names:
            raise Refused(f"Invalid 'after': there is no item '{after}' in the list.", param="after")
        ordered = ordered[names.index(after) + 1 :]
    shown = [shown_item(item, query) for item in ordered[:limit]]
    return listed(shown, has_more=len(ordered) > limit)


def _limit(query: dict[str, list[str]]) -> int:
    text = query.get("limit", ["20"])[0]
    if not text.isdecimal():
        check_type("limit", text, "integer")
    if not 1 <= int(text) <= 100:
        raise Refused(f"Invalid 'limit': expected a value from 1 to 100, but got {text} instead.", param="limit")
    return int(text)


def shown_item(item: Item, query: dict[str, list[str]]) -> Item:
    """Encrypted reasoning is shown in lists only to those who ask for it."""
    asked = query.get("include", []) + query.get("include[]", [])
    if type_of(item) != "reasoning" or "reasoning.encrypted_content" in asked:
        return item
    return {name: value for name, value in item.items() if name != "encrypted_content"}


def listed(items: Sequence[Item], *, has_more: bool) -> Any:
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return {"object": "list", "data": list(items), "first_id": first, "last_id": last, "has_more": has_more}
