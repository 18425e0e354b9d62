"""Ids and times as the SDK writes them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime


def time_iso(seconds: float | None = None) -> str:
    """A time (now, or seconds since 1970) in ISO 8601."""
    return (datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)).isoformat()


def gen_trace_id() -> str:
    return f"trace_{uuid.uuid4().hex}"


def gen_span_id() -> str:
    return f"span_{uuid.uuid4().hex[:24]}"


def gen_group_id() -> str:
    return f"group_{uuid.uuid4().hex[:24]}"
