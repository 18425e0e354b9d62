"""The inbox in a terminal: what waits, decks and cards, as on the page."""
