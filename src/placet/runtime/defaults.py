"""What the composition root supplies: the runtime knows ports, never adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placet.declare.run_config import RunConfig
from placet.facts.errors import UserError
from placet.facts.model_settings import ModelSettings
from placet.ports import Model, Observer, Store

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


_model_named: Callable[[str | None], Model] | None = None


def set_model_names(resolve: Callable[[str | None], Model]) -> None:
    """Ask this function which model a name means."""
    global _model_named  # noqa: PLW0603  # one per process: the composition root sets it
    _model_named = resolve


def model_named(name: str | None) -> Model:
    """The model with this name (None: the default one), or UserError saying what to install or to write."""
    if _model_named is None:
        raise UserError(f"There is no model {name!r}: pass a model object, or import placet before its parts.")
    return _model_named(name)


_default_settings: Callable[[], ModelSettings] | None = None


def set_default_settings(give: Callable[[], ModelSettings]) -> None:
    """Ask this function for the settings that go with the default model."""
    global _default_settings  # noqa: PLW0603  # one per process: the composition root sets it
    _default_settings = give


def default_settings() -> ModelSettings:
    """What an agent without a model of its own is asked with, where it does not say otherwise."""
    return _default_settings() if _default_settings is not None else ModelSettings()


_default_observers: Callable[[RunConfig], Sequence[Observer]] | None = None


def set_default_observers(give: Callable[[RunConfig], Sequence[Observer]]) -> None:
    """Ask this function who watches a run besides the observers of its configuration."""
    global _default_observers  # noqa: PLW0603  # one per process: a program that traces all runs sets it
    _default_observers = give


def observers_of(config: RunConfig) -> Sequence[Observer]:
    """Who watches a run with this configuration."""
    if _default_observers is None or config.tracing_disabled:
        return config.observers
    return [*config.observers, *_default_observers(config)]
