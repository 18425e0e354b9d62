"""Pages of what a desk knows whole: users, tokens, grants, holds. Runs and questions come in pages of the store."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from placet.desk.web.problems import FieldProblem, Problem

V = TypeVar("V")


def page_after(
    rows: Sequence[V], key: Callable[[V], str], cursor: str | None, limit: int
) -> tuple[list[V], str | None]:
    """At most `limit` rows in the order of their keys, and the cursor of the next ones.

    The cursor is the last row's key: a row that is gone by then, or that has come, moves no other.
    """
    after = None if cursor is None else _key_in(cursor)
    left = [row for row in sorted(rows, key=key) if after is None or key(row) > after]
    chosen = left[:limit]
    return chosen, _cursor_of(key(chosen[-1])) if len(left) > limit else None


def in_time(at: float, name: str) -> str:
    """A key that orders by time."""
    return f"{at:018.6f} {name}"


def _cursor_of(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def _key_in(cursor: str) -> str:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        message = "This is not a cursor of this list: pass the `next` that came with a page."
        raise Problem(422, "user_error", message, errors=[FieldProblem(field="cursor", message=message)]) from None
