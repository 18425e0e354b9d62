"""Asking the model: what is unsent goes out, the answer acknowledges it, and nobody guesses what became of a lost
request."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import msgspec

from placet.codec import JsonObject, NotPlain, encode, plain_item
from placet.core.delivery import Outgoing, outgoing
from placet.core.plan import is_call, problem_with
from placet.errors import DeliveryUnknown, MaxTurnsExceeded, ModelBehaviorError, RequestNotTaken, UserError
from placet.events import (
    GuardrailsJudged,
    RequestLost,
    RequestRefused,
    RequestSent,
    RequestSettled,
    ResponseReceived,
    ResponseUnusable,
    Usage,
)
from placet.items import ModelResponse, final_text
from placet.ports import Model, ModelRequest, RawEvent, Reconciled, ToolSpec
from placet.run_config import CallModelData, ModelInputData
from placet.run_state import as_input
from placet.runtime.frame import Frame, awaited
from placet.runtime.guarding import InputTripped, start_judging_input, unless_tripped
from placet.runtime.handing_over import paired
from placet.runtime.output import output_schema, parse_final
from placet.runtime.session_writing import write_session

_NOTHING = object()


async def ask_model(frame: Frame) -> None:
    """One request: prepare it, note that it is sent, send it, note what became of it."""
    run = frame.run
    if run.max_turns is not None and run.turn >= run.max_turns:
        raise MaxTurnsExceeded(
            f"The run used up its {run.max_turns} turns. Resume its state with a larger max_turns to go on.", frame.path
        )
    model = frame.model  # before anything is written: a missing model is no lost request
    await write_session(frame)
    request = await _prepare(frame)
    judging = await start_judging_input(frame)
    frame.note(RequestSent())
    await frame.journal.commit()
    try:
        response = await unless_tripped(judging, _send(frame, model, request))
    except RequestNotTaken as error:
        frame.note(RequestRefused(_brief(error)))
        raise
    except InputTripped as trip:
        frame.note(GuardrailsJudged("input", trip.records))
        return  # the loop reports it
    except Exception as error:
        frame.note(RequestLost(_brief(error)))
        await frame.journal.commit()
        if run.delivery != "conversation" or not await _settle_by_looking(frame, request, error):
            raise
        return
    await _receive(frame, response)
    if judging is not None:
        await frame.journal.commit()
        frame.note(GuardrailsJudged("input", await judging))


async def _prepare(frame: Frame) -> ModelRequest:
    agent = frame.agent
    if callable(agent.instructions) or frame.all_hooks:
        await frame.journal.commit()  # user code may take for ever: what happened is safe first
    instructions = agent.instructions
    prompt = await awaited(instructions(frame.context, agent)) if callable(instructions) else instructions
    tools = [
        ToolSpec(t.name, t.description, t.params_json_schema, t.strict_json_schema)
        for t in await frame.enabled_tools(look_again=True)
    ]
    tools += [
        ToolSpec(each.tool_name, each.tool_description, each.input_json_schema)
        for each in agent.all_handoffs
        if await each.is_on(frame.context, agent)
    ]
    items, prompt, out = await _filtered(frame, prompt)
    for hooks in frame.all_hooks:
        await hooks.on_llm_start(frame.context, agent, prompt, items)
    if not getattr(frame.model, "leaves_input_alone", False):
        items = msgspec.json.decode(encode(items))  # a foreign model may change what it is given: a quick deep copy
    return ModelRequest(
        input=items,
        system_instructions=prompt,
        tools=tools,
        model_settings=agent.model_settings.resolve(frame.config.model_settings),
        output_schema=output_schema(agent.output_type),
        previous_response_id=out.previous_response_id,
        conversation_id=out.conversation_id,
    )


async def _filtered(frame: Frame, prompt: str | None) -> tuple[list[JsonObject], str | None, Outgoing]:
    """What goes out, after the configuration's filter. Where the server keeps the history, outputs stay in."""
    out = outgoing(frame.run)
    chosen = frame.config.call_model_input_filter
    if chosen is None:
        return out.items, prompt, out
    await frame.journal.commit()
    given = CallModelData(ModelInputData(list(out.items), prompt), frame.agent, frame.context.context)
    kept: object = await awaited(chosen(given))
    if not isinstance(kept, ModelInputData):
        raise UserError(f"call_model_input_filter gives back a ModelInputData, not a {type(kept).__name__}.")
    items = as_input(kept.input)
    assert isinstance(items, list)
    if frame.run.delivery == "own":
        return paired(items), kept.instructions, out
    missing = _output_labels(out.items) - _output_labels(items)
    if missing:
        raise UserError(
            f"call_model_input_filter left out the output of {sorted(missing)}, which the server waits for."
        )
    return items, kept.instructions, out


