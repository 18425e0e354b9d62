"""The page of a run tells what its log says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.desk.pages.test_deciding_pages import browser
from tests.support.desk_server import PATIENCE, running_desk


async def test_the_result_on_the_page_is_that_of_the_log_and_not_what_is_listed_beside_it(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as desk:
        run = await desk.waiting_run()
        for request in await desk.desk.pending():
            await desk.desk.decide(request.id, "approve", by="ana")
        await desk.desk.wait(run.id, timeout=PATIENCE)
        with closing(sqlite3.connect(tmp_path / "placet.db")) as db, db:
            db.execute("UPDATE placet_runs SET final_output = '\"Nothing was paid.\"'")
        ana = await browser(desk)

        page = (await ana.get(f"/runs/{run.id}")).text

    assert "Both orders are settled." in page
    assert "Nothing was paid." not in page
