"""Execution: claim, run, record. What runs is what was approved, checked at the last moment before the claim."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from placet.core.state import Call
from placet.core.transitions import CONCLUDABLE, Status
from placet.declare.agent import AgentTool
from placet.declare.context import ToolContext
from placet.declare.guardrail import GuardrailFunctionOutput, GuardrailResult
from placet.declare.tool import (
    CannotTell,
    DidNotHappen,
    Failed,
    Happened,
    NeedsInput,
)
from placet.declare.tool_values import InvalidArguments
from placet.facts.codec import Json, JsonObject, encode, fresh, parse_arguments
from placet.facts.errors import (
    GuardrailTripped,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ToolOutcomeUnknown,
    ToolOutputError,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimeoutError,
    UserError,
)
from placet.facts.events import (
    CallEnded,
    CallInDoubt,
    InputAsked,
    Outcome,
)
from placet.runtime.claiming import as_it_runs, claim, claim_handoff, examine, in_doubt
from placet.runtime.decision_listener import DecisionListener
from placet.runtime.frame import Frame, Job, awaited, tool_context
from placet.runtime.gating import digest_of_asking, hold, judge_again
from placet.runtime.guardrails import Tripped, judge_call, judge_result
from placet.runtime.handoffs import hand_over
from placet.runtime.journal import Overtaken
from placet.runtime.nested import run_nested
from placet.runtime.output import as_answer, as_raised, as_tool_output, failure_text, formatted

_NESTED_FAILURES = (GuardrailTripped, InvalidArguments, MaxTurnsExceeded, ModelBehaviorError, ToolOutputError)
"""What ends a nested run for good: the model that called it reads so."""
NOT_APPROVED = "Tool execution was not approved."
INTERRUPTED = "it was interrupted (KeyboardInterrupt) while it ran"
MAX_ATTEMPTS = 3
"""So often a call whose tool may be repeated is begun, if each time nobody learned what happened to it."""
GIVEN_UP = "It is unknown whether this tool ran: it was interrupted, and a reviewer decided not to run it again."


# -- decided calls that run nothing ----------------------------------------------------------------------------


async def conclude_calls(frame: Frame, calls: list[Call]) -> None:
    """Give rejected, answered and given-up calls the one output that the model reads."""
    for call in calls:
        match call.status:
            case Status.REJECTED:
                frame.note(CallEnded(call.id, "rejected", await _rejection_text(frame, call)))
            case Status.ANSWERED:
                answer = call.decision.output if call.decision is not None else None
                frame.note(CallEnded(call.id, "answered", as_answer(answer)))
            case _:
                message = call.decision.message if call.decision is not None else None
                frame.note(CallEnded(call.id, "failed", GIVEN_UP if message is None else message))


async def _rejection_text(frame: Frame, call: Call) -> str:
    """The decision's own message (an empty one counts), then the grant's, then the formatter's, then ours."""
    message = frame.run.ledger.message(call.name, call.id)
    if message is not None:
        return message
    return await formatted(frame, "approval_rejected", call, NOT_APPROVED)


# -- calls that may run ------------------------------------------------------------------------------------------------


async def start_calls(frame: Frame, calls: list[Call]) -> None:
    """Begin the calls side by side: all at once, or as many as the configuration allows."""
    if calls and calls[0].status is Status.DEFERRED:
        if await claim_handoff(frame, calls[0]):
            await hand_over(frame, calls[0])
        return
    if frame.is_leaving and frame.at_work:
        await await_tool_functions(frame)
        return
    calls = await _still_allowed(frame, calls)
    if _have_rules(frame, calls):
        # What is void, or held, is none of their business. They are user code, so `_begin` looks once more behind
        # them.
        passed, _ = await examine(frame, calls)
        calls = [job.call for job in passed if await _passes_rules(frame, job)]
    elif frame.config.max_tool_concurrency is not None:
        passed, _ = await examine(frame, calls)  # what is void need not wait for a place to be asked
        calls = [job.call for job in passed]
    await _begin(frame, calls)


