"""What the composition root supplies: the runtime knows ports, never adapters."""

from __future__ import annotations

from collections.abc import Callable

from placet.facts.errors import UserError
from placet.ports import Model, Store

_default_store: Store | None = None


def set_default_store(store: Store) -> None:
    """Use this store wherever no `store=` is given."""
    global _default_store  # noqa: PLW0603  # one per process, by design (DESIGN: memory is the default of the library)
    _default_store = store


def default_store() -> Store:
    """The store of runs for which none is given."""
    if _default_store is None:
        raise UserError("No default store is set: pass store=…, or import placet before its parts.")
    return _default_store


_model_named: Callable[[str], Model] | None = None


def set_model_names(resolve: Callable[[str], Model]) -> None:
    """Ask this function which model a name means."""
    global _model_named  # noqa: PLW0603  # one per process: the composition root sets it
    _model_named = resolve


def model_named(name: str) -> Model:
    """The model with this name, or UserError saying what to install or to write."""
    if _model_named is None:
        raise UserError(f"Nobody knows the model '{name}': pass a model object, or import placet before its parts.")
    return _model_named(name)
