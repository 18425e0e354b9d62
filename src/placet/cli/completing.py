"""Arguments that are ids: what the shell offers while one is typed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import click
from click import ClickException
from click.shell_completion import CompletionItem

from placet import PlacetError
from placet.cli.client import Client, all_pages, client_of
from placet.cli.naming import approved_requests, short_name
from placet.cli.options import Place
from placet.cli.output import shown
from placet.cli.picture import argument_text
from placet.facts.codec import JsonObject

MOST = 50
"""Names that are worth offering."""
LONGEST = 60


class Id(click.ParamType[str]):
    """An id. Subclasses say which ones could be meant."""

    name = "id"

    def offered(self, client: Client) -> Iterator[tuple[str, str]]:
        """Ids, each with what it stands for."""
        raise NotImplementedError

    def shell_complete(self, ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """None where nothing can be asked: the person who types is not disturbed."""
        given = [ctx.params.get(name) for name in ("desk", "store", "token_file")]
        try:
            with client_of(Place.chosen(*given)) as client:
                found = list(self.offered(client))
        except (ClickException, PlacetError, OSError):
            return []
        return [CompletionItem(name, help=about[:LONGEST]) for name, about in found if name.startswith(incomplete)]


class RunId(Id):
    def offered(self, client: Client) -> Iterator[tuple[str, str]]:
        for found in all_pages(client, "/v1/runs", {}, MOST):
            yield str(found["id"]), shown(f"{found['agent']} ({found['status']})")


class WaitingRequest(Id):
    def offered(self, client: Client) -> Iterator[tuple[str, str]]:
        for row in all_pages(client, "/v1/approvals", {"status": "pending"}, MOST):
            yield _offer(row)


class ApprovedRequest(Id):
    def offered(self, client: Client) -> Iterator[tuple[str, str]]:
        for row in islice(approved_requests(client), MOST):
            yield _offer(row)


class RequestOrRun(Id):
    def offered(self, client: Client) -> Iterator[tuple[str, str]]:
        yield from WaitingRequest().offered(client)
        yield from RunId().offered(client)


def _offer(row: JsonObject) -> tuple[str, str]:
    return short_name(row), f"{shown(str(row['tool']))} {argument_text(row['arguments'])}"
