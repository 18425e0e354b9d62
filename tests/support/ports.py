"""Ports for programs that are told theirs: below those that the system hands out by itself, so that nobody gets one
between its being chosen here and its being opened there."""

from __future__ import annotations

import itertools
import os
import socket

FIRST, COUNT = 20_000, 10_000
"""Linux hands out 32768 and above, macOS and Windows 49152 and above."""

_next = itertools.count(os.getpid() * 61)  # two processes that choose at once begin at different places


def free_port() -> int:
    """A port of loopback that nobody uses, and that this process has not named before."""
    for number in itertools.islice(_next, COUNT):
        port = FIRST + number % COUNT
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("every port is taken")
