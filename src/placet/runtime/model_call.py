"""Asking the model: what is unsent goes out, the answer acknowledges it, and nobody guesses what happened to a lost
request."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from types import CoroutineType
from typing import Any

import msgspec

from placet.core.calls import is_call, is_result, problem_with
from placet.core.delivery import Outgoing, outgoing
from placet.declare.handoff import Handoff
from placet.declare.hosted_tools import HostedTool
from placet.declare.lifecycle import has_hook_for
from placet.declare.output_schema import OutputSchema
from placet.declare.run_config import CallModelData, ModelInputData
from placet.declare.tool import Tool
from placet.facts.codec import JsonObject, NotPlain, fresh, plain_item
from placet.facts.errors import (
    DeliveryUnknown,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    ProviderError,
    RequestNotTaken,
    UserError,
)
from placet.facts.events import (
    GuardrailsJudged,
    RequestLost,
    RequestRefused,
    RequestSent,
    RequestSettled,
    ResponseReceived,
    ResponseUnusable,
    Usage,
)
from placet.facts.items import ModelResponse, final_text, refusal_of
from placet.facts.model_settings import ModelSettings
from placet.ports import Declared, Model, ModelRequest, RawEvent, Reconciled, ToolSpec
from placet.runtime.defaults import default_settings
from placet.runtime.error_handlers import end_by_handler, kind_of
from placet.runtime.frame import Frame, awaited
from placet.runtime.guardrails import InputTripped, Judging, input_guardrails, start_judging_input, unless_tripped
from placet.runtime.handoffs import output_labels, paired
from placet.runtime.output import output_schema, parse_final
from placet.runtime.retrying import Retrying
from placet.runtime.session_items import write_session
from placet.states.run_state import as_input

_NOTHING = object()


async def ask_model(frame: Frame) -> None:
    """One request: prepare it, note that it is sent, send it, note what happened to it."""
    run = frame.run
    if run.max_turns is not None and run.turn >= run.max_turns:
        raise MaxTurnsExceeded(
            f"The run used up its {run.max_turns} turns. Resume its state with a larger max_turns to go on.", frame.path
        )
    model = frame.model  # before anything is written: a missing model is no lost request
    _check_who_keeps_the_history(frame, model)
    if frame.session is not None:
        await write_session(frame)
    request = await _prepare(frame, model)
    guardrails = input_guardrails(frame)
    judging = await start_judging_input(frame, guardrails) if guardrails else None
    try:
        response = await _answer(frame, model, request, judging)
    except InputTripped as trip:
        frame.note(GuardrailsJudged("input", trip.records))
        return  # the loop reports it
    except BaseException:
        if judging is not None:
            judging.cancel()
        raise
    await _receive(frame, response)
    if judging is not None:
        await frame.journal.commit()
        frame.note(GuardrailsJudged("input", await judging))


def _check_who_keeps_the_history(frame: Frame, model: Model) -> None:
    if frame.run.delivery != "own" and getattr(model, "keeps_history", True) is False:
        raise UserError(
            f"{type(model).__name__} has no server that keeps a conversation: run without previous_response_id, "
            "auto_previous_response_id and conversation_id, and the whole history is sent each time."
        )


async def _answer(frame: Frame, model: Model, request: ModelRequest, judging: Judging) -> ModelResponse:
    """Send the request; send it again as long as that may help and cannot deliver anything twice."""
    retrying: Retrying | None = None
    while True:
        # Durable before it goes out: a driver that dies behind this line leaves a request whose fate is unknown, and
        # one that died before it certainly sent nothing. Without the fact both would look alike, and a conversation
        # that the server keeps would get the same outputs twice.
        frame.note(RequestSent(request.after))
        await frame.journal.commit()
        try:
            sending = _send(frame, model, request)
            return await (sending if judging is None else unless_tripped(judging, sending))
        except InputTripped:
            raise
        except Exception as error:  # noqa: BLE001  # raised again where nothing helps
            retrying = retrying or Retrying(request.model_settings.retry or frame.config.retry)
            found = await _after_failure(frame, request, judging, retrying, error)
            if found is not None:
                return found
        if frame.feed is not None:
            frame.feed.ask_again()


async def _after_failure(
    frame: Frame, request: ModelRequest, judging: Judging, retrying: Retrying, error: Exception
) -> ModelResponse | None:
    """Write down what happened to the request, and wait until it may be sent again. Raises the error where it may not.

    In a conversation a lost request may have been taken: sent again, what it carried would stand there twice. So the
    conversation is looked at first, and if the answer stands there, it is given back.
    """
    is_lost = _note_failure(frame, error)
    delay = await retrying.delay_after(error)
    if is_lost or delay is not None:
        await frame.journal.commit()
    if delay is not None:
        await unless_tripped(judging, frame.config.clock.sleep(delay))
    if is_lost and frame.run.delivery == "conversation":
        found = await unless_tripped(judging, _look(frame, request, retrying, error))
        if found.response is not None:
            return found.response
        frame.note(RequestSettled(taken=found.taken))
        if found.taken:
            raise error
    if delay is None:
        raise error
    return None


def _note_failure(frame: Frame, error: Exception) -> bool:
    """Write down what happened to the request. True: it is unknown whether it was taken.

    A lock may be that of an earlier attempt, which was lost and is still at work: then the conversation is looked at
    again before anything more is sent.
    """
    is_refused = isinstance(error, RequestNotTaken | UserError)
    if isinstance(error, RequestNotTaken) and error.is_locked and frame.run.may_be_at_work:
        is_refused = False
    frame.note(RequestRefused(_brief(error)) if is_refused else RequestLost(_brief(error)))
    return not is_refused


async def _prepare(frame: Frame, model: Model) -> ModelRequest:
    agent = frame.agent
    instructions, all_hooks = agent.instructions, frame.all_hooks
    if callable(instructions) or all_hooks:
        await frame.journal.commit()  # user code may take forever: what happened is safe first
    prompt = await awaited(instructions(frame.context, agent)) if callable(instructions) else instructions
    enabled = await frame.enabled_tools(look_again=True)
    handoffs = await _enabled_handoffs(frame) if agent.handoffs else ()
    hosted = agent.hosted_tools
    out = _outgoing(frame)
    items = out.items
    if frame.config.call_model_input_filter is not None:
        items, prompt = await _filtered(frame, out, prompt)
    frame.context.turn_input = items
    if all_hooks:
        await _notify_of_request(frame, prompt, items)
    if not getattr(model, "leaves_input_alone", False):
        items = fresh(items)  # a foreign model may change what it is given
    return ModelRequest(
        input=items,
        system_instructions=prompt,
        tools=_tool_specs(enabled, handoffs),
        model_settings=_settings(frame, hosted),
        output_schema=output_schema(agent.output_type),
        previous_response_id=out.previous_response_id,
        conversation_id=out.conversation_id,
        hosted_tools=[tool.declaration for tool in hosted] if hosted else (),
        after=None if out.conversation_id is None else await _newest_item(frame, out.conversation_id),
        prompt=None if agent.prompt is None else await agent.get_prompt(frame.context),
        output_is_strict=_strictness(agent.output_type),
        declared=Declared([*enabled, *hosted], handoffs, agent.output_type, frame.config),
    )


def _outgoing(frame: Frame) -> Outgoing:
    out = outgoing(frame.run)
    if frame.config.reasoning_item_id_policy == "omit" and frame.run.delivery == "own":
        return msgspec.structs.replace(out, items=_without_ids_of_thoughts(out.items))
    return out


def _without_ids_of_thoughts(items: Sequence[JsonObject]) -> list[JsonObject]:
    return [
        {name: value for name, value in item.items() if name != "id"} if item.get("type") == "reasoning" else item
        for item in items
    ]


def _strictness(output_type: object) -> bool | None:
    if output_type is None or not isinstance(output_type, OutputSchema):
        return None
    return output_type.is_strict_json_schema()


async def _notify_of_request(frame: Frame, prompt: str | None, items: list[JsonObject]) -> None:
    for hooks in frame.all_hooks:
        if has_hook_for(hooks, "on_llm_start"):
            await hooks.on_llm_start(frame.context, frame.agent, prompt, fresh(items))


async def _enabled_handoffs(frame: Frame) -> Sequence[Handoff]:
    return [each for each in frame.agent.all_handoffs if await each.is_on(frame.context, frame.agent)]


def _tool_specs(tools: Sequence[Tool], handoffs: Sequence[Handoff]) -> list[ToolSpec]:
    """What the model may call: to it a handoff is a tool like any other."""
    specs = [
        ToolSpec(
            t.name,
            t.description,
            t.params_json_schema,
            t.strict_json_schema,
            t.native_declaration,
            t.more,
            t.namespace,
            t.namespace_description,
        )
        for t in tools
    ]
    if handoffs:
        specs += [ToolSpec(each.tool_name, each.tool_description, each.input_json_schema) for each in handoffs]
    return specs


def _settings(frame: Frame, hosted: Sequence[HostedTool]) -> ModelSettings:
    settings = frame.agent.model_settings.resolve(frame.config.model_settings)
    if frame.agent.model is None and frame.config.model is None:
        settings = default_settings().resolve(settings)
    if hosted:
        settings = _with_includes(settings, hosted)
    if settings.tool_choice is not None and _must_be_free_to_answer(frame):
        settings = replace(settings, tool_choice=None)
    return settings


def _with_includes(settings: ModelSettings, hosted: Sequence[HostedTool]) -> ModelSettings:
    """The settings, asking also for what the hosted tools want to be told."""
    wanted = [part for tool in hosted for part in tool.include]
    return replace(settings, response_include=[*(settings.response_include or ()), *wanted]) if wanted else settings


def _must_be_free_to_answer(frame: Frame) -> bool:
    """A model that was made to call tools has called them: made to again and again, it could never answer."""
    return frame.agent.reset_tool_choice and bool(frame.run.calls)


async def _filtered(frame: Frame, out: Outgoing, prompt: str | None) -> tuple[list[JsonObject], str | None]:
    """What goes out, after the configuration's filter. Where the server keeps the history, outputs stay in."""
    chosen = frame.config.call_model_input_filter
    assert chosen is not None
    await frame.journal.commit()
    given = CallModelData(ModelInputData(fresh(out.items), prompt), frame.agent, frame.context.context)
    kept: object = await awaited(chosen(given))
    if not isinstance(kept, ModelInputData):
        raise UserError(f"call_model_input_filter gives back a ModelInputData, not a {type(kept).__name__}.")
    items = as_input(kept.input)
    assert isinstance(items, list)
    if frame.run.delivery == "own":
        return paired(items), kept.instructions
    missing = output_labels(out.items) - output_labels(items)
    if missing:
        raise UserError(
            f"call_model_input_filter left out the output of {sorted(missing)}, which the server waits for."
        )
    return items, kept.instructions


