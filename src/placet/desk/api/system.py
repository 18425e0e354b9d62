"""Around it: which agents there are, live events, health, figures, and the description of the API itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response, StreamingResponse

from placet.declare.agent import Agent
from placet.desk.api.operations import ApiRequest, Operation
from placet.desk.api.shapes import AgentList, AgentShape, EventFilter, Health, Nothing, PublicKeys, Readiness, ToolShape
from placet.desk.web.guards import authenticate
from placet.desk.web.problems import Problem
from placet.facts.errors import PlacetError
from placet.fleet.figures import FleetNumbers, fleet_numbers
from placet.service.metrics import CONTENT_TYPE
from placet.service.policy_state import policy_state

READY_SECONDS = 5.0
EVENT_STREAM = "text/event-stream"


async def list_agents(ask: ApiRequest[Nothing, Nothing]) -> AgentList:
    return AgentList(data=[_agent(agent) for agent in ask.web.desk.agents])


def _agent(agent: Agent[Any]) -> AgentShape:
    tools = [
        ToolShape(
            name=tool.name,
            description=tool.description,
            parameters=dict(tool.params_json_schema),
            needs_approval=tool.needs_approval if isinstance(tool.needs_approval, bool) else None,
        )
        for tool in agent.function_tools
    ]
    return AgentShape(name=agent.address, tools=tools)


async def events(ask: ApiRequest[EventFilter, Nothing]) -> Response:
    if ask.request.method == "HEAD":
        return Response(None, 200, media_type=EVENT_STREAM)
    feed = ask.web.feed
    if feed.is_full or feed.is_closed:
        message = "This process has the most listeners that it takes: try again in a few seconds."
        raise Problem(503, "too_many_listeners", message, headers={"Retry-After": "5"})
    after = _last_seen(ask.request.headers.get("last-event-id"), ask.query.after)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = _while_known(ask, feed.stream(after, ask.query.run_id))
    first = await anext(stream)  # from here on it listens: who has our answer, and then starts a run, misses nothing
    return StreamingResponse(_from(first, stream), headers=headers, media_type=EVENT_STREAM)


async def _from(first: bytes, stream: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(stream):
        yield first
        async for text in stream:
            yield text


async def _while_known(ask: ApiRequest[EventFilter, Nothing], stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """A stream lasts as long as its user may look: that is asked again with every heartbeat."""
    every, asked_at = ask.web.settings.heartbeat_seconds, ask.web.clock.monotonic()
    async with aclosing(stream):
        async for text in stream:
            yield text
            if ask.web.clock.monotonic() - asked_at < every:
                continue
            asked_at = ask.web.clock.monotonic()
            try:
                if await authenticate(ask.request, ask.web) is None:
                    return
            except (Problem, PlacetError):
                return


def _last_seen(header: str | None, asked: int | None) -> int | None:
    if not header:
        return asked
    if not (header.isascii() and header.isdigit() and len(header) <= 18):
        raise Problem(422, "invalid_request", "Last-Event-ID is the id of an event of this desk: a number.")
    return int(header)


async def healthy(_ask: ApiRequest[Nothing, Nothing]) -> Health:
    return Health(status="ok")


async def ready(ask: ApiRequest[Nothing, Nothing]) -> Readiness:
    """Whether the store answers, and (where this process drives runs) the engine serves."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await ask.web.desk.store.latest_sequence()
    except (PlacetError, TimeoutError) as error:
        raise Problem(503, "not_ready", "The store does not answer.", headers={"Retry-After": "5"}) from error
    health = await ask.web.desk.health()
    if ask.web.desk.drives_runs and not health.is_serving:
        raise Problem(503, "not_ready", "The engine has stopped: nothing is driven.", headers={"Retry-After": "5"})
    return Readiness(status="ready", drives_runs=health.is_serving, driving=health.driving)


async def metrics(ask: ApiRequest[Nothing, Nothing]) -> Response:
    web = ask.web
    web.meter.dropped_listeners = web.feed.dropped
    numbers, health = await web.desk.store.numbers(), await web.desk.health()
    policy = await policy_state(web.desk.store)
    reviews = len(await web.desk.reviews_owed())
    text = web.meter.text(numbers, health, policy, listeners=web.feed.listeners, reviews=reviews)
    return Response(text, 200, media_type=CONTENT_TYPE)


async def numbers(ask: ApiRequest[Nothing, Nothing]) -> FleetNumbers:
    return await fleet_numbers(ask.web.desk.store)


async def public_keys(ask: ApiRequest[Nothing, Nothing]) -> PublicKeys:
    receipts = ask.web.desk.receipts
    if receipts is None:
        raise Problem(404, "not_found", "This desk issues no receipts: it has no key that signs them.")
    keys = receipts.jwks()["keys"]
    return PublicKeys(keys=[*keys] if isinstance(keys, list) else [])


OPERATIONS = (
    Operation("GET", "/v1/agents", list_agents, "The agents of this desk and their tools", "around", answer=AgentList),
    Operation(
        "GET",
        "/v1/events",
        events,
        "Live events",
        "around",
        query=EventFilter,
        media_type=EVENT_STREAM,
        problems=(503,),
        details="Server-sent events: one for each fact of each run, in the order of the store; the event's name is the "
        "fact's kind, and its data is a JSON object with `sequence`, `index`, `run_id`, `at`, `path`, `type` and, if "
        "the fact has them, `call`, `tool`, `verdict`, `by`, … Arguments and outputs are not in it. Reconnecting with "
        "`Last-Event-ID` (browsers do) misses nothing; an event may come twice. A listener that does not keep up gets "
        "the event `dropped` and is disconnected.",
    ),
    Operation("GET", "/healthz", healthy, "Whether the process lives", "around", role=None, answer=Health),
    Operation(
        "GET",
        "/readyz",
        ready,
        "Whether the store answers and runs are driven",
        "around",
        role=None,
        answer=Readiness,
        problems=(503,),
    ),
    Operation(
        "GET",
        "/.well-known/jwks.json",
        public_keys,
        "The public keys by which receipts of approved calls are verified",
        "around",
        role=None,
        answer=PublicKeys,
        problems=(404,),
    ),
    Operation(
        "GET",
        "/v1/numbers",
        numbers,
        "Runs, questions and workers, counted: what `placet top` shows",
        "around",
        answer=FleetNumbers,
    ),
    Operation(
        "GET", "/metrics", metrics, "Figures for Prometheus", "around", media_type=CONTENT_TYPE.partition(";")[0]
    ),
)
