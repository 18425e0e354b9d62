"""Hosts of a fleet, simulated: network namespaces with a cable each to the database, where the machine allows them.

Where it does not (no root, no `ip`), each host reaches the database through a little proxy on loopback that can be
told to swallow everything, which is what a cable that was cut does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import psycopg

from tests.support.postgres import PostgresServer

PROXY = Path(__file__).with_name("proxy.py")


class Host(Protocol):
    """Where a worker runs."""

    prefix: Sequence[str]
    """What its command begins with."""

    def url(self, database: str) -> str: ...

    def cut(self) -> None:
        """Nothing goes through any more, and nobody is told."""
        ...

    def mend(self) -> None: ...


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: S603, S607  # words of our own


def _cable(one_end: str, one_space: str, other_end: str, other_space: str) -> list[str]:
    one, other = f"name {one_end} netns {one_space}", f"name {other_end} netns {other_space}"
    return f"link add {one} type veth peer {other}".split()


def namespaces_are_allowed() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"placet-try-{os.getpid()}"
    try:
        _ip("netns", "add", name)
        _ip(*_cable("one", name, "two", name))
    except subprocess.CalledProcessError:
        return False
    finally:
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", name)
    return True


class NamespaceHost:
    """A namespace with one end of a cable; the other end is in the database's namespace."""

    def __init__(self, database_space: str, number: int) -> None:
        self.name = f"{database_space}-{number}"
        self._space = database_space
        self._near, self._far = f"h{number}", f"d{number}"
        self._net = f"10.231.{number}"
        self.prefix = ("ip", "netns", "exec", self.name)
        _ip("netns", "add", self.name)
        _ip(*_cable(self._near, self.name, self._far, database_space))
        for space, end, last in ((self.name, self._near, 2), (database_space, self._far, 1)):
            _ip("-n", space, "addr", "add", f"{self._net}.{last}/24", "dev", end)
            _ip("-n", space, "link", "set", end, "up")
        _ip("-n", self.name, "link", "set", "lo", "up")

    def url(self, database: str) -> str:
        return f"postgresql://placet@{self._net}.1:5432/{database}"

    def cut(self) -> None:
        _ip("-n", self._space, "link", "set", self._far, "down")

    def mend(self) -> None:
        _ip("-n", self._space, "link", "set", self._far, "up")

    def close(self) -> None:
        _ip("netns", "del", self.name)


class ProxyHost:
    """A port on loopback that leads to the database, until it is cut."""

    prefix: Sequence[str] = ()

    def __init__(self, socket_folder: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # a program of our own
            [sys.executable, PROXY, f"{socket_folder}/.s.PGSQL.5432"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        self._lock = threading.Lock()

    def url(self, database: str) -> str:
        return f"postgresql://placet@127.0.0.1:{self._port}/{database}"

    def cut(self) -> None:
        self._tell("cut")

    def mend(self) -> None:
        self._tell("mend")

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == word

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@contextmanager
def hosts(count: int, *, namespaces: bool) -> Iterator[tuple[PostgresServer, list[Host]]]:
    """A database, and so many hosts that reach it."""
    if namespaces:
        yield from _in_namespaces(count)
    else:
        yield from _behind_proxies(count)


def _in_namespaces(count: int) -> Iterator[tuple[PostgresServer, list[Host]]]:
    space = f"placet-{os.getpid()}"
    _ip("netns", "add", space)
    made: list[NamespaceHost] = []
    server = None
    try:
        _ip("-n", space, "link", "set", "lo", "up")
        made += [NamespaceHost(space, number) for number in range(1, count + 1)]
        server = PostgresServer(prefix=("ip", "netns", "exec", space), listen_addresses="*")
        _let_in(server)
        yield server, list(made)
    finally:
        if server is not None:
            server.close()
        for host in made:
            host.close()
        _ip("netns", "del", space)


def _let_in(server: PostgresServer) -> None:
    with (Path(server.folder) / "data" / "pg_hba.conf").open("a") as file:
        file.write("host all all 10.231.0.0/16 trust\n")
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute(b"SELECT pg_reload_conf()")


def _behind_proxies(count: int) -> Iterator[tuple[PostgresServer, list[Host]]]:
    server = PostgresServer()
    made: list[ProxyHost] = []
    try:
        made += [ProxyHost(server.folder) for _ in range(count)]
        yield server, list(made)
    finally:
        for host in made:
            host.close()
        server.close()
