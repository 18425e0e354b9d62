"""Models by other packages than `openai`."""
