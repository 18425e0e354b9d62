"""Short forms of ids: which run or request somebody means who typed only a part of its id.

`find_id` is the one place that says so, for the library, the desk's pages, its API and the command line. A short form
is for looking only. What it means can change while somebody thinks, because a new question may come that it fits, too:
whoever decides names the whole id, or the digest of what was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from placet.facts.errors import NotPending
from placet.facts.ids import key_of_request

_KIND = re.compile(r"^[a-z]+[_-]")
LISTED = 8
"""Candidates that an error names."""


def matching(typed: str, ids: Iterable[str]) -> list[str]:
    """The ids that may be meant: the one whose whole id this is, or all that begin or end so."""
    found = [each for each in ids if is_part(typed, each)]
    return [each for each in found if typed in (each, key_of_request(each))] or found


def find_id(typed: str, ids: Iterable[str], what: str = "request") -> str:
    """The one of these ids that is meant. NotPending where there is none, or where there are several: it lists them,
    and has them as `.pending`."""
    found = matching(typed, ids)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotPending(f"There is no {what} {typed[:120]!r} here.")
    listed = "".join(f"\n  {each}" for each in found[:LISTED])
    more = f"\n  and {len(found) - LISTED} more" if len(found) > LISTED else ""
    raise NotPending(f"{typed!r} fits {len(found)} {what}s: write more of it.{listed}{more}", found)


def is_part(typed: str, public: str) -> bool:
    """Whether this is a beginning (with its kind, `run_`, or without) or an end of the id, in today's form or in the
    first.

    Nothing fits an empty text, or a kind alone: it is what a script writes whose variable is not set.
    """
    if not typed or _KIND.fullmatch(typed):
        return False
    forms = (public, _KIND.sub("", public, count=1), key_of_request(public))
    return any(form.startswith(typed) or form.endswith(typed) for form in forms)
