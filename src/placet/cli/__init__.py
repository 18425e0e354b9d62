"""The `placet` command: what people and scripts type."""
