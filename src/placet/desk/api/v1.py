"""All operations of the API, their routes, and the address of their description."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from placet.desk.api import (
    aap,
    approvals,
    approvers,
    gate,
    grants,
    hooks,
    operators,
    people,
    policy,
    runs,
    subscriptions,
    system,
)
from placet.desk.api.openapi import describe
from placet.desk.api.operations import Operation, routes_of
from placet.facts.codec import encode

OPERATIONS: tuple[Operation, ...] = (
    *runs.OPERATIONS,
    *grants.OPERATIONS,  # before those of approvals, whose ids may hold slashes
    *approvals.OPERATIONS,
    *approvers.OPERATIONS,
    *people.OPERATIONS,
    *operators.OPERATIONS,
    *gate.OPERATIONS,
    *aap.OPERATIONS,
    *hooks.OPERATIONS,
    *subscriptions.OPERATIONS,
    *policy.OPERATIONS,
    *system.OPERATIONS,
)


@cache
def openapi() -> bytes:
    return encode(describe(OPERATIONS, version("placet")))


async def show_openapi(_request: Request) -> Response:
    return Response(openapi(), media_type="application/json")


def api_routes() -> list[BaseRoute]:
    return [*routes_of(OPERATIONS), Route("/openapi.json", show_openapi)]
