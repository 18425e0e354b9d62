"""A shell command as its words, where it plainly is one command and nothing else.

Rule of this file: what a shell might read in another way than it looks is no plain command. Quotes, substitutions,
redirections, separators, assignments, patterns and newlines are such; so a person is asked about them.
"""

from __future__ import annotations

import re

_WORD = r"[A-Za-z0-9_@+:,./=-]+"
_PLAIN = re.compile(rf"[ \t]*({_WORD}(?:[ \t]+{_WORD})*)[ \t]*")
ANY_WORD = "*"
"""In a granted command: any one word that is no option."""
ANY_WORDS = "**"
"""At its end: any words."""
MAX_COMMAND = 4096


def plain_words(command: str) -> list[str] | None:
    """The words of one plain command; None: a shell may do something else with it."""
    if len(command) > MAX_COMMAND:
        return None
    found = _PLAIN.fullmatch(command)
    if found is None:
        return None
    words = found[1].split()
    if "=" in words[0]:  # an assignment: it may change what the command is
        return None
    if any(word.startswith("=") for word in words):  # some shells put a program's path there
        return None
    return words


def problem_with(granted: str) -> str | None:
    """Why a text is no command that can be granted."""
    words = granted.split()
    if not words:
        return "is empty"
    fixed = [word for word in words if word not in (ANY_WORD, ANY_WORDS)]
    if words[0] in (ANY_WORD, ANY_WORDS):
        return "begins with a wildcard, so it is any command"
    if ANY_WORDS in words[:-1]:
        return "has a ** that is not its last word"
    if plain_words(" ".join(fixed)) is None:
        return "is not one plain command: no quotes, substitutions, redirections, assignments or separators"
    return None


def covers(granted: str, words: list[str]) -> bool:
    """Whether the words of a plain command are those of a granted one."""
    wanted = granted.split()
    if wanted and wanted[-1] == ANY_WORDS:
        wanted = wanted[:-1]
        if len(words) < len(wanted):
            return False
        words = words[: len(wanted)]
    if len(wanted) != len(words):
        return False
    return all(
        not word.startswith("-") if each == ANY_WORD else word == each for each, word in zip(wanted, words, strict=True)
    )
