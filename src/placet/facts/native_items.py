"""Calls that a provider writes as items of their own kind, without a name and arguments: what each of them asks for, in
the words of an ordinary call, and the kind of output that its provider waits for. One line of the table per kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from placet.facts.codec import Json, JsonObject, encode, parse_arguments


class EndedCall(NamedTuple):
    """How a call of such a kind ended."""

    item: JsonObject
    label: str
    has_run: bool
    """It ran to its end, or a person answered in its place."""
    output: Json


Arguments: TypeAlias = Callable[[JsonObject], JsonObject | None]
Answer: TypeAlias = Callable[[EndedCall], JsonObject]


class Native(NamedTuple):
    """A kind of call."""

    tool: str
    """The name and the kind of the tool that is meant."""
    output: str
    """The type of the item that answers it."""
    output_label: str
    """Where the call's label stands in that item."""
    arguments: Arguments
    """The arguments of the call; None: the item is not one that a provider would send."""
    answer: Answer
    names_its_tool: bool = False
    """The item says the name of the tool; `tool` is its kind only."""


# -- shell -------------------------------------------------------------------------------------------------------------


def _shell_arguments(item: JsonObject) -> JsonObject | None:
    action = item.get("action")
    commands = action.get("commands") if isinstance(action, dict) else None
    if not isinstance(action, dict) or not _are_texts(commands):
        return None
    limits = {name: action.get(name) for name in ("timeout_ms", "max_output_length")}
    return {"commands": commands, **limits}


def _shell_answer(ended: EndedCall) -> JsonObject:
    """The output of each command. What is no result of commands (a rejection, say) is read as what went wrong."""
    note, found = _shell_result(ended)
    if found is None:
        text = text_of_output(ended.output)
        content = [_content(text, "", 0) if ended.has_run else _content("", text, 1)]
    else:
        content = [_shell_content(each) for each in found]
        content[0]["stdout"] = note + str(content[0]["stdout"])
    item: JsonObject = {"type": "shell_call_output", "call_id": ended.label, "output": content}
    action = ended.item.get("action")
    limit = action.get("max_output_length") if isinstance(action, dict) else None
    return item if limit is None else {**item, "max_output_length": limit}


