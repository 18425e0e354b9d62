"""A `call_model_input_filter` that shortens long outputs of tools in older turns. The log keeps them whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placet import CallModelData, ModelInputData


@dataclass
class ToolOutputTrimmer:
    """`RunConfig(call_model_input_filter=ToolOutputTrimmer(recent_turns=2))`."""

    recent_turns: int = 2
    """So many of the newest user messages, and all that follows them, are left alone."""
    max_output_chars: int = 500
    """Longer outputs are shortened ..."""
    preview_chars: int = 200
    """... to so many characters, with a line that says so."""
    trimmable_tools: str | Iterable[str] | None = None
    """Only outputs of these tools; None: of all."""

    def __post_init__(self) -> None:
        for name, least in (("recent_turns", 1), ("max_output_chars", 1), ("preview_chars", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be >= {least}, got {getattr(self, name)}")
        if isinstance(self.trimmable_tools, bytes):
            raise ValueError("trimmable_tools must be a string or iterable of strings")  # as in the SDK
        if self.trimmable_tools is not None:
            given = [self.trimmable_tools] if isinstance(self.trimmable_tools, str) else self.trimmable_tools
            self.trimmable_tools = frozenset(given)

    def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        items = data.model_data.input
        end = self._end_of_old(items)
        names = {str(item.get("call_id")): _names(item) for item in items if item.get("type") == "function_call"}
        shorter = [self._trimmed(item, names) if place < end else item for place, item in enumerate(items)]
        return ModelInputData(input=shorter, instructions=data.model_data.instructions)

    def _end_of_old(self, items: Sequence[Mapping[str, Any]]) -> int:
        users = [place for place, item in enumerate(items) if item.get("role") == "user"]
        return users[-self.recent_turns] if len(users) >= self.recent_turns else 0

    def _trimmed(self, item: dict[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        called = names.get(str(item.get("call_id")), ())
        is_meant = self.trimmable_tools is None or bool(set(called) & set(self.trimmable_tools))
        if item.get("type") != "function_call_output" or not is_meant:
            return item
        text, others = _contents(item.get("output"))
        size = len(text) + others
        if size <= self.max_output_chars:
            return item
        shown = text[: self.preview_chars]
        tool = called[0] if called else "unknown_tool"
        short = f"[Trimmed: {tool} output — {size} chars → {self.preview_chars} char preview]\n{shown}..."
        return item if len(short) >= size else {**item, "output": short}


def _names(call: Mapping[str, Any]) -> tuple[str, ...]:
    """The call's tool, with its group first if it has one."""
    name, group = str(call.get("name")), call.get("namespace")
    return (f"{group}.{name}", name) if group else (name,)


def _contents(output: object) -> tuple[str, int]:
    """The text of an output, and how many characters its other parts (pictures, files) have."""
    if not isinstance(output, list):
        return (output if isinstance(output, str) else str(output)), 0
    parts = [part for part in output if isinstance(part, dict)]
    texts = [str(part.get("text", "")) for part in parts if part.get("type") == "input_text"]
    others = [part for part in parts if part.get("type") != "input_text"]
    size = sum(
        len(value) for part in others for name, value in part.items() if name != "type" and isinstance(value, str)
    )
    return "\n".join(texts), size


__all__ = ["ToolOutputTrimmer"]