async def _still_allowed(frame: Frame, calls: list[Call]) -> list[Call]:
    """The calls without those that an earlier drive let pass and today's code does not. «Allowed» is what code said,
    and the code may have changed since: a deploy that makes a tool ask would otherwise come too late for them."""
    stale = [call for call in calls if call.status is Status.ALLOWED and call.id not in frame.judged]
    if not stale:
        return calls
    passed = await judge_again(frame, stale)
    return [call for call in calls if call not in stale or call in passed]


def _have_rules(frame: Frame, calls: Sequence[Call]) -> bool:
    for call in calls:
        tool = frame.tool_of(call)
        if tool is not None and tool.tool_input_guardrails:
            return True
    return False


async def _begin(frame: Frame, calls: Sequence[Call]) -> None:
    ids = [call.id for call in calls]
    frame.at_work.update(ids)
    frame.queue.extend(ids)
    await _begin_queued(frame)


async def _begin_queued(frame: Frame) -> None:
    """Claim what waits for a place, as far as there are places, and run it."""
    while frame.queue and (places := _free_places(frame)) > 0:
        if frame.is_leaving:
            _send_the_queue_home(frame)
            return
        wanted: list[str] = []
        calls: list[Call] = []
        while frame.queue and len(wanted) < places:
            wanted.append(frame.queue.popleft())
            call = frame.run.calls.get(wanted[-1])
            if call is not None:
                calls.append(call)
        try:
            jobs = await claim(frame, calls)
        except BaseException:  # they were not claimed: the loop looks at them again, and at those that wait for a place
            frame.at_work.difference_update(wanted)
            _send_the_queue_home(frame)
            raise
        frame.at_work.difference_update(wanted)
        for job in jobs:
            frame.at_work.add(job.call.id)
            frame.tasks.add(asyncio.create_task(_work(frame, job)))


def _free_places(frame: Frame) -> int:
    limit = frame.config.max_tool_concurrency
    return len(frame.queue) if limit is None else limit - (len(frame.at_work) - len(frame.queue))


def _send_the_queue_home(frame: Frame) -> None:
    frame.at_work.difference_update(frame.queue)
    frame.queue.clear()


async def _passes_rules(frame: Frame, job: Job) -> bool:
    """Whether the tool's input guardrails let the call run. A denied edit goes back to the person who made it."""
    if not job.tool.tool_input_guardrails or job.call.status in (Status.STARTED, Status.SUPPLIED):
        return True
    message = await judge_call(frame, job, tool_context(frame, job))
    if message is None:
        return True
    if job.call.edited is not None:
        why = f"a rule denies the edited arguments: {message}"
        frame.note(hold(frame, job.call, job.tool, why))
    else:
        frame.note(CallEnded(job.call.id, "denied", message))
    return False


async def _work(frame: Frame, job: Job) -> None:
    """One place at work: run a tool function, record it, and give the place to the next call that waits for one."""
    try:
        try:
            await _run_tool_function(frame, job)
        finally:
            frame.at_work.discard(job.call.id)
            frame.news.set()
        await _begin_queued(frame)
    except Overtaken:
        _send_the_queue_home(frame)
    except BaseException as error:  # noqa: BLE001  # the drive raises it, once the siblings are done
        if isinstance(error, KeyboardInterrupt):
            _doubt_if_interrupted(frame, job)
        frame.failures += (error,)
        _send_the_queue_home(frame)
    finally:
        frame.news.set()
        task = asyncio.current_task()
        assert task is not None
        frame.tasks.discard(task)


def _doubt_if_interrupted(frame: Frame, job: Job) -> None:
    """The process was asked to end in the middle of an effect: it is unknown how far it got."""
    is_tool_function = job.call.status is Status.STARTED and job.call.id not in frame.run.children
    if is_tool_function and job.tool.recovery == "ask":
        frame.note(in_doubt(frame, job, INTERRUPTED))


def _written(frame: Frame, job: Job, value: object) -> Json:
    """What the log holds of a tool's result. The object itself is kept for who looks at the run in this process."""
    output = as_tool_output(job.tool.name, value, frame.config.limits.output)
    if not isinstance(value, str):
        frame.journal.values[job.call.id] = value
    return output


