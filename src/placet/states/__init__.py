"""A run as a value that travels: `RunState`, its text, its seal, and the secrets that stay at home."""
