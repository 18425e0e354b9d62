"""The desk on the web, put together: guards, API, pages, errors. `create_app(desk)` is an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from placet.clock import SYSTEM_CLOCK, Clock
from placet.desk.access.accounts import Accounts
from placet.desk.access.identities import Identities
from placet.desk.access.passkeys import Passkeys
from placet.desk.access.secrets import new_secret
from placet.desk.api.v1 import api_routes
from placet.desk.desk import Desk
from placet.desk.pages.routes import error_page, page_routes
from placet.desk.slack.door import door_of
from placet.desk.web.context import ErrorPage, Web
from placet.desk.web.feed import Feed
from placet.desk.web.guards import Guards
from placet.desk.web.limits import RateLimits
from placet.desk.web.metrics import Meter
from placet.desk.web.problems import Problem, as_problem, of_status, problem_response, unknown_error, wants_html
from placet.desk.web.settings import WebSettings
from placet.desk.web.waiting import Waiting
from placet.facts.errors import PlacetError
from placet.service.baselines import Baselines
from placet.service.guest_sweep import sweep_guests
from placet.service.search_index import SearchIndex
from placet.sso.oidc import Client

logger = logging.getLogger("placet.desk")

TIDY_SECONDS = 600.0


def create_app(
    desk: Desk,
    settings: WebSettings | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    pages: Sequence[BaseRoute] | None = None,
    error_page: ErrorPage | None = error_page,
    sso: Mapping[str, Client] | None = None,
) -> Starlette:
    """An application over a desk that other code opens and closes; `serve` does both."""
    chosen = settings or WebSettings()
    web = Web(
        desk=desk,
        accounts=Accounts(desk.store, clock),
        passkeys=Passkeys(desk.store, clock),
        identities=Identities(desk.store, clock),
        sso=dict(sso or {}),
        settings=chosen,
        feed=Feed(desk.store, chosen),
        limits=RateLimits(chosen, clock),
        meter=Meter(),
        waiting=Waiting(desk.store),
        clock=clock,
        error_page=error_page,
        open_csrf=new_secret() if chosen.is_open else "",
    )

    if chosen.public_url:
        desk.outbox.base_url = chosen.public_url

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        samples = Baselines(desk.store, clock)
        tasks = [asyncio.create_task(_tidy_up(web)), asyncio.create_task(samples.serve())]
        if chosen.search:
            tasks.append(asyncio.create_task(SearchIndex(desk.store).serve()))
        if not desk.drives_runs:  # a desk that drives looks after guests, and tells what happens, by itself
            tasks.append(asyncio.create_task(sweep_guests(desk.store, desk.guests, clock)))
            tasks.append(asyncio.create_task(desk.outbox.serve()))
        if (door := door_of(web)) is not None:
            tasks.append(asyncio.create_task(door.serve()))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await web.feed.close()

    app = Starlette(
        routes=[*api_routes(), *(page_routes() if pages is None else pages)],
        middleware=[Middleware(Guards, web=web)],
        exception_handlers={
            Problem: _problem,
            PlacetError: _placet_error,
            HTTPException: _http_error,
            Exception: _unknown,
        },
        lifespan=lifespan,
    )
    app.state.web = web
    return app


async def _tidy_up(web: Web) -> None:
    """From time to time, forget what has expired: sessions, invitations, answers to be repeated."""
    while True:
        try:
            while await web.desk.store.expire_records() > 0:
                pass
        except PlacetError as error:  # the store is away: there will be another time
            logger.warning("not tidied up", extra={"action": "tidying_failed", "error": str(error)})
        await asyncio.sleep(TIDY_SECONDS)


def _respond(request: Request, problem: Problem) -> Response:
    web: Web = request.app.state.web
    if wants_html(request):
        if problem.status == 401 and request.method == "GET":
            wanted = f"{request.url.path}?{request.url.query}".rstrip("?")  # a link in a message names its request
            return RedirectResponse(f"/login?{urlencode({'next': wanted})}", 303)
        if web.error_page is not None:
            return web.error_page(request, problem)
    return problem_response(problem, request.url.path)


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _respond(request, error)


def _placet_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlacetError)
    problem = as_problem(error)
    if problem.status == 500:
        logger.error("request failed", exc_info=error, extra={"action": "request_failed", "code": error.code})
    return _respond(request, problem)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _respond(request, of_status(error.status_code, error.detail, error.headers))


def _unknown(request: Request, _error: Exception) -> Response:
    """The framework raises the error again afterwards, and the server logs it with its traceback."""
    return _respond(request, unknown_error())