async def _run_tool_function(frame: Frame, job: Job) -> None:
    """Run the tool function of a claimed call, and note how the call ended, if it has."""
    ctx = tool_context(frame, job)
    frame.journal.require_lease()  # the last moment: the process that took the run over puts this call in doubt
    all_hooks = frame.all_hooks
    if all_hooks and job.call.id not in frame.run.children and ctx.answers is None:
        await _notify_of_start(frame, job, ctx)  # what goes on was told of when it began
    end = await _end_of(frame, job, ctx)
    if end is None:
        return
    frame.note(CallEnded(job.call.id, end.outcome, _with_edit_note(job, end.output)))
    if end.failure is not None:  # only now: what the function did is noted, whatever stops the drive
        raise end.failure
    for hooks in all_hooks:
        await frame.journal.commit()  # hooks are user code: what the tool did is safe first
        shown = end.output if isinstance(end.output, str) else fresh(end.output)
        try:
            await hooks.on_tool_end(ctx, frame.agent, job.tool, frame.journal.values.get(job.call.id, shown))
        except Exception as error:  # noqa: BLE001  # user code
            raise as_raised(job, error)  # noqa: B904  # its cause is set


class _End(msgspec.Struct, frozen=True):
    """How a call came to its end."""

    outcome: Outcome
    output: Json
    failure: BaseException | None = None
    """What stops the drive all the same."""


async def _end_of(frame: Frame, job: Job, ctx: ToolContext[Any]) -> _End | None:
    """Run the tool function, or the nested run, to its end. None: the call has not ended. It waits for a person, or
    nobody knows what happened to it."""
    try:
        if not isinstance(job.tool, AgentTool):
            return await _end_of_function(frame, job, ctx)
        found = await run_nested(frame, job, job.tool)
        return None if found is None else _End("finished", found)
    except asyncio.CancelledError:
        if frame.is_stopping:
            raise  # the drive was cancelled: it is unknown how far the tool function got
        return _End("failed", f"Tool '{job.tool.name}' was cancelled.")
    except ToolOutcomeUnknown as error:
        if job.tool.recovery == "ask" or job.call.attempts >= MAX_ATTEMPTS:
            frame.note(in_doubt(frame, job, str(error)))
        return None  # a tool with a contract is recovered by the loop, as if its worker were gone
    except (Exception, SystemExit) as error:  # a tool's failure is data for the model, also if it is `sys.exit()`
        if isinstance(job.tool, AgentTool) and not isinstance(error, _NESTED_FAILURES):
            raise  # a provider or a store that failed inside: the nested run can be continued, so it is not given up
        return _End("failed", *await failure_text(job, ctx, error))


async def _end_of_function(frame: Frame, job: Job, ctx: ToolContext[Any]) -> _End | None:
    is_plain = frame.watch is None and job.tool.timeout is None
    value = await (job.tool.on_invoke_tool(ctx, job.arguments) if is_plain else _observed(frame, job, ctx))
    if isinstance(value, NeedsInput):
        frame.note(_asking(frame, job, value))
        return None
    outcome: Outcome = "finished"
    if isinstance(value, Failed):
        outcome, value = "failed", value.output
    if not job.tool.tool_output_guardrails:
        return _End(outcome, _written(frame, job, value))
    judged, failure = await _judged(frame, job, ctx, value)
    return _End(outcome, _written(frame, job, judged), failure)


def _asking(frame: Frame, job: Job, needs: NeedsInput) -> InputAsked | CallEnded:
    """The tool function asks a person something and ends for now: the call waits, and costs nothing meanwhile."""
    limit = frame.config.limits.output
    if not needs.questions or len(encode(needs.questions)) + len(needs.state or "") > limit:
        what = f"something larger than the limit of {limit} bytes" if needs.questions else "nothing"
        return CallEnded(job.call.id, "failed", f"Tool '{job.tool.name}' asked a person for {what}: it was broken off.")
    tool, questions = job.tool, needs.questions
    until = None if tool.decide_within is None else frame.journal.now() + tool.decide_within
    return InputAsked(
        job.call.id,
        digest_of_asking(frame.run, job.call, tool, questions),
        tool.identity,
        tool.fingerprint,
        questions,
        needs.state,
        until,
        tool.at_deadline if until else None,
    )


