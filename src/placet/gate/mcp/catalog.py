"""What the servers offer, under one roof: names that clash get the server's name before them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

SEPARATOR = "__"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a server, under the name by which the client knows it."""

    server: str
    name: str
    shown: str
    raw: dict[str, Any]
    """As its server described it. Any: whatever stands there."""

    def as_shown(self) -> dict[str, Any]:
        return self.raw if self.shown == self.name else {**self.raw, "name": self.shown}


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """All offers of one kind, by the names that the client knows."""

    by_name: Mapping[str, Offer]

    def of(self, server: str, name: str) -> Offer | None:
        for offer in self.by_name.values():
            if (offer.server, offer.name) == (server, name):
                return offer
        return None


def resources_of(listed: Mapping[str, Sequence[dict[str, Any]]], key: str) -> Catalog:
    """What is known by its address, which needs no other name."""
    found = {
        f"{server} {raw.get(key)}": Offer(server=server, name=str(raw.get(key)), shown=str(raw.get(key)), raw=raw)
        for server, offers in listed.items()
        for raw in offers
    }
    return Catalog(by_name=found)


def catalog_of(listed: Mapping[str, Sequence[dict[str, Any]]], reserved: Collection[str] = ()) -> Catalog:
    """One catalog of what each server listed. Of two alike of the same server the first counts."""
    own: dict[str, dict[str, dict[str, Any]]] = {}
    for server, offers in listed.items():
        names = own.setdefault(server, {})
        for raw in offers:
            names.setdefault(str(raw.get("name")), raw)
    shown = shown_names({server: list(names) for server, names in own.items()}, reserved)
    found = {
        shown[server, name]: Offer(server=server, name=name, shown=shown[server, name], raw=raw)
        for server, names in own.items()
        for name, raw in names.items()
    }
    return Catalog(by_name=found)


def shown_names(names: Mapping[str, Sequence[str]], reserved: Collection[str] = ()) -> dict[tuple[str, str], str]:
    """A name for each (server, name), the same whatever the order: all that clash get their server's name before it."""
    counted = Counter(name for each in names.values() for name in each)
    plain = {name for name, count in counted.items() if count == 1 and name not in reserved}
    shown: dict[tuple[str, str], str] = {}
    taken = set(reserved) | plain
    for server in sorted(names):
        for name in names[server]:
            if name in plain:
                shown[server, name] = name
                continue
            wanted = f"{_letters(server)}{SEPARATOR}{name}"
            while wanted in taken:
                wanted = f"{wanted}_"
            taken.add(wanted)
            shown[server, name] = wanted
    return shown


def _letters(server: str) -> str:
    """Models' services take only these in the name of a tool."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "_" for each in server)
