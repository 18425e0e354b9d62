"""What can be set about a desk on the web."""

from __future__ import annotations

import ipaddress

import msgspec

MIB = 2**20


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """The names under which this desk may be asked for; any other `Host` is refused. `*` allows all."""
    public_url: str | None = None
    """Where people reach it, if that is not where it listens: `https://desk.example.com`."""
    is_open: bool = False
    """Users need not log in: for one person on one machine. Everything is done as `open_name`, an admin."""
    open_name: str = "local"
    max_body: int = MIB
    """Bytes of one request's body."""
    body_seconds: float = 20.0
    """How long a body may take to arrive."""
    requests_per_second: float = 50.0
    """Of one client, on average."""
    burst: int = 200
    """How many may come at once."""
    logins_per_minute: float = 10.0
    """Attempts from one address, on average and at once."""
    passwords: tuple[str, ...] | None = None
    """The users who may log in with a password; None: all."""
    free_guesses: int = 5
    """Wrong passwords for one name from one address before each further one costs time, more and more."""
    max_in_flight: int = 1000
    """Requests that this process works on at once."""
    max_listeners: int = 2000
    """Live event streams of this process."""
    max_waits: int = 5000
    """Guests of this process that may wait for a decision at once; the others ask again."""
    listener_backlog: int = 512
    """Events that may wait for one slow listener before it is dropped."""
    heartbeat_seconds: float = 15.0
    search: bool = True
    """Requests can be searched: this process keeps the index of the store up to date."""
    undo_seconds: float = 5.0
    """How long the inbox leaves between a yes that one key gave and the call: until then it can be taken back."""
    idempotency_seconds: float = 24 * 3600.0
    """How long an Idempotency-Key is remembered."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    name = host.strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