async def _notify_of_start(frame: Frame, job: Job, ctx: ToolContext[Any]) -> None:
    try:
        for hooks in frame.all_hooks:
            await hooks.on_tool_start(ctx, frame.agent, job.tool)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # user code
        frame.note(CallEnded(job.call.id, "failed", f"Tool '{job.tool.name}' was not run: a hook failed before it."))
        raise as_raised(job, error) if isinstance(error, Exception) else error  # noqa: B904  # its cause is set


async def _judged(frame: Frame, job: Job, ctx: ToolContext[Any], value: object) -> tuple[object, BaseException | None]:
    """What the guardrails make of the value. One that trips or fails ends the drive once the effect is noted."""
    try:
        judged = await judge_result(frame, job, ctx, value)
    except Exception as error:  # noqa: BLE001  # the effect has happened: a rule's failure does not undo it
        return value, error
    return (value, _tripwire(job, judged)) if isinstance(judged, Tripped) else (judged, None)


def _tripwire(job: Job, tripped: Tripped) -> ToolOutputGuardrailTripwireTriggered:
    return ToolOutputGuardrailTripwireTriggered(
        f"The guardrail '{tripped.name}' of tool '{job.tool.name}' stopped the run after the tool ran: "
        "what it did is recorded.",
        GuardrailResult(tripped.name, GuardrailFunctionOutput(tripped.info, True), job.call.id),
    )


async def _observed(frame: Frame, job: Job, ctx: ToolContext[Any]) -> object:
    if frame.watch is None:
        return await _invoke(job, ctx)
    with frame.watch.around_tool_function(job.call.id):
        return await _invoke(job, ctx)


async def _invoke(job: Job, ctx: ToolContext[Any]) -> object:
    if job.tool.timeout is None:
        return await job.tool.on_invoke_tool(ctx, job.arguments)
    scope = asyncio.timeout(job.tool.timeout)
    try:
        async with scope:
            return await job.tool.on_invoke_tool(ctx, job.arguments)
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise ToolTimeoutError(
            f"Tool '{job.tool.name}' timed out after {job.tool.timeout:g} seconds. It may or may not have taken effect."
        ) from error


def _with_edit_note(job: Job, output: Json) -> Json:
    """After an edit the output begins with one line that says so: the model should not think that its own call ran."""
    if job.call.edited is None:
        return output
    note = f"A reviewer changed the arguments of this call to: {job.arguments}"
    return f"{note}\n{output}" if isinstance(output, str) else [{"type": "input_text", "text": note}, *_parts(output)]


def _parts(output: Json) -> list[Json]:
    return output if isinstance(output, list) else [output]


async def await_tool_functions(frame: Frame) -> None:
    """Wait until all tool functions have ended, or a decision is made. What has ended is made durable at once."""
    listener = DecisionListener(frame)
    try:
        while frame.at_work and not listener.has_news_here:
            listener.open()
            if await _delay_is_over(frame):
                break
            frame.news.clear()
            if listener.has_grown:
                listener.has_grown = False
                await frame.journal.take_in()
            if frame.at_work:
                await frame.journal.commit()
    finally:
        await listener.close()
    if listener.has_news_here:  # another frame may have taken in what was appended: the fold was made again
        frame.look_again(has_news=True)


async def _delay_is_over(frame: Frame) -> bool:
    """Wait for news, or until an approved call that was set aside may begin: it is not set aside any more then."""
    # Most waits are of no delayed call: they cost nothing for those that are.
    delays = [
        (at, call.id) for _, call, at in (frame.run.delayed() if frame.set_aside else ()) if call.id in frame.set_aside
    ]
    if not delays:
        await frame.news.wait()
        return False
    at, call_id = min(delays)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.01, at - frame.journal.now())):
            await frame.news.wait()
        return False
    if frame.journal.now() < at:  # another clock than this machine's: it is looked at again
        return False
    frame.set_aside.discard(call_id)
    return True


SUPERSEDED = "This call was not carried out: a newer message took the place of the question about it."
PARTLY = (
    "This call was broken off: a newer message took the place of what was asked in it. Parts of it may have been done."
)
NOT_SETTLED = "It is unknown whether this tool ran: it was interrupted, and that was not settled."


async def supersede_calls(frame: Frame) -> None:
    await close_calls(frame, "superseded", SUPERSEDED)


