"""Looking at folds: when are two of them the same?"""

from __future__ import annotations

from typing import Any

import msgspec

from placet import RunState
from placet.core.log import read_lines
from placet.core.state import RunFold
from placet.facts.events import AnyFact


def comparable(run: RunFold) -> RunFold:
    """The fold as it can be compared: of a turn that is over, the nested runs are over too."""
    return run if run.open_calls else msgspec.structs.replace(run, children={})


def facts_of(state: RunState[Any]) -> list[AnyFact]:
    return [fact for record in read_lines(state._log.lines) for fact in record.facts]
