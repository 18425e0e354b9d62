"""Lists of the desk: whole by default, in pages on demand, on every store."""

from __future__ import annotations

import asyncio

import pytest

from placet.desk import Desk, listing
from tests.desk.scenes import PATIENCE, Witness, refunds, support

MANY = 75


@pytest.mark.promise("P16")
async def test_the_loop_of_the_docs_ends_on_a_run_with_many_waiting_calls(
    any_url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 20)  # several pages make one list
    async with Desk(any_url, agents=[support(witness, refunds(*range(MANY)))]) as desk:
        run = await desk.start("Support", "Refund them all", by="web-form")
        run = await desk.wait(run.id, until="paused", timeout=PATIENCE)
        asked = await desk.pending(run_id=run.id)
        assert len(asked) == MANY
        for request in asked:
            await desk.decide(request.id, "approve", by="ops-lead")
        run = await desk.wait(run.id, until="ended", timeout=PATIENCE)

    assert run.status == "ended"
    assert sorted(witness.lines()) == sorted(f"refund {order}" for order in range(MANY))


async def test_all_is_listed_unless_so_many_are_asked_for_and_a_cursor_leads_on(
    any_url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 20)
    async with Desk(any_url, agents=[support(witness)], run=False) as desk:
        started = [(await desk.start("Support", "Refund")).id for _ in range(60)]
        whole = await desk.runs()
        pages = [await desk.runs(limit=25)]
        while pages[-1].cursor is not None:
            pages.append(await desk.runs(limit=25, cursor=pages[-1].cursor))

    assert ([run.id for run in whole.rows], whole.cursor) == (started[::-1], None)
    assert [len(page.rows) for page in pages] == [25, 25, 10]
    assert [run.id for page in pages for run in page.rows] == started[::-1]


@pytest.mark.promise("P16")
async def test_a_list_is_whole_although_it_is_decided_upon_while_it_is_walked(any_url: str, witness: Witness) -> None:
    async with Desk(any_url, agents=[support(witness, refunds(*range(MANY)))]) as desk:
        run = await desk.start("Support", "Refund them all")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = await desk.requests(run_id=run.id, limit=10, cursor=cursor)
            seen += [request.id for request in page.rows]
            await asyncio.gather(*(desk.decide(request.id, "reject", by="ana") for request in page.rows))
            cursor = page.cursor
            if cursor is None:
                break
        left = await desk.pending()

    assert (len(seen), len(set(seen)), left) == (MANY, MANY, [])
