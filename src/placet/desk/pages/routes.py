"""The addresses of the pages, and the page that an error makes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from placet.desk.web.problems import Problem, problem_response


def page_routes() -> list[BaseRoute]:
    return []


def error_page(request: Request, problem: Problem) -> Response:
    return problem_response(problem, request.url.path)