async def _send(frame: Frame, model: Model, request: ModelRequest) -> Any:
    feed = frame.feed
    if feed is None or not hasattr(model, "stream_response"):
        asked: object = model.get_response(request)
        if not isinstance(asked, CoroutineType) and not inspect.isawaitable(asked):
            raise UserError(f"{type(model).__name__}.get_response must be `async def`.")
        return await asked
    response: Any = _NOTHING  # Any: a foreign model may give anything; `_as_output` looks at it
    stream = model.stream_response(request)
    try:
        async for part in stream:
            if isinstance(part, RawEvent):
                if not feed.raw(part):
                    await feed.wait_for_room()
            else:
                response = part
    finally:  # whatever ended it, its connection is given back now and not some day
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    if response is _NOTHING:
        raise ConnectionError("The model's stream ended before its response was complete.")
    return response


async def _receive(frame: Frame, response: ModelResponse) -> None:
    output, problem = _as_output(frame, response)
    if problem is not None:
        cost: object = getattr(response, "usage", None)
        usage = cost if isinstance(cost, Usage) and _is_countable(cost) else None
        frame.note(ResponseUnusable(_response_id(response), problem, usage, _request_id(response)))
        error = _useless(output, problem)
        kind = kind_of(error, is_final=final_text(output) is not None and not any(map(is_call, output)))
        if kind is not None and await end_by_handler(frame, error, kind):
            return
        raise error
    frame.note(ResponseReceived(_response_id(response), output, response.usage, _request_id(response)))
    all_hooks = frame.all_hooks
    if all_hooks:
        await frame.journal.commit()
        for hooks in all_hooks:
            await hooks.on_llm_end(frame.context, frame.agent, response)


