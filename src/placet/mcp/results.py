"""From what a server answers to what a model reads, and from what it asks to what a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

from placet.core.elicitation import problem_with_questions
from placet.declare.tool import Failed
from placet.facts.codec import Json, JsonObject, encode
from placet.facts.errors import ToolError

if TYPE_CHECKING:
    from mcp.types import (
        AudioContent,
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ElicitRequestURLParams,
        ElicitResult,
        InputRequest,
        ResourceLink,
        TextResourceContents,
    )


def output_of(result: CallToolResult, *, use_structured_content: bool = False) -> object:
    """What the model reads of a result: a text where all of it is text, else content parts."""
    structured = result.structured_content
    if structured is not None and (use_structured_content or not result.content):
        output: Json = encode(structured).decode()
    else:
        parts = [_part(block) for block in result.content]
        texts = [part["text"] for part in parts if part["type"] == "input_text"]
        output = "\n".join(map(str, texts)) if len(texts) == len(parts) else list(parts)
    return Failed(output) if result.is_error else output


def _part(block: ContentBlock) -> JsonObject:
    match block.type:
        case "text":
            return _text(block.text)
        case "image":
            return _image(block.mime_type, block.data)
        case "audio":
            return _audio(block)
        case "resource":
            return _resource(block.resource)
        case "resource_link":
            return _link(block)
        case never:
            assert_never(never)


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _image(mime_type: str, data: str) -> JsonObject:
    return {"type": "input_image", "image_url": f"data:{mime_type};base64,{data}"}


def _audio(block: AudioContent) -> JsonObject:
    return _text(f"[a sound, {block.mime_type}, {_size(block.data)} bytes, which cannot be shown here]")


def _link(block: ResourceLink) -> JsonObject:
    about = " ".join(filter(None, [block.title or block.name, block.description]))
    return _text(f"[{about}: {block.uri}]")


def _resource(found: TextResourceContents | BlobResourceContents) -> JsonObject:
    text = getattr(found, "text", None)
    if text is not None:
        return _text(f"[{found.uri}]\n{text}")
    data, kind = str(getattr(found, "blob", "")), found.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return _image(kind, data)
    if kind == "application/pdf":
        name = found.uri.rstrip("/").rpartition("/")[2] or "document.pdf"
        return {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,{data}"}
    return _text(f"[{found.uri}, {kind}, {_size(data)} bytes, which cannot be shown here]")


def _size(base64_data: str) -> int:
    return len(base64_data.rstrip("=")) * 3 // 4


# -- questions ---------------------------------------------------------------------------------------------------------


def questions_of(requests: Mapping[str, InputRequest]) -> dict[str, JsonObject]:
    """What a server asks for in the middle of a call, by its keys. What no person can give is a ToolError."""
    found: dict[str, JsonObject] = {}
    for key, request in requests.items():
        if request.method != "elicitation/create":
            raise ToolError(
                f"The server asked for {request.method!r} in the middle of the call, which is not offered to servers: "
                "the call was broken off."
            )
        found[key] = question_of(request.params)
    problem = problem_with_questions(found)
    if problem is not None:
        raise ToolError(
            f"The server asked for input in the middle of the call, and {problem}: the call was broken off."
        )
    return found


def question_of(params: Any) -> JsonObject:  # Any: one of the SDK's two shapes
    shown: JsonObject = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    kept = ("message", "url", "elicitationId") if params.mode == "url" else ("message", "requestedSchema")
    return {"mode": str(params.mode), **{name: shown[name] for name in kept if name in shown}}


def links_of(elicitations: list[ElicitRequestURLParams]) -> dict[str, JsonObject]:
    """The pages to which a server of an older protocol sends a person before it takes the call at all."""
    return {each.elicitation_id or f"link-{number}": question_of(each) for number, each in enumerate(elicitations)}


def as_response(answer: Mapping[str, Any]) -> ElicitResult:
    from mcp.types import ElicitResult

    return ElicitResult(action=answer["action"], content=answer.get("content"))
