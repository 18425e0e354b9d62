"""A run at a desk whose model's server has forgotten it: a person has it go on with its own history, by every door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from placet import Runner, UserError
from placet.core.log import read_lines
from placet.desk import Desk, DeskRun
from placet.facts.events import OwnHistoryChosen
from placet.models import OpenAIResponsesModel
from placet.stores.opening import open_store
from placet.testing import function_call
from placet.testing.provider import FakeProvider
from tests.cli.running import placet
from tests.desk.api.scenes import problem
from tests.desk.scenes import PATIENCE
from tests.models.runs.scenes import DONE, THREE_CALLS, Shop, shop
from tests.support.desk_server import running_desk

LOOK = [function_call("look_up", {"order": "1"}, call_id="l1")]
OUTPUTS = ["order 1: 4200 cents", "order 7 is refunded", "order 8: 4200 cents", "order 9 is refunded"]


class Forgotten:
    """A shop with a run that waits, and a provider that has forgotten it."""

    def __init__(self) -> None:
        self.provider = FakeProvider([LOOK, THREE_CALLS, DONE])
        self.shop: Shop = shop(OpenAIResponsesModel("gpt-test", self.provider.openai_client()))

    async def begin(self, url: str) -> str:
        async with open_store(url) as store:
            paused = await Runner.run(self.shop.agent, "Go.", auto_previous_response_id=True, store=store)
        self.provider.delete_response(str(paused.last_response_id))
        return paused.to_state().run_id

    @property
    def last_outputs(self) -> list[Any]:
        return [item["output"] for item in self.provider.model_requests[-1].input if "output" in item]


async def stopped(desk: Desk, run_id: str) -> DeskRun:
    """Everything is approved, and the error has stopped the run."""
    for request in await desk.pending(run_id=run_id):
        await desk.decide(request.id, "approve", by="ana")
    return await desk.wait(run_id, until="paused", timeout=PATIENCE)


async def who_chose(desk: Desk, run_id: str) -> list[str | None]:
    stored = await desk.store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    facts = [fact for record in read_lines(stored.log.lines) for fact in record.facts]
    return [fact.by for fact in facts if isinstance(fact, OwnHistoryChosen)]


@pytest.mark.promise("P1")
@pytest.mark.promise("P15")
async def test_a_stopped_run_is_resumed_with_its_own_history(any_url: str) -> None:
    here = Forgotten()
    run_id = await here.begin(any_url)
    async with Desk(any_url, agents=[here.shop.agent]) as desk:
        with pytest.raises(UserError, match="not stopped by an error"):
            await desk.resume(run_id, by="ana", own_history=True)
        with pytest.raises(UserError, match="own_history"):
            await desk.resume(run_id, by="ana", own_history="yes")  # type: ignore[arg-type]
        first = await stopped(desk, run_id)
        await desk.resume(run_id, by="ana")
        again = await desk.wait(run_id, until="paused", timeout=PATIENCE)
        await desk.resume(run_id, by="ana", own_history=True)
        ended = await desk.wait(run_id, timeout=PATIENCE)
        await desk.resume(run_id, by="ana", own_history=True)  # what has ended is left alone
        chosen = await who_chose(desk, run_id)

    assert first.stopped is not None
    assert first.stopped.startswith("server_history_not_found: OpenAI answered 400")
    assert (first.status, again.status) == ("stopped", "stopped")
    assert first.lost_its_server
    assert ended.final_output == "It is done."
    assert chosen == ["ana"]
    assert here.last_outputs == OUTPUTS
    assert sorted(here.shop.effects) == ["look_up 1", "look_up 8", "refund 7", "refund 9"]
    assert len(here.provider.refusals) == 2


async def test_two_who_choose_at_once_choose_once(any_url: str) -> None:
    here = Forgotten()
    run_id = await here.begin(any_url)
    async with Desk(any_url, agents=[here.shop.agent]) as desk, Desk(any_url, run=False) as other:
        await stopped(desk, run_id)
        await asyncio.gather(
            desk.resume(run_id, by="ana", own_history=True),
            other.resume(run_id, by="ben", own_history=True),
        )
        ended = await desk.wait(run_id, timeout=PATIENCE)
        chosen = await who_chose(desk, run_id)

    assert ended.final_output == "It is done."
    assert len(chosen) == 1
    assert here.last_outputs == OUTPUTS


# -- over HTTP, on the page, on the command line ----------------------------------------------------------------------


@asynccontextmanager
async def serving(folder: Path, **options: Any) -> AsyncIterator[tuple[Any, Forgotten, str]]:
    url = f"sqlite:///{folder / 'placet.db'}"
    here = Forgotten()
    run_id = await here.begin(url)
    async with running_desk(folder, url=url, agents=[here.shop.agent], **options) as server:
        await stopped(server.desk, run_id)
        yield server, here, run_id


async def test_the_api_takes_the_choice(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, here, run_id):
        ana = await server.person("ana")
        guest = await server.person("guest", "viewer")
        refused = await guest.post(f"/v1/runs/{run_id}/resume", json={"own_history": True})
        odd = await ana.post(f"/v1/runs/{run_id}/resume", json={"own_history": "yes"})
        taken = await ana.post(f"/v1/runs/{run_id}/resume", json={"own_history": True})
        ended = await server.desk.wait(run_id, timeout=PATIENCE)
        log = (await ana.get(f"/v1/runs/{run_id}/log")).json()
        chosen = await who_chose(server.desk, run_id)

    problem(refused, 403, "access_denied")
    assert odd.status_code == 422
    assert taken.status_code == 200
    assert ended.final_output == "It is done."
    assert chosen == ["ana"]
    assert "own_history_chosen" in [fact["kind"] for line in log["data"] for fact in line["facts"]]
    assert here.last_outputs == OUTPUTS


async def test_the_page_of_a_stopped_run_offers_the_choice(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, here, run_id):
        await server.person("ana", can_log_in=True)
        name, value = await server.session("ana")
        browser = server.client(cookies={name: value})
        page = (await browser.get(f"/runs/{run_id}")).text
        token = page.split('name="csrf_token" value="')[1].split('"')[0]
        form = {"csrf_token": token, "own_history": "yes"}
        answer = await browser.post(f"/runs/{run_id}/resume", data=form, headers={"Origin": server.url})
        ended = await server.desk.wait(run_id, timeout=PATIENCE)
        after = (await browser.get(f"/runs/{run_id}")).text

    assert "Go on with its own history" in page
    assert answer.status_code == 303, answer.text
    assert ended.final_output == "It is done."
    assert "Go on with its own history" not in after
    assert "own history" in after
    assert here.last_outputs == OUTPUTS


async def test_the_command_line_names_the_choice_and_takes_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, here, run_id):
        url = f"sqlite:///{tmp_path / 'placet.db'}"
        told = await asyncio.to_thread(placet, "show", run_id, "--store", url, cwd=tmp_path)
        asked = await asyncio.to_thread(placet, "runs", "resume", run_id, "--own-history", "--store", url, cwd=tmp_path)
        ended = await server.desk.wait(run_id, timeout=PATIENCE)
        after = await asyncio.to_thread(placet, "show", run_id, "--store", url, cwd=tmp_path)

    assert "resume --own-history»" in " ".join(told.stdout.split()), told.stdout
    assert asked.returncode == 0, asked.stderr
    assert ended.final_output == "It is done."
    assert "own history" in after.stdout
    assert here.last_outputs == OUTPUTS
