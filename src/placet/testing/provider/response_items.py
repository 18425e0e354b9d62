"""The items of the Responses API, one by one: which there are, and what each must and may hold.

A test compares the table with the types of the official client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placet.testing.provider.native_outputs import OUTPUT_CHECKS
from placet.testing.provider.parameters import check_one_of, check_type, missing, unknown
from placet.testing.provider.refusal import Refused

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ItemForm:
    """The fields of a kind of item, and the prefix of the ids that the service gives it."""

    prefix: str
    required: str
    optional: str = ""

    @property
    def fields(self) -> set[str]:
        return {*self.required.split(), *self.optional.split(), "type", "id"}


FORMS: dict[str, ItemForm] = {
    "message": ItemForm("msg", "role content", "phase status"),
    "function_call": ItemForm("fc", "call_id name arguments", "async caller namespace status"),
    "function_call_output": ItemForm("fco", "call_id output", "caller name namespace status"),
    "custom_tool_call": ItemForm("ctc", "call_id name input", "async caller namespace"),
    "custom_tool_call_output": ItemForm("ctco", "call_id output", "caller"),
    "reasoning": ItemForm("rs", "summary", "content encrypted_content"),  # its status is for reading only
    "item_reference": ItemForm("ref", "id"),
    "mcp_list_tools": ItemForm("mcpl", "id server_label tools", "error"),
    "mcp_approval_request": ItemForm("mcpr", "id server_label name arguments"),
    "mcp_approval_response": ItemForm("mcpa", "approval_request_id approve", "reason"),
    "mcp_call": ItemForm("mcp", "id server_label name arguments", "approval_request_id error output status"),
    "file_search_call": ItemForm("fs", "id queries", "results status"),
    "web_search_call": ItemForm("ws", "id action", "status"),
    "code_interpreter_call": ItemForm("ci", "id container_id", "code outputs status"),
    "image_generation_call": ItemForm(
        "ig", "id", "result action background error output_format quality revised_prompt size status svg_usage"
    ),
    "computer_call": ItemForm("cu", "id call_id pending_safety_checks", "action actions status"),
    "computer_call_output": ItemForm("cuo", "call_id output", "acknowledged_safety_checks status"),
    "local_shell_call": ItemForm("lsh", "id call_id action", "status"),
    "local_shell_call_output": ItemForm("lsho", "id output", "status"),
    "shell_call": ItemForm("sh", "call_id action", "caller environment status"),
    "shell_call_output": ItemForm("sho", "call_id output", "caller max_output_length status"),
    "apply_patch_call": ItemForm("ap", "call_id operation", "caller status"),
    "apply_patch_call_output": ItemForm("apo", "call_id", "caller output status"),
    "tool_search_call": ItemForm("ts", "arguments", "call_id execution status"),
    "tool_search_output": ItemForm("tso", "tools", "call_id execution status"),
    "additional_tools": ItemForm("at", "role tools"),
    "configuration_update": ItemForm("cfg", "", "reasoning text"),
    "compaction": ItemForm("cmp", "encrypted_content"),
    "compaction_trigger": ItemForm("cmpt", ""),
    "program": ItemForm("prg", "id call_id code fingerprint"),
    "program_output": ItemForm("prgo", "id call_id result", "status"),
}
CALLS: dict[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "local_shell_call": "local_shell_call_output",
}
"""Calls that the client must answer, and what it answers them with."""
OUTPUTS = {output: call for call, output in CALLS.items()}
ROLES = ("user", "assistant", "system", "developer")
INPUT_PARTS = ("input_text", "input_image", "input_file", "input_audio")
OUTPUT_PARTS = ("output_text", "refusal")
STATUSES = ("in_progress", "completed", "incomplete", "failed", "searching", "generating", "calling", "interpreting")


def type_of(item: Mapping[str, Any]) -> str:
    """An item without a type is a message, or, if it holds nothing but an id, a reference."""
    kind = item.get("type")
    if kind is None:
        return "item_reference" if set(item) <= {"id", "type"} else "message"
    return str(kind)


def check_item(item: Any, where: str, given: Item | None) -> None:
    """One item of an input. `given` is what the service gave out under this id: what came from it may return."""
    check_type(where, item, "object")
    kind = type_of(item)
    if kind not in FORMS:
        if given is not None and type_of(given) == kind:
            return
        check_one_of(f"{where}.type", kind, tuple(FORMS))
    form = FORMS[kind]
    for name in form.required.split():
        if item.get(name) is None:
            raise missing(f"{where}.{name}")
    for name in item:
        if name not in form.fields and not (given is not None and name in given):
            raise unknown(f"{where}.{name}")
    _check_fields(item, kind, where)


def _check_fields(item: Item, kind: str, where: str) -> None:
    _check_texts(item, kind, where)
    if item.get("status") is not None:
        check_one_of(f"{where}.status", item["status"], STATUSES)
    if kind == "message":
        _check_message(item, where)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        _check_output(item["output"], f"{where}.output")
    elif kind == "reasoning":
        check_type(f"{where}.summary", item["summary"], "array")
    elif kind in OUTPUT_CHECKS:
        OUTPUT_CHECKS[kind](item, where)
    elif kind == "mcp_approval_response":
        check_type(f"{where}.approve", item["approve"], "boolean")


def _check_texts(item: Item, kind: str, where: str) -> None:
    for name in ("call_id", "name", "arguments", "id", "encrypted_content"):
        if item.get(name) is not None and not (kind == "tool_search_call" and name == "arguments"):
            check_type(f"{where}.{name}", item[name], "string")
    for name in ("call_id", "id"):
        if item.get(name) == "":
            message = f"Invalid '{where}.{name}': empty string. Expected a string with at least one character."
            raise Refused(message, param=f"{where}.{name}", code="empty_string")


def _check_output(output: Any, where: str) -> None:
    check_type(where, output, "string|array")
    if isinstance(output, list):
        _check_parts(output, INPUT_PARTS, where)


def _check_message(item: Item, where: str) -> None:
    check_one_of(f"{where}.role", item["role"], ROLES)
    check_type(f"{where}.content", item["content"], "string|array")
    if isinstance(item["content"], list):
        allowed = OUTPUT_PARTS if item["role"] == "assistant" else INPUT_PARTS
        _check_parts(item["content"], allowed, f"{where}.content")


def _check_parts(parts: list[Any], allowed: tuple[str, ...], where: str) -> None:
    needed = {
        "input_text": ("text",),
        "output_text": ("text",),
        "refusal": ("refusal",),
        "input_audio": ("input_audio",),
    }
    for index, part in enumerate(parts):
        place = f"{where}[{index}]"
        check_type(place, part, "object")
        if part.get("type") is None:
            raise missing(f"{place}.type")
        check_one_of(f"{place}.type", part["type"], allowed)
        for name in needed.get(part["type"], ()):
            if part.get(name) is None:
                raise missing(f"{place}.{name}")
        if part["type"] == "input_image" and not (part.get("image_url") or part.get("file_id")):
            raise missing(f"{place}.image_url")
        if part["type"] == "input_file" and not any(part.get(name) for name in ("file_data", "file_id", "file_url")):
            raise missing(f"{place}.file_data")


def stored_form(item: Mapping[str, Any], item_id: str) -> Item:
    """An item as the service keeps and shows it: with an id, a status, and its content in parts."""
    kind = type_of(item)
    kept: Item = {**item, "type": kind, "id": item_id}
    if kind in _WITH_STATUS:
        kept.setdefault("status", "completed")
    if kind == "message":
        kept["content"] = _stored_parts(item["content"], item["role"])
    return kept


_WITH_STATUS = frozenset(
    {"message", "function_call", "function_call_output", "web_search_call", "file_search_call", "shell_call"}
    | {"apply_patch_call", "local_shell_call", "computer_call"}
)
_PART_DEFAULTS: dict[str, Item] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto", "file_id": None},
}


def _stored_parts(content: Any, role: str) -> list[Item]:
    own = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": own, "text": content}] if isinstance(content, str) else content
    return [{**_PART_DEFAULTS.get(part["type"], {}), **part} for part in parts]
