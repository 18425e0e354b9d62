"""What was sent and cannot be taken: said in words that name what would have been right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.desk.api.scenes import at, decide, problem, two_refunds
from tests.support.desk_server import RunningDesk


@pytest.mark.parametrize(
    ("path", "body", "field", "allowed"),
    [
        ("/v1/holds", {"kind": "shop", "name": "x"}, "kind", "agent, run, tool"),
        ("/v1/users", {"name": "x", "role": "boss"}, "role", "admin, guest, reviewer, viewer"),
        ("/v1/grants", {"agent": "a", "tool": "b", "decision": "maybe"}, "decision", "approve, reject"),
        (
            "/v1/decisions",
            {"decisions": [{"id": "x", "decision": "aprove"}]},
            "decisions[0].decision",
            "approve, edit, reject, respond",
        ),
        (
            "/v1/decisions",
            {"decisions": [{"id": "x", "decision": "approve", "always": {"scope": "all"}}]},
            "decisions[0].always.scope",
            "agent, run",
        ),
    ],
)
async def test_a_word_that_is_none_of_the_allowed_ones_is_told_which_those_are(
    server: RunningDesk, path: str, body: Any, field: str, allowed: str
) -> None:
    root = await server.person("root", "admin")

    found = problem(await root.post(path, json=body), 422, "invalid_request")

    (wrong,) = found["errors"]
    assert wrong["field"] == field
    assert wrong["message"].endswith(f"it is one of {allowed}")
    assert allowed in found["detail"]


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("/v1/runs?status=done", "ended, running, stopped, waiting"),
        ("/v1/approvals?status=open", "all, answered, approved"),
    ],
)
async def test_a_filter_that_is_none_of_the_allowed_words_is_told_which_those_are(
    server: RunningDesk, address: str, allowed: str
) -> None:
    ana = await server.person("ana")

    found = problem(await ana.get(address), 422, "invalid_request")

    assert allowed in found["errors"][0]["message"]


@pytest.mark.parametrize("until", ["tomorrow", "2030-01-01T00:00:00"])
async def test_a_moment_that_is_none_is_shown_how_to_write_one(server: RunningDesk, until: str) -> None:
    ana = await server.person("ana")
    given = {"agent": "Support", "tool": "refund", "decision": "approve", "until": until}

    found = problem(await ana.post("/v1/grants", json=given), 422, "invalid_request")

    assert found["errors"][0]["field"] == "until"
    assert "2030-01-31T18:00:00Z" in found["errors"][0]["message"]


async def test_nothing_is_an_answer_too_and_no_answer_is_none(server: RunningDesk) -> None:
    ana = await server.person("ana")
    run_id, (first, second) = await two_refunds(server)

    missing = await decide(ana, first.id, "respond")
    given = await decide(ana, first.id, "respond", output=None)
    approved = await decide(ana, second.id, "approve", output=None)

    assert "output" in problem(missing, 422, "user_error")["detail"]
    assert given.json()["status"] == "answered"
    assert (await ana.get(at(first.id))).json()["decision"]["output"] == "null"
    assert problem(approved, 422, "user_error")["errors"] == [{"field": "output", "message": "belongs to respond"}]
    assert run_id


async def test_a_token_with_a_higher_role_than_its_owners_is_refused_in_words(server: RunningDesk) -> None:
    root = await server.person("root", "admin")
    await server.person("ana")

    found = await root.post("/v1/tokens", json={"name": "x", "owner": "ana", "role": "admin"})
    lower = await root.post("/v1/tokens", json={"name": "y", "owner": "ana", "role": "viewer"})

    words = problem(found, 422, "user_error")["detail"]
    assert "ana is a reviewer" in words
    assert "give ana that role first" in words
    assert lower.json()["role"] == "viewer"
    assert [token.name for token in await server.web.accounts.tokens("ana")] == ["tests", "y"]


async def test_users_without_an_admin_among_them_are_noticed_and_the_next_step_is_named(server: RunningDesk) -> None:
    root = await server.person("root", "admin")
    with_admin = (await root.post("/v1/users", json={"name": "ben", "role": "viewer"})).json()
    for name in ("root", "ben"):
        await server.web.desk.store.take_record("user", name)
    assert not await server.web.accounts.lacks_an_admin()

    await server.web.accounts.add_user("eva", "viewer")

    assert with_admin["warnings"] == []
    assert await server.web.accounts.lacks_an_admin()
