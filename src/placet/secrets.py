"""Values that never travel: left out of a stored state by name, and missed by name when somebody needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from placet.codec import Json, plain
from placet.errors import UserError

T = TypeVar("T")


class Secret(Generic[T]):
    """A value that shows itself only when it is asked to: `reveal()`."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        return self._value

    def __repr__(self) -> str:
        return "Secret('**********')"

    __str__ = __repr__


def is_secret(value: object) -> bool:
    """Ours, or pydantic's SecretStr and SecretBytes (recognised without importing pydantic)."""
    return isinstance(value, Secret) or hasattr(value, "get_secret_value")


def split_secrets(value: object, where: str = "context") -> tuple[Json, list[str]]:
    """The value as plain JSON without its secrets, and the places where secrets stood."""
    left_out: list[str] = []
    return plain(_without(value, "", left_out), where), left_out


def _without(value: object, place: str, left_out: list[str]) -> object:
    if isinstance(value, RestoredContext):  # what was missing when it was loaded is missing still
        left_out.extend(f"{place}.{name}" if place else name for name in value.missing_secrets)
    if isinstance(value, Mapping):
        kept: dict[object, object] = {}
        for name, each in value.items():
            inner = f"{place}.{name}" if place else str(name)
            if is_secret(each):
                left_out.append(inner)
            else:
                kept[name] = _without(each, inner, left_out)
        return kept
    if isinstance(value, list):
        for index, each in enumerate(value):
            if is_secret(each):
                raise UserError(
                    f"context.{place}[{index}] is a secret inside a list: give it a name of its own in a mapping."
                )
        return [_without(each, f"{place}[{i}]", left_out) for i, each in enumerate(value)]
    return value


class RestoredContext(dict[str, Any]):
    """A context that was loaded without its secrets: reading one raises, naming the field."""

    def __init__(self, values: Mapping[str, Any], left_out: list[str], place: str = "") -> None:
        super().__init__(values)
        self._place = place
        self._missing = {name for name in left_out if "." not in name}
        for name, each in values.items():
            inner = [rest.removeprefix(f"{name}.") for rest in left_out if rest.startswith(f"{name}.")]
            if inner and isinstance(each, dict):
                super().__setitem__(name, RestoredContext(each, inner, f"{place}{name}."))

    def __missing__(self, name: str) -> Any:
        if name in self._missing:
            raise UserError(
                f"The context's field '{self._place}{name}' is a secret and was not stored with the state. "
                "Load the state with context_override=… to supply it."
            )
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self or name in self._missing else default

    def __setitem__(self, name: str, value: Any) -> None:
        self._missing.discard(name)
        super().__setitem__(name, value)

    @property
    def missing_secrets(self) -> Iterator[str]:
        return iter(sorted(self._missing))
