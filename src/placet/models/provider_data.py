"""What only one API understands, kept in an item under one key.

Items of a log have the shape of the Responses API. What another API says beyond it (a thinking block's signature, a
field that is newer than Placet) stands under `provider_data`, with the name of the API beside it: so nothing is lost
through a pause, it goes back to the API that it came from, and every other one leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping

from placet.facts.codec import JsonObject

KEY = "provider_data"


def with_provider_data(item: JsonObject, api: str, data: Mapping[str, object]) -> JsonObject:
    """The item, with what only this API understands. Without any such data it stays as it is."""
    return {**item, KEY: {"api": api, **data}} if data else item


def with_more_provider_data(item: JsonObject, api: str, data: Mapping[str, object]) -> JsonObject:
    """The item, with this beside what it has of this API already."""
    return with_provider_data(item, api, {**provider_data_of(item, api), **data})


def provider_data_of(item: Mapping[str, object], api: str) -> JsonObject:
    """What this API said of the item beyond its common shape: nothing, if another API made it."""
    data = item.get(KEY)
    return data if isinstance(data, dict) and data.get("api") == api else {}
