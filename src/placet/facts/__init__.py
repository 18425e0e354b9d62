"""Facts and what they are made of: events, items, JSON, ids, errors. Everything else is built on these."""
