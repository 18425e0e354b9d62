"""The durable comparison: the same runs on the same database, by Placet and by what else people use for it."""
