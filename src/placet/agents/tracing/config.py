"""Settings of a trace."""

from __future__ import annotations

from typing import TypedDict


class TracingConfig(TypedDict, total=False):
    """How a run is traced."""

    api_key: str
    include_task_and_turn_spans: bool


def include_task_and_turn_spans(config: TracingConfig | None) -> bool:
    return bool((config or {}).get("include_task_and_turn_spans", True))
