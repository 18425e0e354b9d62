"""What the composition root supplies: the runtime knows ports, never adapters."""

from __future__ import annotations

from placet.errors import UserError
from placet.ports import Store

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