_WHOLE = frozenset({int})


def _is_countable(usage: Usage) -> bool:
    figures = msgspec.structs.astuple(usage)
    return _WHOLE.issuperset(map(type, figures)) or all(isinstance(figure, int) for figure in figures)


def _useless(output: list[JsonObject], problem: str) -> ModelBehaviorError:
    refused = [text for item in output if (text := refusal_of(item)) is not None]
    if refused:
        return ModelRefusalError(f"The model refused to answer: {refused[-1]}", refused[-1])
    return ModelBehaviorError(f"The model's response cannot be used: {problem}.")


def _response_id(response: Any) -> str | None:
    found = getattr(response, "response_id", None)
    return found if isinstance(found, str) else None


def _request_id(response: Any) -> str | None:
    found = getattr(response, "request_id", None)
    return found if isinstance(found, str) else None


def _as_output(frame: Frame, response: object) -> tuple[list[JsonObject], str | None]:
    """The output as plain items, or the reason why no run can continue with it."""
    if not isinstance(response, ModelResponse) or not isinstance(response.usage, Usage):
        return [], f"it is a {type(response).__name__} and not a ModelResponse with a Usage"
    if not _is_countable(response.usage):
        return [], "its usage holds something else than whole numbers"
    given: object = response.output
    if not isinstance(given, list):
        return [], f"its output is a {type(given).__name__} and not a list of items"
    try:
        output = [plain_item(item, f"output[{index}]") for index, item in enumerate(given)]
    except (NotPlain, TypeError, ValueError) as error:
        return [], str(error)
    problem = problem_with(output)
    if isinstance(response.incomplete, str):
        problem = f"it is incomplete, because {response.incomplete}"
    if problem is None and not any(map(is_call, output)):
        problem = _problem_with_end(frame, output)
    return output, problem


