"""The pure part: no await, no clock, no randomness, no I/O. What has happened goes in, what to do next comes out."""
