"""What the statements of the PostgreSQL store are given."""

from __future__ import annotations

from typing import Any, assert_never

from placet.core.index import Closed, Escalated, Opened, Reopened, RequestChange
from placet.facts.codec import encode
from placet.facts.events import GrantMade, GrantRevoked
from placet.stores.postgres_connections import TEXTS
from placet.stores.rows import closing_text, text_of
from placet.stores.writing import Append


def parameters(append: Append) -> dict[str, Any]:  # Any: parameters of a statement
    return {
        "run_id": append.run_id,
        "epoch": append.epoch,
        "position": append.position,
        "key": append.key,
        "head": append.head,
        "texts": list(append.texts),
        "checksums": list(append.checksums),
        "at": append.at,
        "agent": searchable(append.agent),
        "status": append.status,
        "turn": append.turn,
        "session": searchable(append.session) if append.session is not None else None,
        "holds_session": append.holds_session,
        "final_output": append.final_output,
        "stopped": searchable(append.stopped) if append.stopped is not None else None,
        "started_by": searchable(append.started_by) if append.started_by is not None else None,
        "wake_at": append.wake_at,
        "has_work": append.has_work,
        "changes": _json([_change(change) for change in append.changes]),
        "grants": _json([_grant(fact) for fact in append.grants]),
    }


def _json(objects: list[dict[str, object]]) -> str | None:
    return encode(objects).decode() if objects else None


def _change(change: RequestChange) -> dict[str, object]:
    match change:
        case Opened(row):
            return {
                "op": "open",
                "call": row.call,
                "status": "closed",
                "closing": closing_text(Closed(row.call, "closed")),
                "id": row.id,
                "number": row.number,
                "agent": searchable(row.agent),
                "tool": searchable(row.tool),
                "data": text_of(row),
            }
        case Closed():
            return {"op": "close", "call": change.call, "status": change.status, "closing": closing_text(change)}
        case Reopened(call):
            return {"op": "reopen", "call": call}
        case Escalated():
            return {"op": "escalate", "call": change.call, "at": change.at}
        case never:
            assert_never(never)


def _grant(fact: GrantMade | GrantRevoked) -> dict[str, object]:
    if isinstance(fact, GrantMade):
        return {"op": "made", "id": fact.id, "agent": searchable(fact.agent), "data": text_of(fact)}
    return {"op": "revoked", "id": fact.id}


def searchable(value: str) -> str:
    """As PostgreSQL can hold it, for columns that are searched: what is shown comes out of JSON, which can hold all."""
    return value.replace("\0", "\N{SYMBOL FOR NULL}")


def filtered(
    name: str,
    given: dict[str, Any],  # Any: parameters
    filters: dict[str, str | None],
    fixed: str = "",
) -> bytes:
    """The statement with those conditions that the query has; their values go into `given`. `fixed` has none."""
    wanted = {column: searchable(value) for column, value in filters.items() if value is not None}
    given.update(wanted)
    conditions = fixed + " ".join(f"AND {column} = %({column})s" for column in wanted)
    return TEXTS[name].format(filters=conditions).encode()
