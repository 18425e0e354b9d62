"""From a response to its calls: which items ask for something to be run, and under which names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placet.core.state import Call
from placet.facts.codec import JsonObject
from placet.facts.ids import local_call_id
from placet.facts.native_items import asked_in, native_of

HOSTED_MCP = "hosted_mcp"
"""The kind of a tool that the model's provider calls itself, on an MCP server, once it may."""


def hosted_identity(server: str, name: str) -> str:
    """By what approvals and grants know a tool of an MCP server that the provider talks to."""
    return f"{HOSTED_MCP}:{server.replace('%', '%25').replace(':', '%3A')}:{name}"


APPROVAL_REQUEST, APPROVAL_RESPONSE = "mcp_approval_request", "mcp_approval_response"
NAMED_CALLS = frozenset({"function_call", APPROVAL_REQUEST})
"""Calls that say the tool's name and its arguments: of a function, or a hosted call that wants a yes or no."""


def is_call(item: JsonObject) -> bool:
    """Whether the item asks the runtime for an output."""
    kind = item.get("type")
    if kind == "function_call":  # nearly all, several times a turn
        return True
    return isinstance(kind, str) and (kind in NAMED_CALLS or native_of(item) is not None)


def problem_with(output: Sequence[JsonObject]) -> str | None:
    """Why no run can continue with this output, or None."""
    if not output:
        return "it is empty"
    for item in output:
        kind = item.get("type")
        if not isinstance(kind, str):
            return "an item has no type"
        problem = _problem_with_call(item) if is_call(item) else None
        if problem is not None:
            return problem
    return None


def _problem_with_call(item: JsonObject) -> str | None:
    native = native_of(item)
    if native is not None:
        return f"a '{item['type']}' does not say what to do" if native.arguments(item) is None else None
    name, arguments = item.get("name"), item.get("arguments", "")
    if not isinstance(name, str) or not name:
        return "a call names no tool"
    if not isinstance(arguments, str):
        return f"the arguments of the call of '{name}' are not a text"
    if item["type"] == APPROVAL_REQUEST and not (item.get("id") and isinstance(item.get("server_label"), str)):
        return f"the request to approve '{name}' has no id or names no MCP server"
    return None


def is_result(item: JsonObject) -> bool:
    """Whether the provider itself did something here, such as making an image: an answer may consist of that alone."""
    return str(item.get("type")).endswith("_call") and not is_call(item)


def plan_calls(
    path: str, turn: int, output: Sequence[JsonObject], seen_labels: set[str]
) -> Iterator[tuple[JsonObject, Call | None]]:
    """Each item as it stands in the history that we send, with its call if it is one. `seen_labels` learns the labels.

    Where the provider's label is missing or stood before, the call gets one from its own place: so it is the same
    after every load.
    """
    index = 0
    for item in output:
        if not is_call(item):
            yield item, None
            continue
        local = local_call_id(path, turn, index)
        is_hosted = item["type"] == APPROVAL_REQUEST
        field = "id" if is_hosted else "call_id"
        label = item.get(field)
        if isinstance(label, str) and label and label not in seen_labels:
            sent, shown = label, item
        else:
            sent = _label_from_place(str(label or "call"), local, seen_labels)
            shown = {**item, field: sent}
        seen_labels.add(sent)
        index += 1
        name, arguments, native = asked_in(item)
        server = str(item.get("server_label") or "") if is_hosted else None
        yield shown, Call(local, item, name, arguments, str(label or ""), sent, native, server)


def label_field(item: JsonObject) -> str:
    """Where the provider's label of a call stands."""
    return "id" if item.get("type") == APPROVAL_REQUEST else "call_id"


def _label_from_place(label: str, local: str, seen: set[str]) -> str:
    made = f"{label}_{local.replace('/', '_').replace('.', '-')}"
    while made in seen:  # a provider may have used even this
        made += "_"
    return made
