"""The table of events on the page is the list in the code."""

from __future__ import annotations

import re

from placet.service.outbox_events import EVENT_TYPES
from tests.docs.pages import DOCS


def test_the_page_lists_every_event_with_its_meaning() -> None:
    text = (DOCS / "webhooks.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \|", text, flags=re.MULTILINE)

    assert dict(rows) == EVENT_TYPES
