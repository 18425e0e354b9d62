"""A provider's script as JSON, for tests in other processes and other languages.

The file holds a list of steps, or an object with `steps`. A step is a list of items, or an object: `{"output": […],
"response_id": …}` answers, `{"do": "server_error", "status": 503}` does what the function of that name does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from placet.facts.errors import UserError
from placet.facts.events import Usage
from placet.testing.provider import steps
from placet.testing.provider.steps import Answer, ProviderStep, Step

DOING: Mapping[str, Callable[..., ProviderStep]] = {
    function.__name__: function
    for function in (
        steps.incomplete,
        steps.failed,
        steps.raw,
        steps.slow,
        steps.stream_cut,
        steps.stream_error,
        steps.rate_limited,
        steps.server_error,
        steps.conversation_locked,
        steps.no_answer,
        steps.connection_cut,
        steps.not_json,
        steps.empty_body,
    )
}


def read_script(path: Path) -> list[Step]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise UserError(f"The script {path} cannot be read: {problem.strerror}.") from problem
    except ValueError as problem:
        raise UserError(f"The script {path} is not JSON: {problem}.") from problem
    given = found.get("steps") if isinstance(found, dict) else found
    if not isinstance(given, list):
        raise UserError(f"The script {path} must be a list of steps, or an object with a list under `steps`.")
    return [_step(each, f"step {number} of {path}") for number, each in enumerate(given, 1)]


def _step(given: Any, where: str) -> Step:
    if isinstance(given, list):
        return given
    if not isinstance(given, dict):
        raise UserError(f"{where} is neither a list of items nor an object.")
    if "do" not in given:
        return _answer(given, where)
    name, options = given["do"], {key: value for key, value in given.items() if key != "do"}
    if name not in DOING:
        raise UserError(f"{where} says {name!r}, and there is only: {', '.join(sorted(DOING))}.")
    for key in ("output", "answered"):
        if isinstance(options.get(key), dict):
            options[key] = _step(options[key], where)
    try:
        return DOING[name](**options)
    except TypeError as problem:
        raise UserError(f"{where} does not fit: {problem}.") from problem


def _answer(given: dict[str, Any], where: str) -> ProviderStep:
    unknown = given.keys() - {"output", "response_id", "usage", "stopped", "extra"}
    if unknown or "output" not in given:
        raise UserError(f"{where} needs `output` (and may have response_id, usage, stopped, extra), or `do`.")
    usage = Usage(1, **given["usage"]) if given.get("usage") else None
    return ProviderStep(
        Answer(given["output"], given.get("response_id"), usage, given.get("stopped"), extra=given.get("extra", {}))
    )
