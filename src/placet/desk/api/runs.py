"""Runs over the API: start, list, show, cancel, resume, forget; and their logs."""

from __future__ import annotations

import msgspec

from placet.core.log import read_line
from placet.desk.api.idempotency import made_id
from placet.desk.api.operations import ApiAnswer, ApiRequest, Operation
from placet.desk.api.shapes import (
    CancelShape,
    LogFact,
    LogFilter,
    LogLine,
    LogPage,
    NewRun,
    Nothing,
    Resuming,
    RunFilter,
    RunPage,
    RunShape,
    Why,
)
from placet.desk.cancelling import cancel_in_list, cancel_of
from placet.desk.desk import DeskRun
from placet.desk.web.context import Web
from placet.desk.web.deciding import as_datetime, refuse_to_end
from placet.desk.web.feed import kind_of
from placet.desk.web.problems import FieldProblem, Problem
from placet.facts.errors import NotPending
from placet.facts.events import AnyFact, CancelAsked, Fact, InChild
from placet.ports import RunQuery

WITHOUT_CODE = (
    "It was started without the agents' code, and can only show and decide: «placet serve MODULE:NAME --no-run» knows "
    "them, and lets others drive the runs."
)


async def run_or_404(web: Web, run_id: str) -> DeskRun:
    row = None if "\x00" in run_id else await web.desk.store.run(run_id)
    if row is None:
        raise Problem(404, "not_found", f"There is no run {run_id[:80]!r} in this store.")
    return await web.desk.get(run_id)


async def _run_meant(web: Web, typed: str) -> DeskRun:
    """The same for who only looks: a part of an id will do, if no other run has it."""
    try:
        return await web.desk.find_run(typed)
    except NotPending as error:
        raise Problem(404, "not_found", error.message) from error


async def start(ask: ApiRequest[Nothing, NewRun]) -> ApiAnswer:
    given = ask.body
    if not ask.web.desk.knows(given.agent):
        names = ", ".join(agent.name for agent in ask.web.desk.agents)
        message = f"This desk has no agent {given.agent[:80]!r}. {f'It has: {names}.' if names else WITHOUT_CODE}"
        raise Problem(422, "unknown_agent", message, errors=[FieldProblem(field="agent", message=message)])
    run = await ask.web.desk.start(
        given.agent,
        given.input,
        by=ask.actor.name,
        context=given.context,
        max_turns=given.max_turns,
        run_id=made_id(ask.request, "run_"),
    )
    return ApiAnswer(_with_cancel(run, None), headers={"Location": f"/v1/runs/{run.id}"})


async def list_runs(ask: ApiRequest[RunFilter, Nothing]) -> RunPage:
    wanted = ask.query
    store = ask.web.desk.store
    query = RunQuery(status=wanted.status, agent=wanted.agent, cursor=wanted.cursor, limit=wanted.limit)
    page = await store.runs(query)
    data = [_with_cancel(row, await cancel_in_list(store, row)) for row in page.rows]
    return RunPage(data=data, next=page.cursor)


async def show(ask: ApiRequest[Nothing, Nothing]) -> RunShape:
    return await _shape(ask.web, await _run_meant(ask.web, ask.part("run_id")))


async def _shape(web: Web, run: DeskRun) -> RunShape:
    return _with_cancel(run, await cancel_of(web.desk.store, run))


def _with_cancel(run: DeskRun, cancel: CancelAsked | None) -> RunShape:
    return RunShape.of(run, cancelled=None if cancel is None else CancelShape.of(cancel))


async def cancel(ask: ApiRequest[Nothing, Why]) -> RunShape:
    run = await run_or_404(ask.web, ask.part("run_id"))
    refuse_to_end(ask.actor, run)
    await ask.web.desk.cancel(run.id, by=ask.actor.name, reason=ask.body.reason)
    return await _shape(ask.web, await ask.web.desk.get(run.id))


