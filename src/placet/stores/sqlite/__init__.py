"""The store in an SQLite file."""

from placet.stores.sqlite.store import SQLiteStore as SQLiteStore
