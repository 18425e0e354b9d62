"""What the command line never prints: the name and the password in an address."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from placet.cli.serving import EventLines
from tests.cli.running import placet

ADDRESS = "postgresql://me:hunter2@127.0.0.1:9/none"


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--store", "postgresql://me:hunter2%zz@127.0.0.1:9/none"],
        ["migrate", "--store", "postgresql://me:hunter2%zz@127.0.0.1:9/none"],
        ["top", "--once", "--store", "postgresql://me:hunter2%zz@127.0.0.1:9/none"],
        ["audit", "list", "--store", "postgresql://me:hunter2%zz@127.0.0.1:9/none"],
        ["pending", ADDRESS],
        ["pending", "--stor", ADDRESS],
        ["users", ADDRESS],
        ["pending", "--store", ADDRESS.replace("postgresql", "mysql")],
        ["pending", "--desk", "http://me:hunter2@127.0.0.1:9"],
        ["pending", "--desk", "ftp://me:hunter2@127.0.0.1:9"],
        ["serve", "--no-run", "--public-url", "https://me:hunter2@desk.example.com"],
        ["serve", ADDRESS],
        [ADDRESS],
    ],
)
def test_a_password_on_the_command_line_is_in_no_message(words: list[str], tmp_path: Path) -> None:
    done = placet(*words, cwd=tmp_path)

    assert done.returncode != 0
    assert done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_a_password_in_the_environment_is_in_no_message(tmp_path: Path) -> None:
    address = {"PLACET_STORE": "postgresql://me:hunter2%zz@127.0.0.1:9/none"}

    done = placet("pending", cwd=tmp_path, env=address)

    assert "not a URL that PostgreSQL understands" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_a_traceback_in_the_log_of_a_desk_leaves_the_password_out() -> None:
    written = io.StringIO()
    logger = logging.Logger("a desk")  # noqa: LOG001  # one of this test alone
    handler = logging.StreamHandler(written)
    handler.setFormatter(EventLines())
    logger.addHandler(handler)

    try:
        raise RuntimeError(f"could not connect to {ADDRESS}")
    except RuntimeError:
        logger.exception("broken", extra={"action": "broken"})

    assert "could not connect to postgresql://127.0.0.1:9/none" in written.getvalue()
    assert "hunter2" not in written.getvalue()
