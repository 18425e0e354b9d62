"""Commands and patches as a person reads them before saying yes: lines with a kind each, to be coloured by the code
that shows them. Everything that would run is there; nothing is interpreted.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from placet.facts.codec import encode, same_value

LineKind: TypeAlias = Literal["command", "more", "file", "place", "added", "removed", "same"]
_VERBS = {"create_file": "create", "update_file": "change", "delete_file": "delete"}


class PreviewLine(NamedTuple):
    kind: LineKind
    text: str


def preview(arguments: Mapping[str, object] | None) -> list[PreviewLine] | None:
    """The arguments of a shell or patch call as lines; None for those of any other call."""
    if arguments is None:
        return None
    return _commands(arguments) or _patch(arguments) or _program(arguments) or _screen(arguments)


def _commands(arguments: Mapping[str, object]) -> list[PreviewLine] | None:
    """Commands of a shell, and their limits."""
    commands = arguments.get("commands")
    if not _are_commands(commands) or not set(arguments) <= {"commands", "timeout_ms", "max_output_length"}:
        return None
    assert isinstance(commands, list)
    limits = [name for name in arguments if name != "commands" and arguments[name] is not None]
    return [
        *(line for command in commands for line in _command(str(command))),
        *(PreviewLine("place", f"{name}: {arguments[name]}") for name in limits),
    ]


def _patch(arguments: Mapping[str, object]) -> list[PreviewLine] | None:
    operations = arguments.get("operations")
    if not _are_operations(operations) or set(arguments) != {"operations"}:
        return None
    assert isinstance(operations, list)
    return [line for operation in operations for line in _operation(operation)]


def written_otherwise(written: object, arguments: Mapping[str, object]) -> list[tuple[str, str]]:
    """What validation filled in or changed: the names of the arguments, each with what the model wrote as JSON, or
    nothing where it left the argument out. All of what it wrote under no name, where that is not an object."""
    if not isinstance(written, Mapping):
        return [("", str(written))]
    changed = [name for name in arguments if name not in written or not same_value(written[name], arguments[name])]
    changed += [name for name in written if name not in arguments]
    return [(name, encode(written[name]).decode() if name in written else "") for name in changed]


def _program(arguments: Mapping[str, object]) -> list[PreviewLine] | None:
    """One program with its arguments, as a shell would be told of it, and what else it is given."""
    command = arguments.get("command")
    others = {name: value for name, value in arguments.items() if name != "command" and value is not None}
    if not _are_commands(command) or not set(others) <= {"env", "timeout_ms", "user", "working_directory"}:
        return None
    assert isinstance(command, list)
    lines = list(_command(shlex.join(command)))
    return [*lines, *(PreviewLine("place", f"{name}: {_brief(value)}") for name, value in others.items())]


def _screen(arguments: Mapping[str, object]) -> list[PreviewLine] | None:
    """Actions with mouse and keyboard, one a line, and the provider's own doubts about them."""
    actions, checks = arguments.get("actions"), arguments.get("safety_checks") or []
    if not isinstance(actions, list) or not actions or not set(arguments) <= {"actions", "safety_checks"}:
        return None
    if not isinstance(checks, list) or not all(isinstance(each, dict) and each.get("type") for each in actions):
        return None
    lines = [PreviewLine("removed", f"safety check: {_brief(each)}") for each in checks]
    return [*lines, *(PreviewLine("file", _action(each)) for each in actions)]


def _action(action: Mapping[str, object]) -> str:
    rest = [f"{name}={encode(value).decode()}" for name, value in action.items() if name != "type"]
    return " ".join([str(action["type"]), *rest])


def _brief(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _are_commands(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _are_operations(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_operation, value))


def _is_operation(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in _VERBS
        and isinstance(value.get("path"), str)
        and isinstance(value.get("diff"), str | None)
        and set(value) <= {"type", "path", "diff"}
    )


def _command(command: str) -> Iterator[PreviewLine]:
    first, *rest = command.split("\n")
    yield PreviewLine("command", first)
    for line in rest:
        yield PreviewLine("more", line)


def _operation(operation: Mapping[str, object]) -> Iterator[PreviewLine]:
    yield PreviewLine("file", f"{_VERBS[str(operation['type'])]} {operation['path']}")
    diff = operation.get("diff")
    for line in str(diff).removesuffix("\n").split("\n") if diff else ():  # the last line's end is no line
        yield PreviewLine(_kind(line), line)


def _kind(line: str) -> LineKind:
    match line[:1]:
        case "+":
            return "added"
        case "-":
            return "removed"
        case "@" | "*":
            return "place"
        case _:
            return "same"
