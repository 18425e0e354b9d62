"""What a tool may return for the model to see rather than read: texts, images and files, as objects or as dicts.

Only what is declared as content is content. Data that merely looks alike stays data: a provider would refuse it at
every request, after the effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from placet.facts.codec import Json, JsonObject
from placet.facts.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputText:
    """A part of an output that is text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputImage:
    """A part of an output that is an image: by its address (a data URL, too) or by its id at the provider."""

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None
    type: Literal["image"] = "image"

    def __post_init__(self) -> None:
        if self.image_url is None and self.file_id is None:
            raise UserError("ToolOutputImage needs an image_url or a file_id.")
        if self.image_url is not None and not _is_address(self.image_url):
            raise UserError("ToolOutputImage: an image_url begins with https://, http:// or data:.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputFileContent:
    """A part of an output that is a file: its data in base64, its address, or its id at the provider."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    type: Literal["file"] = "file"

    def __post_init__(self) -> None:
        if self.file_data is None and self.file_url is None and self.file_id is None:
            raise UserError("ToolOutputFileContent needs file_data, a file_url or a file_id.")


ToolOutputPart: TypeAlias = ToolOutputText | ToolOutputImage | ToolOutputFileContent

_FIELDS: dict[str, tuple[str, frozenset[str], tuple[str, ...]]] = {
    "text": ("input_text", frozenset({"text"}), ("text",)),
    "image": ("input_image", frozenset({"image_url", "file_id", "detail"}), ("image_url", "file_id")),
    "file": (
        "input_file",
        frozenset({"file_data", "file_url", "file_id", "filename"}),
        ("file_data", "file_url", "file_id"),
    ),
}
"""By the type of a part: its type for a provider, the fields that it may have, and those of which it needs one."""


def content_of(value: object) -> list[Json] | None:
    """The content parts that a model is sent for what a tool returned; None: it returned something else.

    A dict counts as a part only if it has the fields of one and no other: `{"type": "text", "lang": "de"}` is data.
    """
    parts = list(value) if isinstance(value, list | tuple) else [value]
    found = [_part(each) for each in parts]
    return None if not found or None in found else list(found)


def _part(value: object) -> JsonObject | None:
    fields: dict[str, Any]  # Any: a tool's own dict, looked at below
    if isinstance(value, ToolOutputText | ToolOutputImage | ToolOutputFileContent):
        fields = asdict(value)
    elif isinstance(value, Mapping):
        fields = dict(value)
    else:
        return None
    kind = fields.pop("type", None)
    if not isinstance(kind, str) or kind not in _FIELDS:
        return None
    sent_as, known, needed = _FIELDS[kind]
    given = {name: each for name, each in fields.items() if each is not None}
    is_part = given.keys() <= known and any(name in given for name in needed)
    if not is_part or not all(isinstance(each, str) for each in given.values()):
        return None
    if not _is_address(given.get("image_url", "data:")):
        return None
    return {"type": sent_as, **given}


def _is_address(text: object) -> bool:
    return isinstance(text, str) and text.startswith(("https://", "http://", "data:"))


def is_content(value: Json) -> bool:
    """Whether this is a list of parts in the shape of the Responses API, each with all that its kind needs and nothing
    that it does not know."""
    return isinstance(value, list) and bool(value) and all(map(_is_sent_part, value))


_EXTRA = {"cache_control", "citations", "detail", "title", "context"}
"""What a provider may be told of a part beside its content."""


def _is_sent_part(part: Json) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str) or not kind.startswith("input_"):
        return False
    rest = {name: each for name, each in part.items() if name not in _EXTRA}
    is_detail = part.get("detail") in (None, "low", "high", "auto", "original")
    return is_detail and _part({**rest, "type": kind.removeprefix("input_")}) is not None
