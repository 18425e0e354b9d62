"""The store in a PostgreSQL database."""

from placet.stores.postgres.store import PostgresStore as PostgresStore