async def resume(ask: ApiRequest[Nothing, Resuming]) -> RunShape:
    run = await run_or_404(ask.web, ask.part("run_id"))
    if run.status == "ended":
        raise Problem(409, "run_finished", f"Run {run.id} has ended: there is nothing left to resume.")
    await ask.web.desk.resume(run.id, by=ask.actor.name, own_history=ask.body.own_history)
    return await _shape(ask.web, await ask.web.desk.get(run.id))


async def forget(ask: ApiRequest[Nothing, Nothing]) -> None:
    run = await run_or_404(ask.web, ask.part("run_id"))
    if run.status != "ended":
        raise Problem(409, "run_not_ended", f"Run {run.id} has not ended: cancel it first.")
    await ask.web.desk.delete(run.id, by=ask.actor.name)


async def erase(ask: ApiRequest[Nothing, Why]) -> None:
    run = await run_or_404(ask.web, ask.part("run_id"))
    if run.status != "ended":
        raise Problem(409, "run_not_ended", f"Run {run.id} has not ended: cancel it first.")
    await ask.web.desk.erase(run.id, by=ask.actor.name, reason=ask.body.reason)


async def log(ask: ApiRequest[LogFilter, Nothing]) -> LogPage:
    run = await _run_meant(ask.web, ask.part("run_id"))
    stored = await ask.web.desk.store.load(run.id)
    lines = stored.log.lines if stored is not None and stored.log is not None else []
    first = ask.query.after + 1
    chosen = lines[first : first + ask.query.limit]
    last = first + len(chosen) - 1
    data = [_line(first + index, text) for index, text in enumerate(chosen)]
    return LogPage(data=data, next=last if last + 1 < len(lines) and chosen else None)


def _line(position: int, text: bytes) -> LogLine:
    record = read_line(text)
    return LogLine(position=position, at=as_datetime(record.at), facts=[_fact(fact) for fact in record.facts])


def _fact(fact: AnyFact) -> LogFact:
    bare: Fact = fact.fact if isinstance(fact, InChild) else fact
    data = {name: msgspec.to_builtins(getattr(bare, name)) for name in bare.__struct_fields__}
    return LogFact(kind=kind_of(bare), path=fact.path if isinstance(fact, InChild) else "", data=data)


OPERATIONS = (
    Operation(
        "POST",
        "/v1/runs",
        start,
        "Start a run",
        "runs",
        role="reviewer",
        body=NewRun,
        answer=RunShape,
        status=201,
        problems=(409,),
        details="It is durable when this answers; it is driven in the background. With an `Idempotency-Key` it is "
        "started once, however often it is asked for.",
    ),
    Operation("GET", "/v1/runs", list_runs, "List runs, newest first", "runs", query=RunFilter, answer=RunPage),
    Operation("GET", "/v1/runs/{run_id}", show, "Show a run", "runs", answer=RunShape, problems=(404,)),
    Operation(
        "DELETE",
        "/v1/runs/{run_id}",
        forget,
        "Forget a run that has ended",
        "runs",
        role="admin",
        status=204,
        problems=(404, 409),
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/cancel",
        cancel,
        "Cancel a run",
        "runs",
        role="reviewer",
        body=Why,
        answer=RunShape,
        problems=(404, 409),
        details="Each open call gets an output, then the run ends. What has happened has happened.",
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/resume",
        resume,
        "Go on with a run that an error stopped",
        "runs",
        role="reviewer",
        body=Resuming,
        answer=RunShape,
        problems=(404, 409),
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/erasure",
        erase,
        "Erase what a run that has ended said",
        "runs",
        role="admin",
        body=Why,
        status=204,
        problems=(404, 409),
        details="Inputs, arguments, outputs, messages and names go for good. Its chain stays whole, and the audit says "
        "who erased it, when and why.",
    ),
    Operation(
        "GET",
        "/v1/runs/{run_id}/log",
        log,
        "The log of a run: every fact, in order",
        "runs",
        query=LogFilter,
        answer=LogPage,
        problems=(404,),
    ),
)