def _shell_result(ended: EndedCall) -> tuple[str, list[JsonObject] | None]:
    """What an executor gave back, as the log keeps it: JSON, behind the line that tells of an edit (or nothing)."""
    if not ended.has_run or not isinstance(ended.output, str):
        return "", None
    note, newline, rest = ended.output.rpartition("\n")
    data = parse_arguments(rest)
    found = data.get("output") if data is not None else None
    results = [dict(each) for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return (note + newline, results) if results else ("", None)


def _shell_content(given: JsonObject) -> JsonObject:
    outcome = given.get("outcome")
    if isinstance(outcome, dict) and outcome.get("type") == "timeout":
        return {**_content(_text(given, "stdout"), _text(given, "stderr"), 0), "outcome": {"type": "timeout"}}
    code = outcome.get("exit_code") if isinstance(outcome, dict) else None
    return _content(_text(given, "stdout"), _text(given, "stderr"), code if isinstance(code, int) else 0)


def _content(stdout: str, stderr: str, exit_code: int) -> JsonObject:
    return {"stdout": stdout, "stderr": stderr, "outcome": {"type": "exit", "exit_code": exit_code}}


# -- patches -----------------------------------------------------------------------------------------------------------


def _patch_arguments(item: JsonObject) -> JsonObject | None:
    operation = item.get("operation")
    if not isinstance(operation, dict):
        return None
    return {"operations": [{name: operation.get(name) for name in ("type", "path", "diff")}]}


def _patch_answer(ended: EndedCall) -> JsonObject:
    status = "completed" if ended.has_run else "failed"
    text = text_of_output(ended.output)
    return {"type": "apply_patch_call_output", "call_id": ended.label, "status": status, "output": text}


# -- one program -------------------------------------------------------------------------------------------------------

_PROGRAM = ("command", "env", "timeout_ms", "user", "working_directory")


def _program_arguments(item: JsonObject) -> JsonObject | None:
    action = item.get("action")
    if not isinstance(action, dict) or not _are_texts(action.get("command")):
        return None
    return {name: action[name] for name in _PROGRAM if action.get(name) not in (None, {})}


def _program_answer(ended: EndedCall) -> JsonObject:
    return {"type": "local_shell_call_output", "id": ended.label, "output": text_of_output(ended.output)}


# -- a computer --------------------------------------------------------------------------------------------------------

NOTHING_TO_SEE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
"""One empty pixel: the provider takes nothing but a picture, also for what was not done."""


def _computer_arguments(item: JsonObject) -> JsonObject | None:
    """The actions; with the provider's safety checks, so that the person who approves the call has seen them."""
    given = item.get("actions") or ([item["action"]] if item.get("action") is not None else None)
    actions = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    if not isinstance(given, list) or not actions or len(actions) != len(given):
        return None
    known: list[Json] = [{name: value for name, value in each.items() if value is not None} for each in actions]
    pending = item.get("pending_safety_checks")
    checks: list[Json] = (
        [_check(each) for each in pending if isinstance(each, dict)] if isinstance(pending, list) else []
    )
    return {"actions": known, "safety_checks": checks} if checks else {"actions": known}


def _check(given: JsonObject) -> JsonObject:
    return {name: given[name] for name in ("id", "code", "message") if given.get(name) is not None}


def _computer_answer(ended: EndedCall) -> JsonObject:
    """The provider goes on only when its checks are acknowledged: they are, too, where the call was not carried out."""
    picture = {"type": "computer_screenshot", "image_url": _picture_in(ended.output) or NOTHING_TO_SEE}
    item: JsonObject = {"type": "computer_call_output", "call_id": ended.label, "output": picture}
    checks = ended.item.get("pending_safety_checks")
    return {**item, "acknowledged_safety_checks": checks} if checks else item


def _picture_in(output: Json) -> str | None:
    parts = output if isinstance(output, list) else []
    found = [part.get("image_url") for part in parts if isinstance(part, dict) and part.get("type") == "input_image"]
    return next((each for each in found if isinstance(each, str)), None)


def note_on(ended: EndedCall) -> JsonObject | None:
    """What the output of a call has no place for: a picture cannot say why there is none, or that it was edited."""
    text = text_of_output(ended.output) if ended.item.get("type") == "computer_call" else ""
    if not text:
        return None
    how = "" if ended.has_run else " was not carried out"
    return {"role": "developer", "content": f"The computer call {ended.label}{how}: {text}"}


# -- free text ---------------------------------------------------------------------------------------------------------


def _custom_arguments(item: JsonObject) -> JsonObject | None:
    text, name = item.get("input"), item.get("name")
    return {"input": text} if isinstance(text, str) and isinstance(name, str) and name else None


def _custom_answer(ended: EndedCall) -> JsonObject:
    output = ended.output if isinstance(ended.output, str | list) else text_of_output(ended.output)
    return {"type": "custom_tool_call_output", "call_id": ended.label, "output": output}


# -- all of them -------------------------------------------------------------------------------------------------------

NATIVE: dict[str, Native] = {
    "shell_call": Native("shell", "shell_call_output", "call_id", _shell_arguments, _shell_answer),
    "apply_patch_call": Native("apply_patch", "apply_patch_call_output", "call_id", _patch_arguments, _patch_answer),
    "local_shell_call": Native("local_shell", "local_shell_call_output", "id", _program_arguments, _program_answer),
    "computer_call": Native("computer", "computer_call_output", "call_id", _computer_arguments, _computer_answer),
    "custom_tool_call": Native(
        "custom", "custom_tool_call_output", "call_id", _custom_arguments, _custom_answer, names_its_tool=True
    ),
}
"""By the type of the call's item."""
CALL_OF_OUTPUT = {native.output: kind for kind, native in NATIVE.items()}


def native_of(item: JsonObject) -> Native | None:
    """The kind of call that this item is, if the program that asked is to carry it out."""
    kind = item.get("type")
    if kind == "function_call" or not isinstance(kind, str):  # nearly all calls, several times a turn
        return None
    native = NATIVE.get(kind)
    return native if native is not None and not _runs_at_the_provider(item) else None


def _runs_at_the_provider(item: JsonObject) -> bool:
    """Commands in a container of the provider's come with their output."""
    environment = item.get("environment")
    return isinstance(environment, dict) and environment.get("type") == "container_reference"


def asked_in(item: JsonObject) -> tuple[str, str, str | None]:
    """The name of the tool that a call's item means, the arguments as a JSON text, and the kind of tool that alone may
    run it, if it is of such a kind."""
    native = native_of(item)
    if native is None:
        arguments = item.get("arguments")
        name = str(item.get("name") or "")
        if "namespace" in item and item["namespace"] not in (None, "", name):  # loaded by its own name: in no group
            name = f"{item['namespace']}.{name}"
        return name, arguments if isinstance(arguments, str) else "", None
    found = native.arguments(item)
    name = str(item.get("name") or "") if native.names_its_tool else native.tool
    return name, "" if found is None else encode(found).decode(), native.tool


def as_function_item(item: JsonObject) -> JsonObject:
    """The item as a provider reads it that has functions only; any other item as it is."""
    kind = item.get("type")
    if native_of(item) is not None:
        name, arguments, _ = asked_in(item)
        return {"type": "function_call", "call_id": item.get("call_id"), "name": name, "arguments": arguments}
    native = NATIVE.get(CALL_OF_OUTPUT.get(kind, "")) if isinstance(kind, str) else None
    if native is None:
        return item
    return {"type": "function_call_output", "call_id": item.get(native.output_label), "output": _read(item)}


def _read(item: JsonObject) -> Json:
    output = item.get("output")
    if isinstance(output, dict) and output.get("type") == "computer_screenshot":
        seen = {name: output[name] for name in ("image_url", "file_id") if output.get(name) is not None}
        return [{"type": "input_image", **seen}]
    if not isinstance(output, list):
        return output if isinstance(output, str) else encode(output).decode()
    return "\n".join(_printed(each) for each in output if isinstance(each, dict))


def _printed(content: JsonObject) -> str:
    outcome = content.get("outcome")
    how = outcome if isinstance(outcome, dict) else {}
    end = "[stopped: it took too long]" if how.get("type") == "timeout" else f"[exit code {how.get('exit_code')}]"
    texts = (_text(content, "stdout").rstrip("\n"), _text(content, "stderr").rstrip("\n"), end)
    return "\n".join(each for each in texts if each)


def text_of_output(output: Json) -> str:
    """What can be read of a call's output: a text, or the texts of its parts."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return "\n".join(_text(part, "text") for part in output if isinstance(part, dict) and "text" in part)
    return "" if output is None else encode(output).decode()


def _text(given: JsonObject, name: str) -> str:
    found = given.get(name)
    return found if isinstance(found, str) else ""


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
