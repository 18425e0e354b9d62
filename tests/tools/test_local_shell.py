"""The careful shell: one folder, a time limit, an output limit, an environment that was chosen, and nothing left
behind."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from placet import RunContextWrapper, UserError
from placet.tools import LocalShell, ShellActionRequest, ShellCallData, ShellCommandOutput, ShellCommandRequest


async def run(shell: LocalShell, *commands: str, **limits: Any) -> list[ShellCommandOutput]:
    action = ShellActionRequest(list(commands), **limits)
    return (await shell(ShellCommandRequest(RunContextWrapper(None), ShellCallData("c1", action)))).output


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc").is_dir()
    return state != "Z"


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(120):
        while is_alive(pid):  # noqa: ASYNC110  # the end of a foreign process can only be looked for
            await asyncio.sleep(0.02)


async def test_commands_run_one_after_the_other_in_their_folder(tmp_path: Path) -> None:
    first, second = await run(LocalShell(tmp_path), "echo hi > file; pwd", "cat file; echo no >&2; exit 3")

    assert (first.stdout, first.exit_code) == (f"{tmp_path}\n", 0)
    assert (second.stdout, second.stderr, second.exit_code) == ("hi\n", "no\n", 3)


async def test_the_environment_holds_only_what_was_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")

    (listed,) = await run(LocalShell(tmp_path), "env")
    (given,) = await run(LocalShell(tmp_path, environment={"PATH": os.environ["PATH"], "STAGE": "test"}), "echo $STAGE")

    assert "hunter2" not in listed.stdout
    assert "PATH=" in listed.stdout
    assert given.stdout == "test\n"


async def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    (output,) = await run(LocalShell(tmp_path, timeout=0.3), "sleep 600 & echo $!; sleep 600; echo never")

    assert output.outcome.type == "timeout"
    await until_gone(int(output.stdout))


async def test_a_command_that_ignores_signals_is_ended_all_the_same(tmp_path: Path) -> None:
    began = time.monotonic()

    (output,) = await run(
        LocalShell(tmp_path, timeout=0.2, grace=0.2), "trap '' TERM INT HUP; echo $$; while :; do sleep 0.1; done"
    )

    assert output.outcome.type == "timeout"
    assert time.monotonic() - began < 120
    await until_gone(int(output.stdout))


async def test_what_a_command_leaves_in_the_background_does_not_keep_it_from_ending_and_is_ended(
    tmp_path: Path,
) -> None:
    began = time.monotonic()

    (output,) = await run(LocalShell(tmp_path, timeout=300), "sleep 600 & echo $!")

    assert output.exit_code == 0
    assert time.monotonic() - began < 120
    await until_gone(int(output.stdout))


async def test_a_cancelled_run_ends_its_command(tmp_path: Path) -> None:
    task = asyncio.create_task(run(LocalShell(tmp_path), "echo $$ > pid; sleep 600"))
    async with asyncio.timeout(120):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110  # the same
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await until_gone(int((tmp_path / "pid").read_text()))


async def test_of_huge_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    (output,) = await run(
        LocalShell(tmp_path, max_output=1000), "echo begin; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end"
    )

    assert len(output.stdout) < 1100
    assert output.stdout.startswith("begin\n")
    assert output.stdout.endswith("end\n")
    assert "bytes left out" in output.stdout


async def test_output_that_is_no_text_is_shown_as_such(tmp_path: Path) -> None:
    binary, latin, escape = await run(
        LocalShell(tmp_path), "head -c 100 /dev/zero", "printf 'caf\\351'", "printf '\\033[2Jgone'"
    )

    assert binary.stdout == "[100 bytes that are not text]"
    assert latin.stdout == "caf\\xe9"
    assert escape.stdout == "\\x1b[2Jgone"


async def test_a_command_cannot_wait_for_input(tmp_path: Path) -> None:
    (output,) = await run(LocalShell(tmp_path), "cat; echo done")

    assert output.stdout == "done\n"


async def test_the_model_may_ask_for_less_time_and_output_but_not_for_more(tmp_path: Path) -> None:
    shell = LocalShell(tmp_path, timeout=0.3, max_output=100)

    (late,) = await run(shell, "sleep 60", timeout_ms=60_000)
    (large,) = await run(shell, "head -c 5000 /dev/zero | tr '\\0' x", max_output_length=5000)

    assert late.outcome.type == "timeout"
    assert len(large.stdout) < 200


def test_a_folder_that_is_none_is_refused_where_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        LocalShell(tmp_path / "missing")
