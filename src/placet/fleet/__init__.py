"""The engine: who drives which run when. Embedded in one process here; many workers later."""
