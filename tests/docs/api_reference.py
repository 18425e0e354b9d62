"""The reference of the API, as text, out of its own description.

python -m tests.docs.api_reference        writes it into docs/api.md, below the line that says so
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from placet.desk.api.openapi import DESCRIPTIONS
from placet.desk.api.v1 import openapi
from tests.docs.pages import DOCS

PAGE = DOCS / "api.md"
MARK = "<!-- generated from the API's own description: python -m tests.docs.api_reference -->\n"
Schema = dict[str, Any]


def reference() -> str:
    found = json.loads(openapi())
    return "\n".join([*_operations(found), *_shapes(found), *_problems()]) + "\n"


def _operations(found: Schema) -> Iterator[str]:
    for tag in found["tags"]:
        yield f"## {tag['name'].capitalize()}\n\n{tag['description']}.\n"
        for path, methods in found["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(path, method, operation)


def _operation(path: str, method: str, operation: Schema) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    role = operation.get("x-role")
    yield f"{operation['summary']}. " + (f"Role: {role}." if role else "For everybody.") + "\n"
    if "description" in operation:
        yield operation["description"] + "\n"
    asked = [each for each in operation["parameters"] if each["in"] == "query"]
    if asked:
        yield "| parameter | | |\n|---|---|---|"
        for each in asked:
            needed = "required" if each["required"] else ""
            yield f"| `{each['name']}` | {_kind(each['schema'])} {needed}| {_words(each)} |"
        yield ""
    body = operation.get("requestBody")
    if body is not None:
        yield f"Takes {_kind(body['content']['application/json']['schema'])}.\n"
    answers = {status: each for status, each in operation["responses"].items() if status < "400"}
    for status, each in answers.items():
        content = each.get("content")
        kind, shape = next(iter(content.items())) if content else (None, None)
        told = _kind(shape["schema"]) if kind == "application/json" else f"`{kind}`" if kind else "nothing"
        yield f"Gives {told} ({status}).\n"


def _shapes(found: Schema) -> Iterator[str]:
    yield "## Shapes\n"
    for name, schema in found["components"]["schemas"].items():
        yield f"### {name}\n"
        if "description" in schema:
            yield _one_line(schema["description"]) + "\n"
        if schema.get("properties"):
            yield "| field | | |\n|---|---|---|"
            for field, each in schema["properties"].items():
                optional = "" if field in schema.get("required", ()) else " (optional)"
                yield f"| `{field}` | {_kind(each)}{optional} | {_words(each)} |"
            yield ""


def _problems() -> Iterator[str]:
    yield "## Errors\n"
    yield "| status | meaning |\n|---|---|"
    for status, words in DESCRIPTIONS.items():
        yield f"| {status} | {words} |"


def _words(schema: Schema) -> str:
    return _one_line(schema.get("description") or schema.get("schema", {}).get("description", ""))


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _kind(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_kind(each) for each in schema[word])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    return schema.get("format") or schema.get("type") or "any JSON value"


def whole_page() -> str:
    above, mark, _ = PAGE.read_text("utf-8").partition(MARK)
    assert mark, f"{PAGE} lost the line behind which the reference stands"
    return f"{above}{MARK}\n{reference()}"


if __name__ == "__main__":
    PAGE.write_text(whole_page(), "utf-8")
