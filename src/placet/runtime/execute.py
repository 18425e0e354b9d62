"""Execution: claim, run, record. What runs is what was approved, checked at the last moment before the claim."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from placet.core.deciding import asked_anew
from placet.core.gate import is_first_version
from placet.core.plan import HOSTED_MCP
from placet.core.separation import why_not_this
from placet.core.state import Call
from placet.core.table import CONCLUDABLE, Status
from placet.declare.agent import AgentTool
from placet.declare.context import ToolContext
from placet.declare.guardrail import GuardrailFunctionOutput, GuardrailResult
from placet.declare.run_config import ToolErrorFormatterArgs
from placet.declare.tool import (
    CannotTell,
    DidNotHappen,
    Failed,
    Happened,
    NeedsInput,
    Tool,
)
from placet.declare.tool_values import InvalidArguments
from placet.facts.codec import Json, JsonObject, encode, parse_arguments, writable
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
    CallsStarted,
    DecisionMade,
    DecisionRevoked,
    InputAsked,
    Outcome,
    Pattern,
)
from placet.ports import Hold
from placet.runtime.frame import Frame, Job, awaited, tool_context
from placet.runtime.gating import digest_now, digest_of_asking, hold, judge_again
from placet.runtime.guarding import Tripped, judge_call, judge_result
from placet.runtime.handing_over import hand_over
from placet.runtime.holding import hold_on
from placet.runtime.journal import Overtaken
from placet.runtime.nested import run_nested
from placet.runtime.output import as_answer, as_tool_output, failure_text
from placet.runtime.validating import ready_job, settle_values, still_means_the_same

_NESTED_FAILURES = (GuardrailTripped, InvalidArguments, MaxTurnsExceeded, ModelBehaviorError, ToolOutputError)
"""What ends a nested run for good: the model that called it reads so."""
NOT_APPROVED = "Tool execution was not approved."
CHANGED = "what was approved is not what would run now: the tool or its arguments changed in between"
EDIT_CHANGED = (
    "a reviewer's arguments were given where the tool's code is not, and validation would fill in or change something: "
    "edit them again where it can be seen"
)
PROVIDER_MAY_CALL = "Approved: the model's provider may call the tool."
CHANGED_WHILE_ASKING = "its tool changed while what it asked was answered: it cannot go on with the answer"
MAX_ATTEMPTS = 3
"""So often a call whose tool may be repeated is begun, if each time nobody learned what became of it."""
GIVEN_UP = "It is unknown whether this tool ran: it was interrupted, and a reviewer decided not to run it again."


_BY_DECISION = (Status.APPROVED, Status.CLEARED, Status.SUPPLIED)
"""A call with one of these is about to begin because somebody said so."""


# -- decided calls that have no body to run ----------------------------------------------------------------------------


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
    formatter = frame.config.tool_error_formatter
    if formatter is None:
        return NOT_APPROVED
    await frame.journal.commit()  # user code may take for ever
    kind = "function" if call.server is None else HOSTED_MCP
    args = ToolErrorFormatterArgs("approval_rejected", kind, call.name, call.label, NOT_APPROVED, frame.context)
    text = await awaited(formatter(args))
    if text is not None and not isinstance(text, str):
        raise UserError(f"tool_error_formatter gives back a text or None, not a {type(text).__name__}.")
    return NOT_APPROVED if text is None else writable(text)


# -- calls that may run ------------------------------------------------------------------------------------------------


async def start_calls(frame: Frame, calls: list[Call]) -> None:
    """Claim the calls, then run them side by side: all at once, or as many as the configuration allows."""
    if calls and calls[0].status is Status.DEFERRED:
        await hand_over(frame, calls[0])
        return
    stale = [call for call in calls if call.status is Status.ALLOWED and call.id not in frame.judged]
    if stale:
        passed = await judge_again(frame, stale)
        calls = [call for call in calls if call not in stale or call in passed]
    holds = await frame.journal.store.holds()
    if holds:
        calls = _not_held(frame, calls, holds)
    if any(call.decision is not None for call in calls):
        calls = _not_their_own(frame, calls, await frame.journal.store.four_eyes())
    # What people decided is compared with the tools as they are now; the others were judged by the last look.
    if frame.agent.mcp_servers:
        await frame.look_for_tools(again=any(_is_of_server(frame, call) for call in calls if call.decision is not None))
    jobs = [job for call in calls if (job := _job(frame, call)) is not None]
    if [job for job in jobs if job.tool.tool_input_guardrails or job.call.server is not None]:
        jobs = [job for job in jobs if await _passes_rules(frame, job)]
        jobs = _let_the_provider_call(frame, jobs)
    limit = frame.config.max_tool_concurrency
    free = len(jobs) if limit is None else max(0, limit - len(frame.tasks))
    await _run_side_by_side(frame, jobs[:free])
    if free < len(jobs):
        frame.at_work.update(job.call.id for job in jobs[free:])
        frame.queue.extend(jobs[free:])


def _let_the_provider_call(frame: Frame, jobs: list[Job]) -> list[Job]:
    """A hosted call has no body here: that it may be made is all that is to be said. The jobs that have one."""
    for job in jobs:
        if job.call.server is not None:
            frame.note(CallsStarted([job.call.id]))
            frame.note(CallEnded(job.call.id, "finished", PROVIDER_MAY_CALL))
    return [job for job in jobs if job.call.server is None]


def _is_of_server(frame: Frame, call: Call) -> bool:
    entry = frame.run.ledger.entry(call.id)
    return entry is not None and frame.agent.toolset_of(entry.tool) is not None


def _not_held(frame: Frame, calls: list[Call], holds: Sequence[Hold]) -> list[Call]:
    """The calls that no operator holds back. The others are set aside for this drive, approved or not."""
    agent = frame.run.response_agent
    held = [call for call in calls if hold_on(holds, frame.run_id, agent, call.name) is not None]
    frame.set_aside.update(call.id for call in held)
    return [call for call in calls if call not in held]


def _not_their_own(frame: Frame, calls: list[Call], four_eyes: Sequence[Pattern]) -> list[Call]:
    """The calls whose yes counts. Where four eyes are demanded and somebody approved a call of their own run, whatever
    the door and the time, the approval is void and the call is asked about anew."""
    kept = []
    for call in calls:
        decision, root = call.decision, frame.journal.run
        why = why_not_this(four_eyes, root, decision) if decision is not None and call.status in _BY_DECISION else None
        if why is None or decision is None:
            kept.append(call)
            continue
        revoked = DecisionRevoked(call.id, None, frame.journal.now(), why)
        frame.journal.note_all(asked_anew(frame.run, call, f"its approval does not count: {why}", revoked))
    return kept


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


async def _run_side_by_side(frame: Frame, jobs: list[Job]) -> None:
    if not jobs:
        return
    children = frame.run.children
    fresh = [job.call.id for job in jobs if job.call.id not in children]
    if fresh:  # a nested run that goes on was claimed when it began
        frame.note(CallsStarted(fresh))
        await frame.journal.commit()  # the claims are durable before the first effect
    for job in jobs:
        frame.at_work.add(job.call.id)
        frame.tasks.add(asyncio.create_task(_work(frame, job)))


def _job(frame: Frame, call: Call) -> Job | None:
    """What would run, if it is still what was approved. If it is not, the call is asked about anew and does not run."""
    tool = frame.tool_of(call)
    if tool is None:
        if call.status in (Status.CLEARED, Status.SUPPLIED):
            raise UserError(f"Call {call.id} is to go on, and tool '{call.name}' is gone: declare it again.")
        if _is_of_server(frame, call):
            raise UserError(
                f"Call {call.id} was approved, and its server no longer has the tool '{call.name}': "
                "have the server offer it again and resume the run, or cancel the run."
            )
        frame.note(CallEnded(call.id, "denied", f"Tool '{call.name}' not found."))
        return None
    decision = call.decision
    if call.status is Status.ALLOWED or decision is None or call.status is Status.STARTED:
        return ready_job(frame, call, tool)
    if call.status is Status.SUPPLIED:
        digest = digest_of_asking(frame.run, call, tool, call.questions or {}, like=decision.digest)
        if digest == decision.digest:
            return ready_job(frame, call, tool)
        frame.note(in_doubt(frame, _as_it_runs(call, tool), CHANGED_WHILE_ASKING))
        return None
    is_late = tool.approval_valid_for is not None and frame.journal.now() > decision.at + tool.approval_valid_for
    why = "the approval was not used in time" if is_late else _what_changed(frame, call, tool, decision)
    if why is not None:
        if call.status is Status.CLEARED:
            frame.note(in_doubt(frame, _as_it_runs(call, tool), why))
        else:
            settle_values(frame, call, tool)
            frame.note(hold(frame, call, tool, why))
        return None
    return ready_job(frame, call, tool)


def _what_changed(frame: Frame, call: Call, tool: Tool, decision: DecisionMade) -> str | None:
    """Why what would run now is not what was approved; None if it is."""
    if digest_now(frame.run, call, tool, like=decision.digest) != decision.digest:
        return CHANGED
    if is_first_version(decision.digest):
        if call.edited is None:
            settle_values(frame, call, tool)  # approved as the model wrote it: validation has its say as it had then
        return None
    if still_means_the_same(frame, call, tool):
        return None
    return CHANGED if call.edited is None else EDIT_CHANGED


def _as_it_runs(call: Call, tool: Tool) -> Job:
    return Job(call, tool, call.effective_text)


async def _work(frame: Frame, job: Job) -> None:
    """One place at work: run a body, record it, take the next call that waits for a place."""
    try:
        while True:
            try:
                await _run_body(frame, job)
            finally:
                frame.at_work.discard(job.call.id)
                frame.news.set()
            if not frame.queue:
                return
            job = frame.queue.popleft()
            if job.call.id not in frame.run.children:
                frame.note(CallsStarted([job.call.id]))
                await frame.journal.commit()
    except Overtaken:  # it was not claimed: the loop looks at it again, and at those that waited for a place
        frame.at_work.discard(job.call.id)
        _send_the_queue_home(frame)
        frame.news.set()
    except BaseException as error:  # noqa: BLE001  # the drive raises it, once the siblings are done
        frame.failures += (error,)
        _send_the_queue_home(frame)
    finally:
        task = asyncio.current_task()
        assert task is not None
        frame.tasks.discard(task)


def _send_the_queue_home(frame: Frame) -> None:
    frame.at_work.difference_update(waiting.call.id for waiting in frame.queue)
    frame.queue.clear()


async def _run_body(frame: Frame, job: Job) -> None:
    ctx = tool_context(frame, job)
    frame.journal.require_lease()
    outcome: Outcome = "finished"
    failure: BaseException | None = None
    all_hooks = frame.all_hooks
    if all_hooks and job.call.id not in frame.run.children and ctx.answers is None:
        await _tell_of_start(frame, job, ctx)  # what goes on was told of when it began
    try:
        if isinstance(job.tool, AgentTool):
            found = await run_nested(frame, job, job.tool)
            if found is None:
                return  # somebody in the nested run waits for a person: the call goes on when they have decided
            output = found
        else:
            is_plain = frame.watch is None and job.tool.timeout is None
            value = await (job.tool.on_invoke_tool(ctx, job.arguments) if is_plain else _observed(frame, job, ctx))
            if isinstance(value, NeedsInput):
                frame.note(_asking(frame, job, value))
                return
            if isinstance(value, Failed):
                outcome, value = "failed", value.output
            judged, failure = (
                await _judged(frame, job, ctx, value) if job.tool.tool_output_guardrails else (value, None)
            )
            output = as_tool_output(job.tool.name, judged, frame.config.limits.output)
    except asyncio.CancelledError:
        if frame.is_stopping:
            raise  # the drive was cancelled: nobody knows how far the body got
        outcome, output = "failed", f"Tool '{job.tool.name}' was cancelled."
    except ToolOutcomeUnknown as error:
        if job.tool.recovery == "ask" or job.call.attempts >= MAX_ATTEMPTS:
            frame.note(in_doubt(frame, job, str(error)))
        return  # a tool with a contract is recovered by the loop, as if its worker were gone
    except Exception as error:  # a tool's failure is data for the model
        if isinstance(job.tool, AgentTool) and not isinstance(error, _NESTED_FAILURES):
            raise  # a provider or a store that failed inside: the nested run can be gone on with, so it is not given up
        outcome = "failed"
        output, failure = await failure_text(job, ctx, error)
    frame.note(CallEnded(job.call.id, outcome, _with_edit_note(job, output)))
    if failure is not None:
        raise failure
    for hooks in all_hooks:
        await frame.journal.commit()  # hooks are user code: what the tool did is safe first
        await hooks.on_tool_end(ctx, frame.agent, job.tool, output)


def _asking(frame: Frame, job: Job, needs: NeedsInput) -> InputAsked | CallEnded:
    """The body asks a person something and gives its place up: the call waits, and costs nothing meanwhile."""
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


async def _tell_of_start(frame: Frame, job: Job, ctx: ToolContext[Any]) -> None:
    try:
        for hooks in frame.all_hooks:
            await hooks.on_tool_start(ctx, frame.agent, job.tool)
    except Exception:
        frame.note(CallEnded(job.call.id, "failed", f"Tool '{job.tool.name}' was not run: a hook failed before it."))
        raise


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
    with frame.watch.around_body(job.call.id):
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


async def await_bodies(frame: Frame) -> None:
    """Wait until all bodies have ended, or somebody decides something. What has ended is made durable at once."""
    while frame.at_work and not frame.run.ledger.has_staged():
        await frame.news.wait()
        frame.news.clear()
        if frame.at_work:
            await frame.journal.commit()


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
        return in_doubt(frame, _as_it_runs(call, tool), "its worker is gone")
    return CallInDoubt(call.id, "", f"function:{call.name}", "", "its worker is gone")


# -- calls whose worker is gone ----------------------------------------------------------------------------------------


async def recover_calls(frame: Frame, calls: list[Call]) -> None:
    """Somebody claimed these and is gone. Each tool's contract says what to do; without one, a person is asked."""
    await frame.look_for_tools()
    for call in calls:
        if frame.agent.handoff_named(call.name) is not None:
            await hand_over(frame, call)
            return
        tool = frame.tool_of(call)
        if tool is None:
            raise UserError(
                f"Call {call.id} was interrupted, and tool '{call.name}' is gone: declare it again to recover it."
            )
        job = _as_it_runs(call, tool)
        if tool.recovery == "retry":
            await _run_side_by_side(frame, [job])
        elif tool.recovery == "ask":
            frame.note(in_doubt(frame, job, "its worker is gone, and nobody knows whether it happened"))
        else:
            await _reconcile(frame, job, parse_arguments(job.arguments) or {})


