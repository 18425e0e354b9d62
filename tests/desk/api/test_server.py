"""The server itself: it starts, refuses strangers, and ends."""

from __future__ import annotations

from pathlib import Path

from tests.support.desk_server import in_thread, running_desk


async def test_an_address_that_is_not_there_is_a_problem_in_the_one_shape(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as server:
        ana = await server.person("ana")
        answer = await ana.get("/v1/nothing")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"
    assert answer.json()["instance"] == "/v1/nothing"


def test_a_desk_in_a_thread_has_runs_that_wait(tmp_path: Path) -> None:
    with in_thread(tmp_path) as server:
        run = server.do(server.running.waiting_run())

        assert run.status == "waiting"
