"""Whether a person cancelled a run: its log knows, and is asked only where the answer can be yes."""

from __future__ import annotations

from placet.core.index import RunRecord
from placet.facts.events import CancelAsked
from placet.ports import DeskStore
from placet.runtime.journal import load_recent


async def cancel_of(store: DeskStore, run: RunRecord) -> CancelAsked | None:
    """Who asked that the run end, when and why; None too where that was erased."""
    if run.erased_at is not None or (run.status == "ended" and run.final_output is not None):
        return None
    found = await load_recent(store, run.id)
    return None if found is None else found[2].cancel_asked


async def cancel_in_list(store: DeskStore, row: RunRecord) -> CancelAsked | None:
    """The same for a row of a list, without reading the logs of all that wait: what was asked is news until a driver
    takes it in."""
    is_quiet = row.status != "ended" and not row.is_driven and not row.has_news
    return None if is_quiet else await cancel_of(store, row)
