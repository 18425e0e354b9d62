"""Values that never travel: left out of a stored state by name, and missed by name when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from placet.facts.codec import MAX_DEPTH, Json, NotPlain, plain
from placet.facts.errors import UserError

T = TypeVar("T")

Place: TypeAlias = list[str | int]
"""Where in a context a secret stood: names of fields and places in lists, outermost first."""


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


def split_secrets(value: object, where: str = "context") -> tuple[Json, list[Place]]:
    """The value as plain JSON without its secrets, and the places where secrets stood."""
    left_out: list[Place] = []
    return plain(_without(value, [], left_out), where), left_out


def _without(value: object, place: Place, left_out: list[Place]) -> object:
    if len(place) > MAX_DEPTH:
        raise NotPlain(f"{dotted(place[:3])}… is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, RestoredContext):  # what was missing when it was loaded is missing still
        left_out.extend([*place, name] for name in value.missing_secrets)
    if isinstance(value, Mapping):
        kept: dict[object, object] = {}
        for name, each in value.items():
            inner = [*place, name if isinstance(name, str) else str(name)]
            if is_secret(each):
                left_out.append(inner)
            else:
                kept[name] = _without(each, inner, left_out)
        return kept
    if isinstance(value, list):
        for index, each in enumerate(value):
            if is_secret(each):
                raise UserError(
                    f"context.{dotted([*place, index])} is a secret in a list: put it into a mapping, under a name."
                )
        return [_without(each, [*place, index], left_out) for index, each in enumerate(value)]
    return value


def dotted(place: Sequence[str | int]) -> str:
    """A place as people write it: hosts[0].token"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def restored(value: Any, left_out: Sequence[Place], place: Sequence[str | int] = ()) -> Any:
    """The value as it was stored, with every mapping that lost a secret aware of it."""
    if not left_out:
        return value
    if isinstance(value, list):
        return [restored(each, _below(left_out, index), [*place, index]) for index, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    missing = {str(inner[0]) for inner in left_out if len(inner) == 1}
    kept = {name: restored(each, _below(left_out, name), [*place, name]) for name, each in value.items()}
    return RestoredContext(kept, missing, place)


def _below(left_out: Sequence[Place], step: str | int) -> list[Place]:
    return [inner[1:] for inner in left_out if len(inner) > 1 and inner[0] == step]


class RestoredContext(dict[str, Any]):
    """A mapping that was loaded without its secrets: reading one raises, naming the field."""

    def __init__(self, values: Mapping[str, Any], missing: set[str], place: Sequence[str | int] = ()) -> None:
        super().__init__(values)
        self._place = list(place)
        self._missing = missing

    def __missing__(self, name: str) -> Any:
        if name in self._missing:
            raise UserError(
                f"The context's field '{dotted([*self._place, name])}' is a secret and was not stored with the state. "
                "Load the state with context_override=… to supply it."
            )
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self or name in self._missing else default

    def pop(self, name: str, *default: Any) -> Any:
        return self[name] if name in self._missing and name not in self else super().pop(name, *default)

    def __setitem__(self, name: str, value: Any) -> None:
        self._missing.discard(name)
        super().__setitem__(name, value)

    @property
    def missing_secrets(self) -> Iterator[str]:
        return iter(sorted(self._missing))
