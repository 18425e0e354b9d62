"""What a sequence of items must be like before a model may answer it: calls and outputs in pairs, nothing twice,
reasoning beside what it led to, approvals that answer a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from placet.testing.provider.refusal import Refused
from placet.testing.provider.response_items import CALLS, OUTPUTS, Item, type_of


@dataclass(slots=True)
class GivenItems:
    """What the service remembers of the items that it gave out."""

    items: dict[str, Item] = field(default_factory=dict)
    """By id, those that are kept."""
    forgotten: dict[str, Item] = field(default_factory=dict)
    """By id, those of responses with store=false: the service knows nothing of them, and accepts only their content."""
    led_to: dict[str, str] = field(default_factory=dict)
    """Which item each reasoning item led to."""
    reasoned: dict[str, str] = field(default_factory=dict)
    """Which reasoning item each item came from."""
    encrypted: dict[str, str] = field(default_factory=dict)
    """The reasoning item of each encrypted content."""

    def given(self, item: Any) -> Item | None:
        name = item.get("id") if isinstance(item, dict) else None
        return None if not isinstance(name, str) else self.items.get(name) or self.forgotten.get(name)

    def forget(self, output: Sequence[Item]) -> None:
        """A stored response was deleted, and its items with it: their ids lead nowhere, only their content is left."""
        for item in output:
            self.forgotten[item["id"]] = item
            self.items.pop(item["id"], None)

    def learn(self, output: Sequence[Item], *, kept: bool) -> None:
        """Take note of a response's output."""
        waiting: str | None = None
        for item in output:
            (self.items if kept else self.forgotten)[item["id"]] = item
            if type_of(item) == "reasoning":
                if waiting is not None:
                    self.led_to[waiting] = item["id"]
                waiting = item["id"]
                if item.get("encrypted_content"):
                    self.encrypted[item["encrypted_content"]] = item["id"]
            elif waiting is not None:
                self.led_to[waiting], self.reasoned[item["id"]] = item["id"], waiting
                waiting = None


def check_history(held: Sequence[Item], new: Sequence[Item], ledger: GivenItems) -> None:
    """`held` is what the service has already, `new` what the request brings."""
    _check_no_duplicates(held, new)
    _check_pairs([*held, *new])
    _check_approvals([*held, *new])
    _check_reasoning(held, new, ledger)


def _check_no_duplicates(held: Sequence[Item], new: Sequence[Item]) -> None:
    seen = {item["id"] for item in held if item.get("id")}
    for item in new:
        name = item.get("id")
        if not name:
            continue
        if name in seen:
            raise Refused(
                f"Duplicate item found with id {name}. Remove what is there twice from your input.", param="input"
            )
        seen.add(name)


def _check_pairs(items: Sequence[Item]) -> None:
    open_calls: Counter[tuple[str, str]] = Counter()
    answered: set[tuple[str, str]] = set()
    checks: dict[str, list[str]] = {}
    for item in items:
        kind = type_of(item)
        label = item.get("id" if kind == "local_shell_call_output" else "call_id") or ""
        if kind in CALLS:
            open_calls[kind, label] += 1
            checks[label] = [each["id"] for each in item.get("pending_safety_checks") or ()]
        elif kind in OUTPUTS:
            call = (OUTPUTS[kind], label)
            if open_calls[call] == 0:
                raise _unexpected_output(kind, label, twice=call in answered)
            _check_safety(item, checks.get(label, ()))
            open_calls[call] -= 1
            answered.add(call)
    for (kind, label), count in open_calls.items():
        if count:
            raise Refused(f"No tool output found for {kind.replace('_', ' ')} {label}.", param="input")


def _check_safety(output: Item, pending: Sequence[str]) -> None:
    known = [each.get("id") for each in output.get("acknowledged_safety_checks") or ()]
    missing = [name for name in pending if name not in known]
    if missing:
        raise Refused(f"The safety checks {', '.join(missing)} have not been acknowledged.", param="input")


def _unexpected_output(kind: str, label: str, *, twice: bool) -> Refused:
    what = kind.replace("_", " ")
    if twice:
        return Refused(f"Duplicate {what} for call_id {label}: that call has its output already.", param="input")
    return Refused(f"No tool call found for {what} with call_id {label}.", param="input")


def _check_approvals(items: Sequence[Item]) -> None:
    asked: set[str] = set()
    answered: set[str] = set()
    for item in items:
        if type_of(item) == "mcp_approval_request":
            asked.add(item["id"])
        elif type_of(item) == "mcp_approval_response":
            name = item["approval_request_id"]
            if name not in asked:
                raise Refused(f"No approval request found with id '{name}' for an approval response.", param="input")
            if name in answered:
                raise Refused(f"Duplicate approval response: the request '{name}' is answered already.", param="input")
            answered.add(name)


def _check_reasoning(held: Sequence[Item], new: Sequence[Item], ledger: GivenItems) -> None:
    before = {item["id"] for item in held if type_of(item) == "reasoning"}
    for index, item in enumerate(new):
        if type_of(item) == "reasoning":
            _check_reasoning_item(item, new[index + 1 :], ledger)
            before.add(item.get("id", ""))
        needed = ledger.reasoned.get(item.get("id") or "")
        if needed is not None and needed in ledger.items and needed not in before:
            raise Refused(
                f"Item '{item['id']}' of type '{type_of(item)}' was provided without the 'reasoning' item that it "
                f"requires: '{needed}'.",
                param="input",
            )


def _check_reasoning_item(item: Item, rest: Sequence[Item], ledger: GivenItems) -> None:
    """A reasoning item is one that the service gave out, unaltered, and what it led to comes next."""
    content, name = item.get("encrypted_content"), item.get("id")
    if content is not None and ledger.encrypted.get(content) is None:
        raise Refused(
            f"The encrypted content of item '{name}' could not be verified: it is not what the service gave out.",
            param="input",
            code="invalid_encrypted_content",
        )
    if content is None and name not in ledger.items:
        raise Refused(
            f"Item with id '{name}' not found. Items are kept only when `store` is true: send the encrypted content, "
            "or leave the item out.",
            param="input",
            status=404,
        )
    follower = ledger.led_to.get(name or ledger.encrypted.get(content or "", ""))
    following = rest[0] if rest else None
    if follower is None or not _is_follower(following, follower, ledger, named=name is not None):
        raise Refused(
            f"Item '{name}' of type 'reasoning' was provided without the item that must follow it.", param="input"
        )


def _is_follower(item: Item | None, follower: str, ledger: GivenItems, *, named: bool) -> bool:
    """The next item is the one that the reasoning led to; of what was not kept, or comes without ids, one of its
    type."""
    if item is None:
        return False
    if item.get("id") is not None or (named and follower in ledger.items):
        return item.get("id") == follower
    return type_of(item) == type_of(ledger.items.get(follower) or ledger.forgotten[follower])
