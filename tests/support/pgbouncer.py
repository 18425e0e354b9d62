"""A real PgBouncer in transaction mode before the tests' PostgreSQL: each transaction may get another connection.

The program is the system's (Debian: `apt install pgbouncer`); `python3 dev.py test` installs it where it can. It
refuses to run as root, so root runs it as an unprivileged user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.postgres import PostgresServer

PATIENCE = 90.0
SETTINGS = """\
[databases]
* = host={server} user=placet

[pgbouncer]
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
server_idle_timeout = 1
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
logfile = {folder}/pgbouncer.log
ignore_startup_parameters = extra_float_digits
"""


class PgBouncer:
    """`url(direct)` is the same database, through the pooler."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, direct: str) -> str:
        database = direct.partition("?")[0].rpartition("/")[2]
        return f"postgresql://placet@/{database}?host={self._folder}&port=6432"


@contextmanager
def pgbouncer(server: PostgresServer, size: int = 3) -> Iterator[PgBouncer]:
    """With `size` connections to each database, however many clients there are."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    assert program is not None, "PgBouncer is missing, and the tests need it (on Debian: apt install pgbouncer)"
    folder = Path(tempfile.mkdtemp(prefix="placet-pgb-"))
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(server=server.folder, folder=folder, size=size))
    identity: dict[str, Any] = {}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    folder.chmod(0o755)
    process = subprocess.Popen([program, "-q", str(settings)], stdin=subprocess.DEVNULL, **identity)  # noqa: S603
    try:
        found = PgBouncer(folder)
        _wait_until_it_answers(found.url(server.url()), process)
        yield found
    finally:
        process.terminate()
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > give_up:
                raise AssertionError(f"PgBouncer does not answer: {error}") from error
            time.sleep(0.02)
        else:
            return
