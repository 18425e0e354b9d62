"""`placet completion SHELL`: a script for bash, zsh or fish, made from the commands and options themselves.

The script asks `placet completion ids COMMAND …` which requests or runs could be meant.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Iterator
from itertools import islice

from placet import PlacetError
from placet.cli.asking import Client, add_desk, all_pages, client_of
from placet.cli.exit_codes import OK, CommandFailed, UsageError
from placet.cli.naming import approved_requests, short_name
from placet.cli.story import argument_text
from placet.cli.terminal import shown
from placet.facts.codec import JsonObject

MOST = 50
"""Names that are worth offering."""
_TAKE_IDS = "approve|reject|edit|respond|revoke|show|runs|audit|watch"
DESCRIPTION = """\
Prints a script with which your shell completes commands, actions and options:

  bash  source <(placet completion bash), in ~/.bashrc
  zsh   placet completion zsh > a file named _placet in a folder of $fpath
  fish  placet completion fish > ~/.config/fish/completions/placet.fish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "ids"], metavar="bash|zsh|fish")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    if options.shell == "ids":
        for name, about in _ids(options.words):
            print(f"{name}\t{about}")
        return OK
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


# -- what could be meant ----------------------------------------------------------------------------------------------

_DECIDING = ("approve", "reject", "edit", "respond")
_OF_RUNS = ("show", "runs", "audit", "watch")


def _ids(words: list[str]) -> list[tuple[str, str]]:
    """Names for the command that is being typed, with what they stand for; none where nothing can be asked: whoever
    types is not disturbed."""
    place = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_desk(place)
    command = next((word for word in words if not word.startswith("-")), "")
    try:
        options, _ = place.parse_known_args(words)
        with client_of(options) as client:
            return list(_meant(client, command))
    except (CommandFailed, UsageError, PlacetError, OSError, argparse.ArgumentError):
        return []


def _meant(client: Client, command: str) -> Iterator[tuple[str, str]]:
    if command in _DECIDING or command == "show":
        for row in all_pages(client, "/v1/approvals", {"status": "pending"}, MOST):
            yield short_name(row), _about(row)
    if command == "revoke":
        for row in islice(approved_requests(client), MOST):
            yield short_name(row), _about(row)
    if command in _OF_RUNS:
        for found in all_pages(client, "/v1/runs", {}, MOST):
            yield str(found["id"]), shown(f"{found['agent']}, {found['status']}")


def _about(row: JsonObject) -> str:
    given = row["arguments"]
    arguments = argument_text(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))
    return f"{shown(str(row['tool']))} {arguments}"[:60]


# -- the scripts ------------------------------------------------------------------------------------------------------


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
    case "${{COMP_WORDS[1]}}" in
    {_TAKE_IDS}) words="$words $(placet completion ids "${{COMP_WORDS[@]:1:COMP_CWORD-1}}" 2>/dev/null | cut -f1)" ;;
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
  case "$words[2]" in
    {_TAKE_IDS})
      local -a ids=("${{(@f)$(placet completion ids "${{(@)words[2,CURRENT-1]}}" 2>/dev/null)}}")
      ids=("${{(@)ids/$'\t'/:}}")
      _describe id ids ;;
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
        if name in _TAKE_IDS.split("|"):
            asked = "(placet completion ids (commandline -opc)[2..] 2>/dev/null)"
            lines.append(f"complete -c placet -f -n {condition} -a '{asked}'")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return text.replace("'", "’").replace(":", "\\:")
