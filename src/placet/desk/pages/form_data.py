"""What a browser asks for: the filters that stay in the address, and the fields of a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request

from placet.core.index import RequestStatus
from placet.desk.web.guards import form_fields

STATUSES: tuple[str, ...] = get_args(RequestStatus)
MAX_WORDS = 300
"""Characters of a search."""
SORTS = {"": "oldest first", "newest": "newest first", "deadline": "deadline first", "risk": "most care first"}


@dataclass(frozen=True, slots=True)
class Filters:
    """Which requests are listed."""

    status: str = "pending"
    agent: str = ""
    tool: str = ""
    run: str = ""
    view: str = ""
    """`each`: every request has a line of its own; else what is alike stands together."""
    words: str = ""
    """What they are searched by: what is found has lines of its own."""
    sort: str = ""
    """One of `SORTS`; empty: oldest first."""

    @property
    def is_grouped(self) -> bool:
        return self.status == "pending" and self.view != "each" and not self.words

    @property
    def sorts(self) -> list[tuple[str, str]]:
        """The orders that this list can have: who decided about has neither a deadline nor a risk any more."""
        return [(name, SORTS[name]) for name in SORTS if self.status == "pending" or name in ("", "newest")]

    @property
    def other_view(self) -> dict[str, str]:
        """The same filters, in the other view."""
        return replace(self, view="" if self.view else "each").query

    @property
    def query(self) -> dict[str, str]:
        """What stands in the address; what is the default does not."""
        found = {"status": "" if self.status == "pending" else self.status, "agent": self.agent}
        rest = {"tool": self.tool, "run": self.run, "view": self.view, "q": self.words, "sort": self.sort}
        return {key: each for key, each in {**found, **rest}.items() if each}

    @property
    def text(self) -> str:
        return urlencode(self.query)

    @property
    def is_set(self) -> bool:
        """Whether it shows less than all that waits."""
        return bool(replace(self, view="", sort="").query)


def filters_of(given: Mapping[str, str]) -> Filters:
    status = given.get("status") or "pending"
    known = status if status in STATUSES or status == "all" else "pending"
    view = "each" if given.get("view") == "each" else ""
    words, sort = " ".join(given.get("q", "").split())[:MAX_WORDS], given.get("sort", "")
    found = Filters(known, given.get("agent", ""), given.get("tool", ""), given.get("run", ""), view, words)
    return replace(found, sort=sort) if sort in dict(found.sorts) else found


def filters_of_text(text: str) -> Filters:
    """Filters that a form carried along."""
    return filters_of(dict(parse_qsl(text)))


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, each with one or several texts."""

    pairs: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str, /) -> str | None:
        return next((text for key, text in self.pairs if key == name), None)

    def getlist(self, name: str, /) -> list[str]:
        return [text for key, text in self.pairs if key == name]

    def text(self, name: str) -> str:
        """A field without the spaces around it; empty when it is missing."""
        return (self.get(name) or "").replace("\r\n", "\n").strip()


async def form_of(request: Request) -> Form:
    return Form(form_fields(await request.body()))
