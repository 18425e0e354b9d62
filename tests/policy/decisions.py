"""Decisions of people, made up for tests."""

from __future__ import annotations

from typing import Any

from placet.core.policy import Subject
from placet.facts.codec import JsonObject
from placet.policy.backtest import Case, Said


def case(number: int, said: Said = "yes", tool: str = "refund", **more: Any) -> Case:
    """`more`: arguments of the call, and with a leading `_` what the case says."""
    fields = {name[1:]: value for name, value in more.items() if name.startswith("_")}
    arguments: JsonObject = {name: value for name, value in more.items() if not name.startswith("_")}
    subject = Subject(tool=tool, agent=fields.pop("agent", "Support"), arguments=arguments)
    given: dict[str, Any] = {"by": "ana", "at": 1000.0 + number, **fields}
    return Case(request_id=f"req{number}", run_id=f"run{number}", subject=subject, said=said, **given)
