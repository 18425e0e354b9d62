"""What guests send that is wrong, in every verb: a problem with a stable code, and nothing stored."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.gate.scenes import RemoteScene, remote_scene

pytestmark = pytest.mark.promise("P23")

NAMED = {"tool": "t", "arguments": {"order": "7"}, "session": "s"}
TOKEN = "x" * 40
KNOWN = {"malformed_json", "invalid_request", "too_large", "permit_refused"}
"""The codes of all of them."""


async def client_of(scene: RemoteScene, name: str) -> httpx2.AsyncClient:
    await scene.accounts.add_user(name, "guest")
    token, _ = await scene.accounts.add_token(name, "a test")
    return httpx2.AsyncClient(base_url=scene.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


BAD_BODIES: list[tuple[str, Any]] = [
    ("claim", {"lease": 0}),
    ("claim", {"lease": "long"}),
    ("claim", {"key": "short"}),
    ("claim", {"token": TOKEN}),
    ("claim", []),
    ("claim", b"{"),
    ("claim", b"\xff\xfe"),
    ("renew", {}),
    ("renew", {"token": TOKEN}),
    ("renew", {"token": 7}),
    ("renew", {"token": "x" * 10_000}),
    ("outcome", {"token": TOKEN}),
    ("outcome", {"token": TOKEN, "outcome": "finished"}),
    ("outcome", {"token": TOKEN, "outcome": "approved"}),
    ("outcome", {"token": TOKEN, "outcome": "finished", "output": "x" * 10_000_000}),
    ("outcome", {"outcome": "finished"}),
    ("outcome", b"[" * 100_000),
]


@pytest.mark.parametrize(("verb", "body"), BAD_BODIES, ids=itertools.count())
async def test_a_verb_with_a_wrong_body_or_a_foreign_token_is_a_problem_and_stores_nothing(
    verb: str, body: Any
) -> None:
    async with remote_scene("sqlite://:memory:") as scene, await client_of(scene, "jobs") as jobs:
        claimed, waiting = [
            (await jobs.post("/v1/gate/calls", json={**NAMED, "call_id": f"c{asks}", "needs_approval": asks})).json()
            for asks in (False, True)
        ]
        permit = (await jobs.post(_path(claimed, "claim"), json={})).json()
        sequence = await scene.desk.store.latest_sequence()
        given: Any = {"content": body} if isinstance(body, bytes) else {"json": body}
        for call in (claimed, waiting):
            answer = await jobs.post(_path(call, verb), headers={"Content-Type": "application/json"}, **given)

            assert 400 <= answer.status_code < 500
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] in KNOWN, answer.json()
        assert await scene.desk.store.latest_sequence() == sequence
        told = await jobs.post(_path(claimed, "outcome"), json={"token": permit["token"], "outcome": "finished"})
        assert told.json()["status"] == "finished"


@pytest.mark.promise("P21")
@pytest.mark.parametrize("verb", ["look", "claim", "renew", "outcome", "withdraw"])
async def test_the_call_of_another_guest_is_not_there_also_with_its_token(verb: str) -> None:
    async with (
        remote_scene("sqlite://:memory:") as scene,
        await client_of(scene, "jobs") as jobs,
        await client_of(scene, "others") as others,
    ):
        call = (await jobs.post("/v1/gate/calls", json={**NAMED, "call_id": "c", "needs_approval": False})).json()
        permit = (await jobs.post(_path(call, "claim"), json={})).json()
        sequence = await scene.desk.store.latest_sequence()
        answer = await {
            "look": lambda: others.get(_path(call)),
            "claim": lambda: others.post(_path(call, "claim"), json={"again": True}),
            "renew": lambda: others.post(_path(call, "renew"), json={"token": permit["token"]}),
            "outcome": lambda: others.post(
                _path(call, "outcome"), json={"token": permit["token"], "outcome": "finished"}
            ),
            "withdraw": lambda: others.delete(_path(call)),
        }[verb]()

        refused = (403, "permit_refused") if verb in ("renew", "outcome") else (404, "call_not_found")
        assert (answer.status_code, answer.json()["code"]) == refused
        assert await scene.desk.store.latest_sequence() == sequence
        assert (await jobs.get(_path(call))).json()["status"] == "claimed"


@pytest.mark.promise("P21")
async def test_the_token_of_one_call_reports_no_other_call_of_the_same_guest() -> None:
    async with remote_scene("sqlite://:memory:") as scene, await client_of(scene, "jobs") as jobs:
        permits = []
        for name in ("c1", "c2"):
            call = (await jobs.post("/v1/gate/calls", json={**NAMED, "call_id": name, "needs_approval": False})).json()
            permits.append((await jobs.post(_path(call, "claim"), json={})).json())
        first, second = permits
        body = {"token": first["token"], "outcome": "finished", "output": "paid"}
        crossed = await jobs.post(_path(second["call"], "outcome"), json=body)

        assert (crossed.status_code, crossed.json()["code"]) == (403, "permit_refused")
        assert (await jobs.get(_path(second["call"]))).json()["status"] == "claimed"


def _path(call: dict[str, Any], verb: str = "") -> str:
    return f"/v1/gate/calls/{quote(call['id'], safe='')}" + (f"/{verb}" if verb else "")
