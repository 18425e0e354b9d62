"""Lists of the API: pages with a `next` that leads on whatever happens in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet.ports import StoredRecord
from tests.support.desk_server import running_desk


async def walk(client: httpx2.AsyncClient, path: str, limit: int) -> list[list[Any]]:
    pages, cursor = list[list[Any]](), None
    while True:
        query: dict[str, Any] = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
        answer = await client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["data"])
        cursor = answer.json()["next"]
        if cursor is None:
            return pages


async def test_users_tokens_grants_and_holds_come_in_pages(tmp_path: Path) -> None:
    async with running_desk(tmp_path, run=False) as server:
        admin = await server.person("ana", "admin")
        for number in range(4):
            await server.web.accounts.add_user(f"user-{number}", "viewer")
            await server.web.accounts.add_token("ana", f"token-{number}")
            await server.desk.grant("Support", "refund", "approve", by="ana", arguments={"cents": number + 1})
            await server.desk.hold("agent", f"Ö/{number}", by="ana")

        users, tokens = await walk(admin, "/v1/users", 2), await walk(admin, "/v1/tokens", 2)
        grants, holds = await walk(admin, "/v1/grants", 3), await walk(admin, "/v1/holds", 3)

    assert [len(page) for page in users] == [2, 2, 1]
    assert [user["name"] for page in users for user in page] == ["ana", *(f"user-{n}" for n in range(4))]
    assert [token["name"] for page in tokens for token in page] == ["tests", *(f"token-{n}" for n in range(4))]
    assert [grant["arguments"] for page in grants for grant in page] == [{"cents": n + 1} for n in range(4)]
    assert [hold["name"] for page in holds for hold in page] == [f"Ö/{n}" for n in range(4)]


async def test_a_row_that_goes_between_two_pages_hides_no_other(tmp_path: Path) -> None:
    async with running_desk(tmp_path, run=False) as server:
        admin = await server.person("ana", "admin")
        for number in range(4):
            await server.web.accounts.add_user(f"user-{number}", "viewer")
        first = (await admin.get("/v1/users", params={"limit": 2})).json()
        await admin.delete(f"/v1/users/{first['data'][-1]['name']}")
        rest = (await admin.get("/v1/users", params={"cursor": first["next"]})).json()

    assert [user["name"] for user in rest["data"]] == ["user-1", "user-2", "user-3"]


@pytest.mark.parametrize("cursor", ["after-1", "!", "\x00", "%ff", "äöü", "a" * 9])
async def test_a_cursor_that_is_none_is_refused_in_words(cursor: str, tmp_path: Path) -> None:
    async with running_desk(tmp_path, run=False) as server:
        admin = await server.person("ana", "admin")
        answer = await admin.get("/v1/users", params={"cursor": cursor})

    assert answer.status_code == 422
    assert "cursor" in answer.text


async def test_more_tokens_than_a_page_of_the_store_are_all_listed_and_counted(tmp_path: Path) -> None:
    async with running_desk(tmp_path, run=False) as server:
        await server.web.accounts.add_user("ana", "admin")
        await server.web.accounts.add_token("ana", "tests")
        (one,) = await server.desk.store.records("token")
        for number in range(1004):  # of many users, none of whom has more than they may
            copy = StoredRecord(kind="token", id=f"t{number:04}", owner=f"user-{number}", data=one.data)
            await server.desk.store.add_record(copy)

        found = await server.web.accounts.tokens()

    assert len(found) == 1005


async def test_stopped_runs_have_a_filter_and_a_status_of_their_own(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as server:
        viewer = await server.person("vera", "viewer")
        run = await server.desk.start("Support", "too many turns", max_turns=1)
        for request in (await server.desk.wait(run.id, until="paused")) and await server.desk.pending():
            await server.desk.decide(request.id, "approve")
        stopped = await server.desk.wait(run.id, until="paused", timeout=120)
        listed = (await viewer.get("/v1/runs", params={"status": "stopped"})).json()["data"]
        running = (await viewer.get("/v1/runs", params={"status": "running"})).json()["data"]
        numbers = (await viewer.get("/v1/numbers")).json()
        metrics = (await viewer.get("/metrics")).text

    assert stopped.status == "stopped"
    assert [(each["id"], each["status"]) for each in listed] == [(run.id, "stopped")]
    assert running == []
    assert (numbers["store"]["stopped"], numbers["store"]["running"]) == (1, 0)
    assert "placet_runs_stopped 1.0" in metrics.splitlines()
