"""All commands and actions of `placet`, as they are typed."""

from __future__ import annotations

import click

from placet.cli.main import root


def every_command() -> list[str]:
    """The empty text stands for `placet` itself."""
    found = [""]
    for name in root.list_commands(click.Context(root)):
        command = root.get_command(click.Context(root), name)
        found.append(name)
        found += [f"{name} {action}" for action in command.commands] if isinstance(command, click.Group) else []
    return found


def write_help() -> None:
    """Write the help texts that the tests compare with, and the page of the docs that shows them.

    Run it when a help text has changed: python -m tests.cli.commands
    """
    import contextlib
    import io
    import re
    from pathlib import Path

    from placet.cli.main import main

    here = Path(__file__).parent
    for old in (here / "help").glob("*.txt"):
        old.unlink()
    page = here.parents[1] / "docs" / "cli.md"
    parts = [re.split(r"^## placet$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[0].rstrip()]
    for command in every_command():
        whole = f"placet {command}".strip()
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            main([*command.split(), "--help"])
        (here / "help" / f"{whole.replace(' ', '-')}.txt").write_text(said.getvalue(), encoding="utf-8")
        level = "###" if " " in command else "##"
        parts.append(f"{level} {whole}\n\n```text\n{said.getvalue()}```")
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_help()
