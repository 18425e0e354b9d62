"""The socket that a desk listens on."""

from __future__ import annotations

import socket

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send at once.

    An answer is two writes, head and body. Without TCP_NODELAY the second waits for the client to acknowledge the
    first, which clients delay by 40 ms; and asyncio sets it only where the socket says that it is TCP, which those of
    `socket.create_server` do not.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host.strip("[]") == "::" else 1)
        found.bind((host.strip("[]"), port))
        found.listen(BACKLOG)
    except BaseException:
        found.close()
        raise
    return found
