"""Validation of arguments: when a call is proposed, before it is judged. What comes of it is stored and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placet.core.state import Call
from placet.declare.tool import Tool
from placet.declare.tool_values import ValidatedArguments
from placet.facts.codec import parse_arguments, same_value
from placet.facts.events import ArgumentsValidated
from placet.runtime.frame import Frame, Job

_NONE: Mapping[str, Exception] = {}


def validate_calls(frame: Frame, calls: Sequence[Call], tools: Sequence[Tool | None]) -> Mapping[str, Exception]:
    """Validate the arguments of these calls. Those that do not fit, with what is wrong."""
    invalid = _NONE
    limit = frame.config.limits.argument
    for call, tool in zip(calls, tools, strict=True):
        if tool is not None and call.server is None and len(call.arguments) <= limit:
            problem = settle_values(frame, call, tool)
            if problem is not None:
                invalid = {**invalid, call.id: problem}
    return invalid


def settle_values(frame: Frame, call: Call, tool: Tool) -> Exception | None:
    """Store what validation makes of a call's arguments, where that is something else; what is wrong with them, if they
    do not fit. Arguments that are not one JSON object are left to the gate."""
    arguments = call.values if call.values is not None else parse_arguments(call.arguments)
    if arguments is None:
        return None
    try:
        found = tool.validated(arguments)
    except Exception as error:  # noqa: BLE001  # a validator of the user's may raise anything
        return error
    if found.values is not arguments and not same_value(arguments, found.values):
        frame.note(ArgumentsValidated(call.id, found.values))
    frame.ready[call.id] = found
    return None


def still_means_the_same(frame: Frame, call: Call, tool: Tool) -> bool:
    """Whether validation, by the code as it is now, leaves alone what was decided about. Values that do not fit any
    more do: the call will fail, and the model reads why."""
    arguments = call.effective
    if arguments is None or call.server is not None or call.id in frame.ready:
        return True
    try:
        found = tool.validated(arguments)
    except Exception:  # noqa: BLE001  # a validator of the user's may raise anything
        return True
    if found.values is not arguments and not same_value(arguments, found.values):
        return False
    frame.ready[call.id] = found
    return True


def opaque_in(frame: Frame, call: Call) -> tuple[str, ...]:
    """The parameters of which no rule can know what the function would get."""
    found = frame.ready.get(call.id)
    return found.opaque if found is not None else ()


def ready_job(frame: Frame, call: Call, tool: Tool) -> Job:
    """The call as it runs, with the values that validation has made already."""
    found: ValidatedArguments | None = frame.ready.pop(call.id, None)
    bound = found.bound if found is not None and call.edited is None else None
    return Job(call, tool, call.effective_text, bound)
