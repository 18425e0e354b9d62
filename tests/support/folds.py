"""Looking at folds: when are two of them the same?"""

from __future__ import annotations

import dataclasses
from typing import Any

from placet import RunState
from placet.core.log import read_lines
from placet.core.state import Call, RunFold
from placet.facts.events import AnyFact


def shape(value: Any) -> Any:
    """All that is in a fold, as plain values: two folds with one shape are the same."""
    if isinstance(value, RunFold):
        named = {field.name: shape(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return named | {"children": {}} if not value.open_calls else named  # of a turn that is over, they are over too
    if isinstance(value, Call):
        return {name: shape(getattr(value, name)) for name in Call.__slots__}
    if type(value).__name__ == "Ledger":
        return shape([*value.contents(), value._by_label, value._open])
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shape(each) for each in value]
    return value


def facts_of(state: RunState[Any]) -> list[AnyFact]:
    return [fact for record in read_lines(state._log.lines) for fact in record.facts]
