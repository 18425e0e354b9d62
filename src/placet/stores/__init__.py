"""Stores: where logs are kept. Each is alone behind the `Store` port."""