async def _reconcile(frame: Frame, job: Job, arguments: JsonObject) -> None:
    assert callable(job.tool.recovery)
    await frame.journal.commit()
    try:
        found = await awaited(job.tool.recovery(tool_context(frame, job), arguments))
    except Exception as error:  # noqa: BLE001  # whoever cannot find out leaves it to a person
        frame.note(in_doubt(frame, job, f"its recovery function raised {type(error).__name__}: {error}"))
        return
    match found:
        case Happened(value):
            frame.note(_as_found(frame, job, value))
        case DidNotHappen():
            await _run_side_by_side(frame, [job])
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


def in_doubt(frame: Frame, job: Job, why: str) -> CallInDoubt:
    if job.call.values is None and job.call.edited is None:  # of a log of the first version: shown as it would run
        settle_values(frame, job.call, job.tool)
    return CallInDoubt(
        job.call.id, digest_now(frame.run, job.call, job.tool), job.tool.identity, job.tool.fingerprint, why
    )


async def finish_bodies(frame: Frame) -> None:
    """Begin nothing more, and let what runs come to its end: an error elsewhere is no reason to leave effects in
    doubt."""
    frame.queue.clear()
    if frame.tasks:
        await asyncio.wait(list(frame.tasks))


async def abandon_bodies(frame: Frame) -> None:
    """Stop what runs."""
    frame.is_stopping = True
    tasks = list(frame.tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def doubt_bodies(frame: Frame, why: str) -> None:
    """A body that was stopped is in doubt, unless its contract knows what to do at the next drive."""
    for call in frame.run.calls.values():
        tool = frame.tool_of(call)
        is_body = call.status is Status.STARTED and call.id not in frame.run.children
        if is_body and tool is not None and tool.recovery == "ask":
            frame.note(in_doubt(frame, _as_it_runs(call, tool), why))
