"""The delivery ledger on its own, for people who drive a server-managed conversation themselves.

Its rule: an item is delivered when a response to the request that carried it was tracked. Until then it is in flight; a
request that failed is rewound. An item is known by its key and by how many of that key stand before it in the input and
the generated items, never by being the same Python object. So both lists may be rebuilt at any time; between two
hydrations they only grow.

Inside a run nothing is inferred like this: there the log knows (`placet.core.delivery`).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from placet.facts.codec import JsonObject, NotPlain, canonical, plain_item
from placet.facts.errors import UserError
from placet.facts.items import field_of

GivenInput: TypeAlias = str | Sequence[object]
"""A text, or items: run items, plain dicts, or objects of the `openai` package."""

_Key: TypeAlias = tuple[Literal["call", "output", "approval", "other"], str]
"""The kind of an item, and the provider's label of the call; of an item that has none, what it says."""

_PLACEHOLDER_IDS = frozenset({"", "__fake_id__"})
"""What adapters write where a provider gave no id: no server knows an item by these."""


class _Entry(msgspec.Struct, frozen=True):
    """One item of the input or of the generated items, at its place."""

    key: _Key
    nth: int
    item: JsonObject
    generated: bool

    @property
    def occurrence(self) -> tuple[_Key, int]:
        return self.key, self.nth

    @property
    def server_id(self) -> str | None:
        # The id of this one type is the label of its call, and says nothing about where the output is.
        return None if self.item.get("type") == "local_shell_call_output" else _real_id(self.item.get("id"))


