"""A process that says one thing on a session that others share: `talker.py FOLDER NAME ON_PENDING`.

Its model says that it was asked (a file), and answers when it may (another file).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from placet import Agent, PlacetError, RunConfig, Runner, SQLiteSession
from placet.facts.items import ModelResponse
from placet.ports import ModelRequest, StreamPart
from placet.stores.opening import open_store
from placet.testing import assistant_message

PATIENCE = 90.0


class Patient:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        (self._folder / f"{self._name}.asked").write_text(str(len(request.input)))
        give_up = time.monotonic() + PATIENCE
        while not (self._folder / f"{self._name}.may").exists():
            assert time.monotonic() < give_up, "nobody let the model answer"
            await asyncio.sleep(0.02)
        return ModelResponse(output=[assistant_message(f"to {self._name}")])

    def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        raise NotImplementedError


async def main(folder: Path, name: str, on_pending: str) -> None:
    agent = Agent(name="Talker", model=Patient(folder, name))
    store, session = open_store(f"sqlite:///{folder / 'runs.db'}"), SQLiteSession("chat", folder / "chats.db")
    config = RunConfig(on_pending=on_pending)  # type: ignore[arg-type]
    try:
        result = await Runner.run(agent, f"from {name}", session=session, store=store, run_config=config)
        said: object = {"output": result.final_output}
    except PlacetError as error:
        said = {"code": error.code, "message": error.message}
    finally:
        await store.close()
        session.close()
    (folder / f"{name}.said").write_text(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
