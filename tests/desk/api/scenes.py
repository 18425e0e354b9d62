"""What the tests of the API share: addresses, decisions, and what an error must look like."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx2

from tests.support.desk_server import RunningDesk


def at(request_id: str, tail: str = "") -> str:
    """The address of a request: its id holds signs that an address does not."""
    return f"/v1/approvals/{quote(request_id, safe='')}{tail}"


async def decide(client: httpx2.AsyncClient, request_id: str, decision: str, **more: Any) -> httpx2.Response:
    return await client.post(at(request_id, "/decisions"), json={"decision": decision, **more})


async def two_refunds(server: RunningDesk, *, by: str | None = "web-form") -> tuple[str, list[Any]]:
    """A run that waits with two refunds: its id, and the requests."""
    run = await server.waiting_run(by=by)
    return run.id, await server.desk.pending(run_id=run.id)


def problem(answer: httpx2.Response, status: int, code: str) -> Any:
    """The body of an error that is what errors are."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["code"] == code, found
    assert found["type"] == f"urn:placet:problem:{code}"
    assert found["title"]
    assert found["detail"]
    return found