class OpenAIServerConversationTracker:
    """Knows what the server holds, and prepares what it does not."""

    def __init__(
        self,
        conversation_id: str | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
    ) -> None:
        self.conversation_id = conversation_id
        self.previous_response_id = previous_response_id
        self.auto_previous_response_id = auto_previous_response_id
        self._forget()

    def _forget(self) -> None:
        self.server_item_ids: set[str] = set()
        """The ids of items that the server holds."""
        self.server_tool_call_ids: set[str] = set()
        """The labels of calls whose output the server holds. A label that is called again leaves the set."""
        self._held: set[tuple[_Key, int]] = set()
        self._offered: dict[tuple[_Key, int], _Entry] = {}
        self._in_flight: dict[tuple[_Key, int], _Entry] = {}
        self._produced: Counter[_Key] = Counter()
        """What responses brought and was not yet seen in the lists. It is not sent back when it appears there."""
        self._awaited: Counter[_Key] = Counter()
        """How many outputs the server waits for, by the outputs' key."""
        self._answered_before: set[_Key] = set()
        """The outputs that a hydration told to be on the server, also those that its lists did not show."""
        self._certainly_unsent: set[_Key] = set()

    def hydrate_from_state(
        self,
        *,
        original_input: GivenInput,
        generated_items: Sequence[object],
        model_responses: Sequence[object],
        session_items: Sequence[object] | None = None,
        unsent_tool_call_ids: Collection[str] | None = None,
    ) -> None:
        """Begin again from what is told here: earlier marks and acknowledgements are forgotten.

        On the server are: the original input, what the responses brought, items with a server's id, items of the
        session, and the outputs of every response but the last. `unsent_tool_call_ids` overrules all of this for the
        newest outputs under these labels.
        """
        self._forget()
        self._certainly_unsent = {("output", label) for label in unsent_tool_call_ids or ()}
        calls = self._learn_all(model_responses)
        entries = _entries(original_input, generated_items)
        unsent = self._outputs_of_open_calls(entries, calls)
        in_session = Counter(entry.key for entry in _entries(session_items or (), ()))
        for entry in entries:
            stored = _take_one(in_session, entry.key)
            produced = entry.generated and _take_one(self._produced, entry.key)
            known = stored or produced or not entry.generated or entry.server_id is not None or entry.key in calls
            if known and entry.occurrence not in unsent:
                self._hold(entry)

    def prepare_input(self, original_input: GivenInput, generated_items: Sequence[object]) -> list[JsonObject]:
        """What the next request must carry: copies of the unsent items, in order. Preparing is not sending."""
        produced = self._produced.copy()
        entries = _entries(original_input, generated_items)
        self._offered = {entry.occurrence: entry for entry in entries if not self._is_settled(entry, produced)}
        return [plain_item(entry.item) for entry in self._offered.values()]

    def mark_input_as_sent(self, items: GivenInput) -> None:
        """The request with these items is about to go out. What was prepared and is not among them stays unsent.

        The items may be other objects in another order, and outputs may say something else under their label.
        """
        for entry in _matching(items, self._offered.values()):
            self._in_flight[entry.occurrence] = self._offered.pop(entry.occurrence)

    def rewind_input(self, items: GivenInput) -> None:
        """The request with these items failed: what it carried is unsent again, unless it was acknowledged."""
        for entry in _matching(items, self._in_flight.values()):
            self._offered[entry.occurrence] = self._in_flight.pop(entry.occurrence)

    def track_server_items(self, model_response: object) -> None:
        """The acknowledgement: this response (ours, or the `openai` package's) answers all that is in flight."""
        if model_response is None:
            return
        for entry in self._in_flight.values():
            _take_one(self._awaited, entry.key)
            self._hold(entry)
        self._in_flight.clear()
        self._learn(model_response)

    def _learn_all(self, responses: Sequence[object]) -> dict[_Key, list[int]]:
        """Take over past responses. Returns, for each output that they asked for, the numbers of those that did."""
        calls: defaultdict[_Key, list[int]] = defaultdict(list)
        for number, response in enumerate(responses):
            self._awaited.clear()  # that this response exists means that the calls before it were answered
            for output in self._learn(response):
                calls[output].append(number)
        for output in self._certainly_unsent:
            self._awaited[output] = max(1, _made_by_newest(calls.get(output, [])))
        self._answered_before = {output for output in calls if self._awaited[output] == 0}
        self.server_tool_call_ids.update(label for _, label in self._answered_before)
        return dict(calls)

    def _learn(self, response: object) -> list[_Key]:
        """Take over what a response brought. Returns the keys of the outputs that it asks for."""
        asked_for: list[_Key] = []
        for entry in _entries((), field_of(response, "output") or ()):
            self._produced[entry.key] += 1
            if entry.key[0] == "call":
                asked_for.append(("output", entry.key[1]))
                self._awaited[asked_for[-1]] += 1
                self._answered_before.discard(asked_for[-1])
                self.server_tool_call_ids.discard(entry.key[1])
            _take_one(self._awaited, entry.key)  # an output in a response is that of a tool that the provider runs
            self._note_ids(entry)
        if self.conversation_id is None and (self.auto_previous_response_id or self.previous_response_id is not None):
            found = _real_id(field_of(response, "response_id")) or _real_id(field_of(response, "id"))
            self.previous_response_id = found or self.previous_response_id
        return asked_for

    def _hold(self, entry: _Entry) -> None:
        self._held.add(entry.occurrence)
        self._note_ids(entry)

    def _note_ids(self, entry: _Entry) -> None:
        if entry.server_id is not None:
            self.server_item_ids.add(entry.server_id)
        if entry.key[0] == "output" and self._awaited[entry.key] == 0:
            self.server_tool_call_ids.add(entry.key[1])

    def _is_settled(self, entry: _Entry, produced: Counter[_Key]) -> bool:
        """Whether an item is not to be sent: never, not again, or not now."""
        if entry.key[0] == "approval" or entry.occurrence in self._held or entry.occurrence in self._in_flight:
            return True
        if _take_one(produced, entry.key) or entry.key in self._answered_before:
            return True
        if entry.key in self._certainly_unsent:
            return False
        # An id in the original input may come from another conversation; one in the generated items comes from this.
        return entry.server_id is not None and (entry.generated or entry.server_id in self.server_item_ids)

    def _outputs_of_open_calls(
        self, entries: Iterable[_Entry], calls: Mapping[_Key, list[int]]
    ) -> set[tuple[_Key, int]]:
        """The outputs that are not on the server: those of the last response's calls, and those named as unsent."""
        by_output: defaultdict[_Key, list[_Entry]] = defaultdict(list)
        for entry in entries:
            kind, label = entry.key
            output: _Key = ("output", label)
            is_on_server = not entry.generated or (kind == "output" and entry.server_id is not None)
            if kind != "other" and self._awaited[output] and (output in self._certainly_unsent or not is_on_server):
                by_output[output].append(entry)
        return {
            entry.occurrence
            for output, of_label in by_output.items()
            for entry in _outputs_of_newest_calls(of_label, calls.get(output, []))
        }


