"""Raw items that can be read both ways: `item["name"]`, as the plain dicts that they are, and `item.name`, as the
objects of the `openai` package that others keep in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RawItem(dict[str, Any]):
    """A plain dict whose keys are attributes as well. What is inside of it is wrapped when it is looked at."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return readable(self[name])
        except KeyError:
            raise AttributeError(f"this item has no field {name!r}; it has {', '.join(self)}") from None

    def model_dump(self, **_options: object) -> dict[str, Any]:
        """The item as a plain dict: the spelling of the `openai` package's objects."""
        return dict(self)


def readable(value: Any) -> Any:  # Any: whatever a provider put into an item
    """A value of an item, with what is a dict in it readable as an object."""
    if isinstance(value, RawItem):
        return value
    if isinstance(value, dict):
        return RawItem(value)
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        return [readable(each) for each in value]
    return value
