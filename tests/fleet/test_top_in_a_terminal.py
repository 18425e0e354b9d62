"""`placet top` in a real terminal: it fills the screen, looks again, and leaves everything as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.running import at_a_terminal
from tests.desk.scenes import Witness, support
from tests.fleet.scenes import PATIENCE, desk, worker
from tests.support.postgres import PostgresServer

INTO, OUT_OF = "\033[?1049h", "\033[?1049l"


def watch(url: str, folder: Path, key: bytes) -> tuple[int, str]:
    with at_a_terminal("top", "--every", "0.2", "--store", url, cwd=folder, width=110) as person:
        person.expect("1 waiting for people")
        person.expect("drives/s")
        person.expect("drives/s")
        person.press(key)
        return person.end(), person.raw


@pytest.mark.parametrize(("key", "code"), [(b"q", 0), (b"\x03", 130)])
async def test_it_looks_again_and_again_until_a_key_ends_it(
    postgres: PostgresServer, tmp_path: Path, witness: Witness, key: bytes, code: int
) -> None:
    url, one = postgres.fleet_database(), support(witness)
    async with desk(url, one) as made, worker(url, one, name="night-1"):
        run = await made.start("Support", "x")
        await made.wait(run.id, until="paused", timeout=PATIENCE)
        found, raw = await asyncio.to_thread(watch, url, tmp_path, key)

    assert found == code
    assert "night-1" in raw
    assert raw.index(INTO) < raw.index(OUT_OF)
    assert raw.rindex("\033[?25h") > raw.rindex("\033[?25l"), "the cursor is back"
