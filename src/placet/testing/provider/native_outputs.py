"""What the Responses API wants to be told of calls that it wrote as items of their own kind: shells, patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placet.testing.provider.parameters import check_one_of, check_type, missing, unknown

Item = dict[str, Any]


def _check_shell(item: Item, where: str) -> None:
    check_type(f"{where}.output", item["output"], "array")
    for index, content in enumerate(item["output"]):
        place = f"{where}.output[{index}]"
        check_type(place, content, "object")
        _check_names(content, place, ("stdout", "stderr", "outcome"))
        check_type(f"{place}.stdout", content["stdout"], "string")
        check_type(f"{place}.stderr", content["stderr"], "string")
        _check_outcome(content["outcome"], f"{place}.outcome")
    if item.get("max_output_length") is not None:
        check_type(f"{where}.max_output_length", item["max_output_length"], "integer")


def _check_outcome(outcome: Any, where: str) -> None:
    check_type(where, outcome, "object")
    check_one_of(f"{where}.type", outcome.get("type"), ("exit", "timeout"))
    _check_names(outcome, where, ("type", "exit_code") if outcome["type"] == "exit" else ("type",))
    if outcome["type"] == "exit":
        check_type(f"{where}.exit_code", outcome["exit_code"], "integer")


def _check_patch(item: Item, where: str) -> None:
    if item.get("status") is None:
        raise missing(f"{where}.status")
    check_one_of(f"{where}.status", item["status"], ("completed", "failed"))
    if item.get("output") is not None:
        check_type(f"{where}.output", item["output"], "string")


def _check_program(item: Item, where: str) -> None:
    check_type(f"{where}.output", item["output"], "string")


def _check_screenshot(item: Item, where: str) -> None:
    output = item["output"]
    check_type(f"{where}.output", output, "object")
    check_one_of(f"{where}.output.type", output.get("type"), ("computer_screenshot",))
    if not (output.get("image_url") or output.get("file_id")):
        raise missing(f"{where}.output.image_url")


def _check_names(given: Item, where: str, names: tuple[str, ...]) -> None:
    for name in names:
        if given.get(name) is None:
            raise missing(f"{where}.{name}")
    for name in given:
        if name not in names:
            raise unknown(f"{where}.{name}")


OUTPUT_CHECKS: dict[str, Callable[[Item, str], None]] = {
    "shell_call_output": _check_shell,
    "apply_patch_call_output": _check_patch,
    "local_shell_call_output": _check_program,
    "computer_call_output": _check_screenshot,
}
"""By the type of the item."""