def _outputs_of_newest_calls(of_label: list[_Entry], calls: list[int]) -> list[_Entry]:
    """Of the outputs under one label, those that answer the newest response that called under it."""
    outputs = [entry for entry in of_label if entry.key[0] == "output"]
    if not calls:  # no response that was given knows them
        return outputs
    newest = _made_by_newest(calls)
    places = _places_of_calls(of_label)
    if not places:  # only outputs were kept: the first ones answer the older calls
        return outputs[len(calls) - newest :][-newest:]
    first = places[-newest:][0]  # counted from the end, because the beginning may have been cut off
    return [entry for entry in of_label[first:] if entry.key[0] == "output"][-newest:]


def _places_of_calls(of_label: list[_Entry]) -> list[int]:
    """Where calls stand. A pending approval stands for its call where the call itself is not in the list."""
    places, unanswered = [], 0
    for place, entry in enumerate(of_label):
        kind = entry.key[0]
        if kind == "call" or (kind == "approval" and unanswered <= 0):
            places.append(place)
            unanswered += 1
        elif kind == "output":
            unanswered -= 1
    return places


def _made_by_newest(calls: list[int]) -> int:
    """How many of the calls under a label came with the newest response that made any."""
    return calls.count(calls[-1]) if calls else 0


def _take_one(counted: Counter[_Key], key: _Key) -> bool:
    if counted[key] <= 0:
        return False
    counted[key] -= 1
    return True


def _matching(items: GivenInput, pool: Collection[_Entry]) -> list[_Entry]:
    """The entries that the items stand for, each once: the one that says the same, else the next with that label."""
    same: defaultdict[tuple[_Key, str], deque[_Entry]] = defaultdict(deque)
    for entry in pool:
        same[entry.key, _content(entry.item)].append(entry)
    given = [(entry.key, _content(entry.item)) for entry in _entries(items, ())]
    found = {i: same[what].popleft() for i, what in enumerate(given) if same.get(what)}
    taken = {entry.occurrence for entry in found.values()}
    alike: defaultdict[_Key, deque[_Entry]] = defaultdict(deque)
    for entry in pool:
        if entry.occurrence not in taken:
            alike[entry.key].append(entry)
    rewritten = (key for i, (key, _) in enumerate(given) if i not in found)
    return [*found.values(), *(alike[key].popleft() for key in rewritten if alike.get(key))]


def _entries(original_input: GivenInput, generated_items: Iterable[object]) -> list[_Entry]:
    """Both lists as one, each item with its key and its number among those of the same key."""
    if isinstance(original_input, str):
        original_input = [{"role": "user", "content": original_input}]
    seen: Counter[_Key] = Counter()
    entries = []
    for generated, items in ((False, original_input), (True, generated_items)):
        for given in items:
            item = _plain(given)
            key: _Key = ("approval", _label(item)) if _is_approval(given) else _key_of(item)
            entries.append(_Entry(key, seen[key], item, generated))
            seen[key] += 1
    return entries


def _plain(given: object) -> JsonObject:
    raw_item = given if isinstance(given, Mapping) else getattr(given, "raw_item", given)
    try:
        return plain_item(raw_item)
    except NotPlain as error:
        raise UserError(f"The conversation holds something that no request can carry: {error}") from error


def _is_approval(given: object) -> bool:
    return not isinstance(given, Mapping) and getattr(given, "type", None) == "tool_approval_item"


def _key_of(item: JsonObject) -> _Key:
    label, item_type = _label(item), str(item.get("type"))
    if not label:
        return "other", _content(item)
    return ("output" if item_type.endswith("_output") or item_type == "mcp_approval_response" else "call"), label


def _label(item: JsonObject) -> str:
    """The provider's label of a call or an output, wherever the item's type keeps it; empty for anything else."""
    match item.get("type"):
        case "mcp_approval_response":
            found = item.get("approval_request_id")
        case "mcp_approval_request" | "local_shell_call_output":
            found = item.get("call_id") or item.get("id")
        case _:
            found = item.get("call_id")
    return found if isinstance(found, str) else ""


def _content(item: JsonObject) -> str:
    """What an item says: without the fields that the server or a client library adds to it on the way."""
    added = {"type", "status"} if item.get("type") == "message" else {"status"}
    if item.get("type") != "item_reference":
        added.add("id")
    return canonical(_without_nulls({name: value for name, value in item.items() if name not in added})).decode()


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _real_id(found: object) -> str | None:
    return found if isinstance(found, str) and found not in _PLACEHOLDER_IDS else None
