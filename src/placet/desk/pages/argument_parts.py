"""What a card folds, asked for piece by piece: values, lines of commands and patches, and all of it as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from placet.desk.desk import DeskRequest
from placet.desk.pages.arguments import argument_part
from placet.desk.pages.rendering import about, show
from placet.desk.pages.text_format import json_text, shortened, size
from placet.desk.web.context import Web, actor_of, web_of
from placet.desk.web.deciding import decision_about, request_or_404
from placet.desk.web.problems import Problem
from placet.facts.codec import JsonObject
from placet.facts.preview import PreviewLine, preview

FIRST_LINES = 150
NEXT_LINES = 1000
MAX_LINE = 2000
"""Characters of one line of a command or a patch; a longer one is cut, with its size."""


@dataclass(frozen=True, slots=True)
class ShownLines:
    """Commands or patches line by line, as many as are shown at once."""

    lines: list[PreviewLine]
    limits: list[PreviewLine] = field(default_factory=list)
    """What bounds the commands: always in sight."""
    following: int = 0
    left_out: int = 0
    commands_left_out: int = 0
    page: int = NEXT_LINES


def shown_lines(arguments: JsonObject | str, start: int = 0) -> ShownLines | None:
    """None for the arguments of other calls than commands and patches."""
    found = preview(arguments) if isinstance(arguments, dict) else None
    if found is None or isinstance(arguments, str):
        return None
    bounds = sum(name != "commands" and each is not None for name, each in arguments.items())
    count = len(found) - (bounds if "commands" in arguments else 0)
    end = min(count, start + (NEXT_LINES if start else FIRST_LINES))
    rest = found[end:count]
    return ShownLines(
        [PreviewLine(each.kind, _cut(each.text)) for each in found[start:end]],
        [] if start else found[count:],
        end if rest else 0,
        len(rest),
        sum(each.kind == "command" for each in rest),
    )


def _cut(text: str) -> str:
    if len(text) <= MAX_LINE:
        return text
    return f"{shortened(text, MAX_LINE - 200)} ({size(len(text))} in all; it ends:) {text[-200:]}"


async def arguments_of(web: Web, request: DeskRequest, of: str = "") -> JsonObject | str:
    """What runs, or ran: what an edit made of the arguments counts. `of` asked: what the agent asked for."""
    if of == "asked" or request.status != "edited":
        return request.arguments
    made = await decision_about(web, request)
    return request.arguments if made is None or made.arguments is None else made.arguments


async def _asked_for(request: Request) -> tuple[DeskRequest, JsonObject | str, str]:
    web, given = web_of(request), request.query_params
    actor_of(request)
    row = await request_or_404(web, given.get("open", ""))
    of = "asked" if given.get("of") == "asked" else ""
    return row, await arguments_of(web, row, of), of


def _start(request: Request) -> int:
    text = request.query_params.get("start", "")
    return int(text) if text.isdecimal() and len(text) < 9 else 0


async def value_part(request: Request) -> Response:
    row, arguments, of = await _asked_for(request)
    tool = await web_of(request).desk.shown_tool(row)
    schema = tool.params_json_schema if tool is not None else None
    part = argument_part(arguments, request.query_params.get("at", ""), _start(request), schema)
    if part is None:
        raise Problem(404, "not_found", "There is no such value in these arguments.")
    return show(request, "_part.html", {"part": part, "request_id": row.id, "of": of}, headers=about(row.id))


async def more_lines(request: Request) -> Response:
    row, arguments, of = await _asked_for(request)
    shown = shown_lines(arguments, _start(request))
    if shown is None:
        raise Problem(404, "not_found", "These arguments are neither commands nor patches.")
    return show(request, "_lines.html", {"shown": shown, "request_id": row.id, "of": of}, headers=about(row.id))


async def arguments_json(request: Request) -> Response:
    """All arguments, as the text that «Copy JSON» copies."""
    row, arguments, _ = await _asked_for(request)
    text = arguments if isinstance(arguments, str) else json_text(arguments)
    return Response(text, 200, about(row.id), "text/plain; charset=utf-8")


async def whole_arguments(request: Request) -> Response:
    """The arguments without any limit, on a page of their own."""
    row, arguments, _ = await _asked_for(request)
    whole = arguments if isinstance(arguments, str) else json_text(arguments)
    return show(request, "arguments.html", {"page": "inbox", "request_row": row, "whole": whole})
