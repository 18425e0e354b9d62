"""What Slack takes, as its documentation says: arguments of methods, and blocks with their limits."""

from __future__ import annotations

import json
from typing import Any


class Wrong(Exception):
    def __init__(self, message: str, code: str = "invalid_arguments") -> None:
        super().__init__(message)
        self.code = code


_ARGUMENTS: dict[str, tuple[set[str], set[str]]] = {
    "auth.test": (set(), set()),
    "apps.connections.open": (set(), set()),
    "chat.postMessage": (
        {"channel", "text"},
        {"blocks", "mrkdwn", "unfurl_links", "unfurl_media", "thread_ts", "reply_broadcast"},
    ),
    "chat.update": ({"channel", "ts", "text"}, {"blocks"}),
    "chat.postEphemeral": ({"channel", "user", "text"}, {"blocks"}),
    "views.open": ({"trigger_id", "view"}, set()),
}


def check_arguments(method: str, given: dict[str, Any]) -> None:
    needed, allowed = _ARGUMENTS[method]
    if needed - set(given) or set(given) - needed - allowed:
        raise Wrong(f"arguments {sorted(given)}, wanted {sorted(needed)}, possible {sorted(allowed)}")
    if "text" in given:
        text = given["text"]
        _must(isinstance(text, str) and text, "no text")
        _must("<" not in text and ">" not in text, "text with markup in it")
    blocks = given.get("blocks")
    if blocks is not None:
        check_blocks(blocks if isinstance(blocks, list) else json.loads(blocks))


def check_blocks(blocks: list[dict[str, Any]], *, in_view: bool = False) -> None:
    _must(len(blocks) <= (100 if in_view else 50), "too many blocks")
    names = [each["block_id"] for each in blocks if "block_id" in each]
    _must(len(set(names)) == len(names), "two blocks of one name")
    for each in blocks:
        _must(each.get("type") in _BLOCKS, f"a block of kind {each.get('type')}")
        _must(in_view or each["type"] != "input", "an input outside of a view")
        _must(len(each.get("block_id", "")) <= 255, "the name of a block is too long")
        _BLOCKS[each["type"]](each)


def check_view(view: dict[str, Any]) -> None:
    allowed = {"type", "title", "submit", "close", "blocks", "callback_id", "private_metadata"}
    _must(set(view) <= allowed, f"a view with {sorted(set(view) - allowed)}")
    _must(view.get("type") == "modal", "not a modal")
    for name in ("title", "submit", "close"):
        if name in view or name == "title":
            _text(view[name], 24)
    _must(len(view.get("private_metadata", "")) <= 3000, "too much metadata")
    check_blocks(view["blocks"], in_view=True)
    has_input = any(each["type"] == "input" for each in view["blocks"])
    _must("submit" in view or not has_input, "inputs need a button to submit them")


def _must(is_so: object, what: str) -> None:
    if not is_so:
        raise Wrong(what, "invalid_blocks")


def _only(found: dict[str, Any], *names: str) -> None:
    _must(set(found) <= set(names), f"{found.get('type')} with {sorted(set(found) - set(names))}")


def _text(found: dict[str, Any], longest: int) -> None:
    _only(found, "type", "text", "emoji")
    _must(found["type"] == "plain_text", "only plain texts are never read as markup")
    _must(1 <= len(found["text"]) <= longest, f"a text of {len(found['text'])}, at most {longest}")


def _section(block: dict[str, Any]) -> None:
    _only(block, "type", "text", "block_id")
    _text(block["text"], 3000)


def _context(block: dict[str, Any]) -> None:
    _only(block, "type", "elements", "block_id")
    _must(1 <= len(block["elements"]) <= 10, "1 to 10 elements")
    for each in block["elements"]:
        _text(each, 3000)


def _rich_text(block: dict[str, Any]) -> None:
    _only(block, "type", "elements", "block_id")
    for part in block["elements"]:
        _must(part["type"] == "rich_text_preformatted", "an unknown part")
        for each in part["elements"]:
            _must(each["type"] == "text" and 1 <= len(each["text"]) <= 3000, "a text of 1 to 3000")


def _actions(block: dict[str, Any]) -> None:
    _only(block, "type", "elements", "block_id")
    _must(1 <= len(block["elements"]) <= 25, "1 to 25 elements")
    names = [each["action_id"] for each in block["elements"]]
    _must(len(set(names)) == len(names), "two actions of one name")
    for each in block["elements"]:
        _only(each, "type", "text", "action_id", "value", "url", "style")
        _must(each["type"] == "button", "not a button")
        _text(each["text"], 75)
        _must(len(each.get("value", "")) <= 2000, "a value of more than 2000")
        _must(len(each.get("url", "")) <= 3000, "an address of more than 3000")
        _must(each.get("style") in (None, "primary", "danger"), "an unknown style")
    _must(sum(each.get("style") == "primary" for each in block["elements"]) <= 1, "two primary buttons")


def _input(block: dict[str, Any]) -> None:
    _only(block, "type", "block_id", "optional", "label", "hint", "element")
    _text(block["label"], 2000)
    if "hint" in block:
        _text(block["hint"], 2000)
    element = block["element"]
    if element["type"] == "static_select":
        _only(element, "type", "action_id", "options", "initial_option")
        _must(1 <= len(element["options"]) <= 100, "1 to 100 options")
        for each in element["options"]:
            _text(each["text"], 75)
            _must(len(each["value"]) <= 150, "the value of an option is too long")
        begun = element.get("initial_option")
        _must(begun is None or begun in element["options"], "it begins with no option")
        return
    _must(element["type"] == "plain_text_input", f"an input of kind {element['type']}")
    _only(element, "type", "action_id", "multiline", "max_length", "initial_value")
    _must(1 <= element.get("max_length", 3000) <= 3000, "at most 3000")
    _must(len(element.get("initial_value", "")) <= element.get("max_length", 3000), "it begins with too much")


_BLOCKS = {
    "section": _section,
    "context": _context,
    "rich_text": _rich_text,
    "actions": _actions,
    "input": _input,
}
