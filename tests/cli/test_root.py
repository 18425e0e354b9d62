"""The root of the command: help, version, exit codes, and how commands are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from placet import __version__
from placet.cli.main import COMMANDS, main, root
from tests.cli.commands import every_command
from tests.cli.running import PLACET, at_a_terminal, environment, placet, run

AGENT = ["run", "tests.desk.api.agents_here:agents", "--agent", "Support"]
HELP = Path(__file__).parent / "help"


@pytest.mark.parametrize("command", every_command())
def test_the_help_is_the_committed_one_that_the_docs_show(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    committed = HELP / f"{f'placet {command}'.strip().replace(' ', '-')}.txt"

    code = main([*command.split(), "--help"])

    assert code == 0
    assert capsys.readouterr().out == committed.read_text(encoding="utf-8")


def test_every_line_of_the_help_fits_into_80_columns() -> None:
    lines = [line for file in HELP.glob("*.txt") for line in file.read_text(encoding="utf-8").splitlines()]

    assert lines
    assert [line for line in lines if len(line) > 80] == []


def test_the_installed_command_tells_its_version(tmp_path: Path) -> None:
    found = run([str(Path(sys.executable).with_name("placet")), "--version"], tmp_path)

    assert (found.returncode, found.stdout, found.stderr) == (0, f"placet {__version__}\n", "")


def test_without_a_command_the_help_goes_to_standard_error_and_the_code_is_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main([])

    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err == (HELP / "placet.txt").read_text(encoding="utf-8")


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["dmeo"])

    assert code == 2
    assert (
        capsys.readouterr().err
        == "placet: there is no command 'dmeo' (did you mean «demo»?): «placet --help» lists them.\n"
    )


@pytest.mark.parametrize(
    "arguments", [["--nonsense"], ["demo", "--nonsense"], ["demo", "--yes", "--no"], ["demo", "x"]]
)
def test_an_unknown_or_impossible_option_is_wrong_usage(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    code = main(arguments)

    assert code == 2
    assert capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_every_listed_command_is_found_under_its_name() -> None:
    found = {name: root.get_command(click.Context(root), name) for name in COMMANDS}

    assert {name: command.name for name, command in found.items() if command is not None} == {
        name: name for name in COMMANDS
    }


def test_importing_the_root_imports_no_command(tmp_path: Path) -> None:
    program = (
        "import sys, placet.cli.main as root; "
        "print([name for name in sys.modules if name.startswith(('placet.cli.commands', 'placet.cli.demo'))], "
        "[name for name in ('readline', 'httpx2', 'starlette', 'asyncio.runners.none') if name in sys.modules])"
    )

    found = run([sys.executable, "-c", program], tmp_path)

    assert (found.stdout, found.stderr) == ("[] []\n", "")


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_extra_the_command_says_which_one_it_needs(missing: str, tmp_path: Path) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import placet.cli; sys.exit(placet.cli.main())"

    found = run([sys.executable, "-c", program, "pending"], tmp_path)

    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "placet: the command needs an extra that is not installed: pip install 'placet[cli]'.\n"


def test_a_reader_who_goes_away_is_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(  # noqa: S603  # a program of our own
        [*PLACET, "demo", "--terminal"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        said = process.stderr.read()

    assert (process.wait(timeout=120), said) == (1, b"")


def test_an_output_without_our_signs_gets_plain_ones(tmp_path: Path) -> None:
    found = placet("demo", "--yes", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})

    assert found.returncode == 0
    assert found.stdout.isascii()
    assert "`-- " in found.stdout
    assert "\\u" not in found.stdout


def test_an_argument_that_is_no_text_is_wrong_usage(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603  # a program of our own
        [*PLACET, "show", b"caf\xe9"], cwd=tmp_path, env=environment(), capture_output=True, timeout=120, check=False
    )

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"is not text in UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("show", "placet show [OPTIONS] ID"),
        ("approve", "placet approve [OPTIONS] ID…"),
        ("run", "placet run [OPTIONS] MODULE:NAME [INPUT]"),
        ("pending", "placet pending [OPTIONS]"),
    ],
)
def test_the_usage_of_a_command_names_what_it_takes(
    command: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "--nonsense"])

    assert f"Usage: {usage}\n" in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["1", "2"])
def test_an_output_that_is_closed_is_no_traceback(closed: str, tmp_path: Path) -> None:
    words = f'"$@" {closed}>&-'
    found = run(["/bin/sh", "-c", words, "sh", *PLACET, "completion", "bash"], tmp_path)

    assert found.returncode == 0
    assert "Traceback" not in found.stdout + found.stderr


def test_what_the_system_says_is_told_as_a_sentence(tmp_path: Path) -> None:
    words = '"$@" > /dev/full'
    found = run(["/bin/sh", "-c", words, "sh", *PLACET, "completion", "bash"], tmp_path)

    assert (found.returncode, found.stderr) == (1, "placet: the system says: No space left on device.\n")


def test_whoever_is_waited_for_is_told_so_and_complaints_break_between_words(tmp_path: Path) -> None:
    store = ["--store", f"sqlite:///{tmp_path / 'x.db'}"]
    placet("users", "add", "bob", *store, cwd=tmp_path)
    with at_a_terminal(*AGENT, "-", *store, cwd=Path.cwd(), width=40) as waited:
        waited.expect("Type the input, then Ctrl-D.")
    with at_a_terminal("respond", "nothing", *store, cwd=tmp_path, width=40) as one:
        said = one.expect("lists them.")

    assert "there is no request" in said
    assert max(len(line) for line in said.splitlines()) <= 40
