"""Sessions in other places; each over its own library, which is imported when its session is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from placet.agents import _left_out

if TYPE_CHECKING:
    from placet.agents.extensions.memory.advanced_sqlite_session import AdvancedSQLiteSession
    from placet.agents.extensions.memory.async_sqlite_session import AsyncSQLiteSession
    from placet.agents.extensions.memory.encrypt_session import EncryptedSession
    from placet.agents.extensions.memory.sqlalchemy_session import SQLAlchemySession

_HOMES = {
    "AdvancedSQLiteSession": "advanced_sqlite_session",
    "AsyncSQLiteSession": "async_sqlite_session",
    "EncryptedSession": "encrypt_session",
    "SQLAlchemySession": "sqlalchemy_session",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _left_out.NAMES:
        raise AttributeError(_left_out.message(name, _left_out.NAMES[name]))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["AdvancedSQLiteSession", "AsyncSQLiteSession", "EncryptedSession", "SQLAlchemySession"]
