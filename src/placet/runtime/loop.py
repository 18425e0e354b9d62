"""Start reading here: the loop. It asks what is next, has it done, and asks again; `run`, `run_sync`, `run_streamed`
and resumption are callers of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import assert_never

from placet.core.next_step import (
    AdvanceCalls,
    AskModel,
    AwaitToolFunctions,
    CancelRun,
    ConcludeRun,
    GateCalls,
    JudgeTurn,
    RecoverCalls,
    ReportTripwire,
    SettleRequest,
    Step,
    Stop,
    WaitForPeople,
    next_step,
)
from placet.facts.errors import MaxTurnsExceeded, RunConflict, StoreError
from placet.runtime.ending import cancel_run, conclude_run, end_by_handler, judge_turn, note_stop
from placet.runtime.execute import (
    abandon_tool_functions,
    await_tool_functions,
    conclude_calls,
    finish_tool_functions,
    put_tool_functions_in_doubt,
    recover_calls,
    start_calls,
)
from placet.runtime.frame import Frame
from placet.runtime.gating import absorb_decisions, decide_by_grants, expire_questions, gate_calls
from placet.runtime.guardrails import judge_input_late, report_tripwire
from placet.runtime.journal import Overtaken
from placet.runtime.model_call import ask_model, settle_request
from placet.runtime.session_items import write_session


async def drive(frame: Frame) -> None:
    """Go on until the run has ended or everything that could go on waits for people."""
    run = frame.journal.run
    # A new run has nothing that was left undone; one that is to end needs none of its code, which may be gone.
    is_begun, is_over = not run.responses or run.cancel_asked is not None, False
    while not is_over:
        try:
            if not is_begun:
                is_begun = await begin(frame)
            if frame.has_news or frame.run.ledger.has_staged():
                await absorb_decisions(frame)
            if frame.failures and not frame.at_work:  # a tool function's error, once its siblings are done and recorded
                raise frame.failures[0]
            is_over = await take(next_step(frame.run, frame.at_work, frame.set_aside), frame)
        except Overtaken:  # a decision was made in between
            frame.look_again(has_news=True)


async def begin(frame: Frame) -> bool:
    """What comes before the first step of a run that goes on: rules that were not heard, times that have come,
    standing decisions."""
    await judge_input_late(frame)
    expire_questions(frame)
    await decide_by_grants(frame)
    return True


_BETWEEN_TURNS = (JudgeTurn, AskModel, SettleRequest)
_BEGINNING_SOMETHING = (AdvanceCalls, *_BETWEEN_TURNS)


def is_left_before(step: Step, frame: Frame) -> bool:
    """Whether the driver goes here, and leaves the step to the next driver."""
    if frame.should_leave is not None and isinstance(step, _BEGINNING_SOMETHING) and frame.may_leave:
        frame.was_left = True
        return True
    return frame.stop_after_turn and isinstance(step, _BETWEEN_TURNS)


async def take(step: Step, frame: Frame) -> bool:
    """Have one step done. True when there is none left to take."""
    if (frame.should_leave is not None or frame.stop_after_turn) and is_left_before(step, frame):
        await frame.journal.commit()
        return True
    match step:
        case GateCalls():
            await gate_calls(frame, step.calls)
        case AdvanceCalls():
            if step.concludable:
                await conclude_calls(frame, step.concludable)
            await start_calls(frame, step.runnable)
        case AwaitToolFunctions():
            await await_tool_functions(frame)
        case JudgeTurn():
            await judge_turn(frame)
        case AskModel():
            await ask_model(frame)
        case ConcludeRun():
            await conclude_run(frame)
        case WaitForPeople() | Stop():
            if frame.session is not None:
                await write_session(frame)
            await frame.journal.commit(is_last=frame.ends_at_rest)
            return True
        case _:
            await _take_unusual(step, frame)
    return False


async def _take_unusual(step: RecoverCalls | SettleRequest | CancelRun | ReportTripwire, frame: Frame) -> None:
    """A step after something that usually does not happen: a driver died, a request was lost, it was cancelled."""
    match step:
        case RecoverCalls():
            await recover_calls(frame, step.calls)
        case SettleRequest():
            await settle_request(frame)
        case CancelRun():
            await cancel_run(frame)
        case ReportTripwire(guardrail):
            raise report_tripwire(frame, guardrail)
        case never:
            assert_never(never)


async def drive_safely(frame: Frame) -> None:
    """Drive; whatever ends the drive, leave a log that can be continued."""
    try:
        await drive(frame)
    except MaxTurnsExceeded as error:
        if not await end_by_handler(frame, error):
            await _leave(frame, error)
            raise
    except asyncio.CancelledError:
        await abandon_tool_functions(frame)
        with contextlib.suppress(StoreError, Overtaken):
            put_tool_functions_in_doubt(frame, "it was broken off while it ran")
            await frame.journal.commit()
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # `sys.exit()` in a hook or a rule stops the run too
        await _leave(frame, error)
        raise


async def _leave(frame: Frame, error: BaseException) -> None:
    """Let what runs come to its end and write down what stopped the drive: the error itself is the one to tell of."""
    await finish_tool_functions(frame)
    with contextlib.suppress(StoreError, Overtaken, RunConflict):
        note_stop(frame, error)
        await frame.journal.commit()
