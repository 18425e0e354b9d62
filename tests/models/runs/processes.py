"""Other processes in tests: a program of this folder with an order on its standard input."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


async def in_another_process(module: str, order: dict[str, Any]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(json.dumps(order).encode()), 120)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found