def _problem_with_end(frame: Frame, output: list[JsonObject]) -> str | None:
    """Why the run cannot end with this answer, which asks for nothing."""
    text = final_text(output)
    if text is not None:
        return parse_final(frame.agent.output_type, text)[1]
    if any(map(is_result, output)) and parse_final(frame.agent.output_type, "")[1] is None:
        return None
    return "it holds neither a message nor a call"


def _brief(error: Exception) -> str:
    """What the log says of an error: its type and status. Messages of providers may hold what should not be stored."""
    status = error.status if isinstance(error, ProviderError) else None
    return type(error).__name__ if status is None else f"{type(error).__name__} {status}"


# -- a request whose fate is unknown, in a conversation that the server keeps ------------------------------------------


async def settle_request(frame: Frame) -> None:
    """Find out, or be told, whether the conversation took the last request; otherwise stop and say so."""
    if frame.resend is not None:
        frame.note(RequestSettled(taken=not frame.resend, by="resend"))
        frame.resend = None
        return
    out = outgoing(frame.run)
    request = ModelRequest(input=out.items, conversation_id=out.conversation_id, after=frame.run.sent_after)
    settings = frame.agent.model_settings.resolve(frame.config.model_settings)
    found = await _look(frame, request, Retrying(settings.retry or frame.config.retry), None)
    if found.response is not None:
        await _receive(frame, found.response)
    else:
        frame.note(RequestSettled(taken=found.taken))


async def _look(frame: Frame, request: ModelRequest, retrying: Retrying, cause: Exception | None) -> Reconciled:
    """Ask the conversation itself what happened to the request. A model that cannot tell raises DeliveryUnknown."""
    look = getattr(frame.model, "find_request", None)
    found: Reconciled | None = None
    while look is not None and found is None:
        try:
            found = await look(request)
            break
        except Exception as error:  # noqa: BLE001  # a model that cannot look does not know
            cause = cause or error
            delay = await retrying.delay_after(error)
            if delay is None:
                break
            await frame.config.clock.sleep(delay)
    if found is None:
        raise DeliveryUnknown(
            "It is unknown whether the conversation took the last request. Look there, then resume the state with "
            "resend=True (it was not taken: send it again) or resend=False (it was taken)."
        ) from cause
    return found


async def _newest_item(frame: Frame, conversation_id: str) -> str | None:
    """What stands at the conversation's end before the request: known from the last answer, or looked up."""
    if frame.run.newest_item is not None:
        return frame.run.newest_item
    look = getattr(frame.model, "newest_item", None)
    if look is None:
        return None
    try:
        found: object = await look(conversation_id)
    except Exception:  # noqa: BLE001  # only a lost request would have needed it
        return None
    return found if isinstance(found, str) else None