async def close_calls(frame: Frame, outcome: Literal["superseded", "cancelled"], message: str) -> None:
    """End what is open, each call with an output that the model can read. A rejection or an answer stays one."""
    await conclude_calls(frame, [call for call in frame.run.calls.values() if call.status in CONCLUDABLE])
    for call in frame.run.calls.values():
        if call.status is not Status.ENDED:
            if call.status is Status.STARTED and call.id not in frame.run.children:
                frame.note(_in_doubt_unseen(frame, call))
            began = call.status in (Status.IN_DOUBT, Status.CLEARED)
            partly = call.id in frame.run.children or call.status in (Status.ELICITED, Status.SUPPLIED)
            text = NOT_SETTLED if began else PARTLY if partly else message
            frame.note(CallEnded(call.id, outcome, text))


def _in_doubt_unseen(frame: Frame, call: Call) -> CallInDoubt:
    """A claimed call whose worker is gone, where nobody will be asked any more: its tool may be gone too."""
    tool = frame.tool_of(call)
    if tool is not None:
        return in_doubt(frame, as_it_runs(call, tool), "its worker is gone")
    return CallInDoubt(call.id, "", f"function:{call.name}", "", "its worker is gone")


# -- calls whose worker is gone ----------------------------------------------------------------------------------------


async def recover_calls(frame: Frame, calls: list[Call]) -> None:
    """The process that claimed these is gone. Each tool's contract says what to do; without one, a person is asked."""
    await frame.look_for_tools()
    for call in calls:
        if frame.agent.handoff_named(call.name) is not None:
            if await claim_handoff(frame, call):
                await hand_over(frame, call)
            return
        tool = frame.tool_of(call)
        if tool is None:
            raise UserError(
                f"Call {call.id} was interrupted, and tool '{call.name}' is gone: declare it again to recover it."
            )
        job = as_it_runs(call, tool)
        if tool.recovery == "retry":
            await _begin(frame, [call])
        elif tool.recovery == "ask":
            frame.note(in_doubt(frame, job, "its worker is gone, and it is unknown whether it happened"))
        else:
            await _reconcile(frame, job, parse_arguments(job.arguments) or {})


async def _reconcile(frame: Frame, job: Job, arguments: JsonObject) -> None:
    assert callable(job.tool.recovery)
    await frame.journal.commit()
    try:
        found = await awaited(job.tool.recovery(tool_context(frame, job), arguments))
    except Exception as error:  # noqa: BLE001  # a function that cannot find out leaves it to a person
        frame.note(in_doubt(frame, job, f"its recovery function raised {type(error).__name__}: {error}"))
        return
    match found:
        case Happened(value):
            frame.note(_as_found(frame, job, value))
        case DidNotHappen():
            await _begin(frame, [job.call])
        case CannotTell():
            frame.note(in_doubt(frame, job, "its recovery function could not find out whether it happened"))
        case _:
            frame.note(in_doubt(frame, job, f"its recovery function answered {type(found).__name__}"))


def _as_found(frame: Frame, job: Job, value: object) -> CallEnded:
    try:
        output = as_tool_output(job.tool.name, value, frame.config.limits.output)
    except ToolOutputError as error:
        return CallEnded(job.call.id, "failed", _with_edit_note(job, str(error)))
    return CallEnded(job.call.id, "finished", _with_edit_note(job, output))


async def finish_tool_functions(frame: Frame) -> None:
    """Begin nothing more, and let what runs come to its end: an error elsewhere is no reason to leave effects in
    doubt."""
    frame.queue.clear()
    if frame.tasks:
        await asyncio.wait(list(frame.tasks))


async def abandon_tool_functions(frame: Frame) -> None:
    """Stop what runs."""
    frame.is_stopping = True
    tasks = list(frame.tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def put_tool_functions_in_doubt(frame: Frame, why: str) -> None:
    """A tool function that was stopped is in doubt, unless its contract knows what to do at the next drive."""
    for call in frame.run.calls.values():
        tool = frame.tool_of(call)
        is_tool_function = call.status is Status.STARTED and call.id not in frame.run.children
        if is_tool_function and tool is not None and tool.recovery == "ask":
            frame.note(in_doubt(frame, as_it_runs(call, tool), why))
