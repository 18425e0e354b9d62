"""The test command brings a browser and a pooler along, or says what is missing: with stand-ins for apt-get and
Python."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dev() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("dev_under_test", ROOT / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Machine:
    """A PATH with a few programs that write down how they were called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, dev: types.ModuleType) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.dev = dev
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setattr(dev, "VENV", folder / "venv")
        monkeypatch.setattr(dev, "has_libatomic", lambda: True)
        monkeypatch.setattr(dev, "has_pgbouncer", lambda: True)
        monkeypatch.setattr(dev, "missing_shells", list)
        (folder / "venv" / "bin").mkdir(parents=True)
        self.program("python", 'test "$1" != -c', folder / "venv" / "bin")

    def program(self, name: str, script: str = "", folder: Path | None = None) -> None:
        path = (folder or self.bin) / name
        note = f'test "$1" = -c || echo "{name} $*" >> "{self.calls}"'  # a look for what is there changes nothing
        path.write_text(f"#!/bin/sh\n{note}\n{script}\n")
        path.chmod(0o755)

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dev: types.ModuleType) -> Machine:
    return Machine(tmp_path, monkeypatch, dev)


def be(monkeypatch: pytest.MonkeyPatch, dev: types.ModuleType, uid: int) -> None:
    monkeypatch.setattr(dev.os, "geteuid", lambda: uid)


def test_the_chromium_of_the_machine_is_taken(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.program("chromium")
    machine.program("apt-get")
    be(monkeypatch, machine.dev, 0)

    machine.dev.set_up_system()

    assert machine.called() == []


def test_root_on_a_bare_debian_gets_one_from_apt(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.program("apt-get")
    monkeypatch.setattr(machine.dev, "has_libatomic", lambda: False)
    be(monkeypatch, machine.dev, 0)

    machine.dev.set_up_system()

    assert machine.called() == [
        "apt-get update --quiet",
        "apt-get install --yes --quiet --no-install-recommends chromium libatomic1",
    ]


def test_elsewhere_playwright_fetches_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, machine.dev, 1000)

    machine.dev.set_up_system()

    assert machine.called() == ["python -m playwright install chromium"]


def test_what_cannot_be_installed_is_a_failure_in_words_and_never_a_skipped_test(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.program("python", "exit 1", tmp_path / "venv" / "bin")
    be(monkeypatch, machine.dev, 1000)

    with pytest.raises(machine.dev.Stop, match="there is no Chromium for the browser tests"):
        machine.dev.set_up_system()

    monkeypatch.setattr(machine.dev, "has_libatomic", lambda: False)
    with pytest.raises(machine.dev.Stop, match="apt install libatomic1"):
        machine.dev.set_up_system()


def test_a_pgbouncer_comes_from_apt_or_is_asked_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.program("chromium")
    monkeypatch.setattr(machine.dev, "has_pgbouncer", lambda: False)
    be(monkeypatch, machine.dev, 1000)
    with pytest.raises(machine.dev.Stop, match="apt install pgbouncer"):
        machine.dev.set_up_system()

    machine.program("apt-get")
    be(monkeypatch, machine.dev, 0)
    machine.dev.set_up_system()

    assert machine.called()[-1] == "apt-get install --yes --quiet --no-install-recommends pgbouncer"


def test_what_apt_will_install_and_why_is_said_before_it_is_called(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.program("apt-get", "exit 1")
    monkeypatch.setattr(machine.dev, "has_libatomic", lambda: False)
    monkeypatch.setattr(machine.dev, "has_pgbouncer", lambda: False)
    monkeypatch.setattr(machine.dev, "missing_shells", lambda: ["zsh", "fish"])
    be(monkeypatch, machine.dev, 0)

    with pytest.raises(machine.dev.Stop):
        machine.dev.set_up_system()

    shown = "".join(capsys.readouterr())
    for name, why in machine.dev.WHY_NEEDED.items():
        assert f"{name} ({why})" in shown
    assert machine.called() == ["apt-get update --quiet"]


def test_all_that_is_missing_is_named_in_one_message(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.dev, "has_libatomic", lambda: False)
    monkeypatch.setattr(machine.dev, "has_pgbouncer", lambda: False)
    be(monkeypatch, machine.dev, 1000)

    with pytest.raises(machine.dev.Stop, match="apt install libatomic1 pgbouncer"):
        machine.dev.set_up_system()

    assert machine.called() == []


def test_shells_that_are_missing_come_from_apt_or_are_asked_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.program("chromium")
    monkeypatch.setattr(machine.dev, "missing_shells", lambda: ["zsh", "fish"])
    be(monkeypatch, machine.dev, 1000)
    with pytest.raises(machine.dev.Stop, match="apt install zsh fish"):
        machine.dev.set_up_system()

    machine.program("apt-get")
    be(monkeypatch, machine.dev, 0)
    machine.dev.set_up_system()

    assert machine.called()[-1] == "apt-get install --yes --quiet --no-install-recommends zsh fish"
