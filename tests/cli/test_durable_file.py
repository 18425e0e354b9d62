"""A file that is whole at every moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.cli.durable_file import write_durably


def test_a_write_replaces_the_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_durably(path, "old")

    write_durably(path, "new\r\n…")

    assert path.read_bytes() == "new\r\n…".encode()
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_durably(path, "old")

    with pytest.raises(UnicodeEncodeError):
        write_durably(path, "new" * 100_000 + "\ud800")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
