"""The engine: who drives which run when. Embedded in one process, or many workers on PostgreSQL."""
