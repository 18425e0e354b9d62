"""`placet completion SHELL`: a script for bash, zsh or fish, made from the commands and options themselves."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from placet.cli.exit_codes import OK

DESCRIPTION = """\
Prints a script with which your shell completes commands, actions and options:

  bash  source <(placet completion bash), in ~/.bashrc
  zsh   placet completion zsh > a file named _placet in a folder of $fpath
  fish  placet completion fish > ~/.config/fish/completions/placet.fish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], metavar="bash|zsh|fish")


def run(options: argparse.Namespace) -> int:
    words = dict(_words())
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](words))
    return OK


def _words() -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Each command with its summary and the words that may follow it."""
    main = importlib.import_module("placet.cli.main")  # it imports this module when the command is used
    for command in main.COMMANDS:
        parser = main.command_parser(command, importlib.import_module(command.module))
        found = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
        choices = [
            str(each) for action in parser._actions if not action.option_strings for each in action.choices or ()
        ]
        yield command.name, (command.summary, [*choices, *found])


def _bash(words: dict[str, tuple[str, list[str]]]) -> str:
    cases = "\n".join(f"    {name}) words='{' '.join(found)}' ;;" for name, (_, found) in words.items())
    return f"""\
_placet() {{
  local words current="${{COMP_WORDS[COMP_CWORD]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='{" ".join(words)} --help --version'
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _placet placet"""


def _zsh(words: dict[str, tuple[str, list[str]]]) -> str:
    commands = "\n".join(f"    '{name}:{_quoted(summary)}'" for name, (summary, _) in words.items())
    cases = "\n".join(f"    {name}) compadd -- {' '.join(found)} ;;" for name, (_, found) in words.items())
    return f"""\
#compdef placet
_placet() {{
  local -a commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[2]" in
{cases}
  esac
  _files
}}
_placet "$@\""""


def _fish(words: dict[str, tuple[str, list[str]]]) -> str:
    lines = []
    for name, (summary, found) in words.items():
        lines.append(f"complete -c placet -n __fish_use_subcommand -a {name} -d '{_quoted(summary)}'")
        condition = f"'__fish_seen_subcommand_from {name}'"
        lines += [
            f"complete -c placet -n {condition} " + (f"-l {word[2:]}" if word.startswith("--") else f"-a {word}")
            for word in found
        ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return text.replace("'", "’").replace(":", "\\:")