def _output_labels(items: Sequence[JsonObject]) -> set[str]:
    return {str(item.get("call_id")) for item in items if item.get("type") == "function_call_output"}


async def _send(frame: Frame, model: Model, request: ModelRequest) -> Any:
    if frame.feed is None or not hasattr(model, "stream_response"):
        asked: object = model.get_response(request)
        if not inspect.isawaitable(asked):
            raise UserError(f"{type(model).__name__}.get_response must be `async def`.")
        return await asked
    response: Any = _NOTHING  # Any: a foreign model may give anything; `_as_output` looks at it
    async for part in model.stream_response(request):
        if isinstance(part, RawEvent):
            await frame.feed.raw(part)
        else:
            response = part
    if response is _NOTHING:
        raise ConnectionError("The model's stream ended before its response was complete.")
    return response


async def _receive(frame: Frame, response: ModelResponse) -> None:
    output, problem = _as_output(frame, response)
    if problem is not None:
        frame.note(ResponseUnusable(_response_id(response), problem))
        raise ModelBehaviorError(f"The model's response cannot be used: {problem}.")
    frame.note(ResponseReceived(_response_id(response), output, response.usage))
    if frame.all_hooks:
        await frame.journal.commit()
        for hooks in frame.all_hooks:
            await hooks.on_llm_end(frame.context, frame.agent, response)


def _response_id(response: Any) -> str | None:
    found = getattr(response, "response_id", None)
    return found if isinstance(found, str) else None


def _as_output(frame: Frame, response: object) -> tuple[list[JsonObject], str | None]:
    """The output as plain items, or the reason why no run can go on with it."""
    if not isinstance(response, ModelResponse) or not isinstance(response.usage, Usage):
        return [], f"it is a {type(response).__name__} and not a ModelResponse with a Usage"
    if not all(isinstance(figure, int) for figure in msgspec.structs.astuple(response.usage)):
        return [], "its usage holds something else than whole numbers"
    given: object = response.output
    if not isinstance(given, list):
        return [], f"its output is a {type(given).__name__} and not a list of items"
    try:
        output = [plain_item(item, f"output[{index}]") for index, item in enumerate(given)]
    except (NotPlain, TypeError, ValueError) as error:
        return [], str(error)
    problem = problem_with(output)
    if problem is None and not any(map(is_call, output)):
        text = final_text(output)
        problem = (
            "it holds neither a message nor a call" if text is None else parse_final(frame.agent.output_type, text)[1]
        )
    return output, problem


def _brief(error: Exception) -> str:
    """What the log says of an error: its type. Messages of providers may hold what nobody wants stored."""
    return type(error).__name__


# -- a request whose fate is unknown, in a conversation that the server keeps
# -------------------------------------------


async def settle_request(frame: Frame) -> None:
    """Find out, or be told, whether the conversation took the last request; otherwise stop and say so."""
    if frame.resend is not None:
        frame.note(RequestSettled(taken=not frame.resend, by="resend"))
        frame.resend = None
        return
    out = outgoing(frame.run)
    await _settle_by_looking(frame, ModelRequest(input=out.items, conversation_id=out.conversation_id), None)


async def _settle_by_looking(frame: Frame, request: ModelRequest, cause: Exception | None) -> bool:
    """Ask the conversation itself. True: the answer was found there, and the run goes on. Unknown: DeliveryUnknown."""
    look = getattr(frame.model, "find_request", None)
    found: Reconciled | None = None
    if look is not None:
        try:
            found = await look(request)
        except Exception as error:  # noqa: BLE001  # whoever cannot look does not know
            cause = cause or error
    if found is None:
        raise DeliveryUnknown(
            "Nobody knows whether the conversation took the last request. Look there, then resume the state with "
            "resend=True (it was not taken: send it again) or resend=False (it was taken)."
        ) from cause
    if found.response is not None:
        await _receive(frame, found.response)
        return True
    frame.note(RequestSettled(taken=found.taken))
    return False
