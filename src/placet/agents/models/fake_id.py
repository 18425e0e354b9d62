"""The id of responses that have none."""

from __future__ import annotations

FAKE_RESPONSES_ID = "__fake_id__"

__all__ = ["FAKE_RESPONSES_ID"]
