"""An agent whose tool takes its worker down, for as long as a file is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from placet import Agent, function_tool
from placet.testing import function_call
from tests.desk.scenes import Planned


@function_tool(recovery="retry")
def swallow() -> str:
    if Path(os.environ["PLACET_POISON"]).exists():
        os._exit(9)
    return "harmless"


agents: list[Agent[Any]] = [
    Agent("Poison", tools=[swallow], model=Planned([function_call("swallow", {}, call_id="c")])),
]
