"""Whether a call touches Placet itself, its store or an assistant's settings: such a call may change who is asked.

Rule of this file: in doubt it does. It reads what a call says, not what it will do: a program that the call starts, or
a file that was written before, can do anything. So a shell is better not let pass at all.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from urllib.parse import unquote

from placet.facts.codec import Json

NAMES = ("placet", ".claude", ".codex", ".cursor", "managed-settings.json")
FOLDERS = ("/.claude", "/.codex", "/.cursor")
COMMANDS = frozenset({"command", "cmd", "script", "code"})
"""Arguments that a shell or an interpreter executes."""
LEAST_LITERAL = 3
"""Letters that a pattern must name: «*» alone fits everything, and would make every search a question."""

_HIDES = re.compile(
    r"[$`]|<\(|\{[^{}]*,|\\x[0-9a-f]{2}|\\[0-7]{3}|\b(?:eval|exec|source|base64|base32|xxd|printf|rev|tr|xargs|awk|env|alias)\b"
    r"|(?:^|[;&|(]\s*)\.\s|\b(?:ba|z|da|k|fi)?sh\b|\b(?:python|perl|ruby|node|php|lua|deno|bun)[\d.]*\b"
)
"""What can make another command of a text: then the names need not stand in it."""
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$[\w@*#?!-]")
_QUOTES = re.compile(r"""['"\\`^]""")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\([0-7]{3})|\\u([0-9a-fA-F]{4})")
_WORD = re.compile(r"[^\s/'\"|;&()<>=,:]+")


def touches_placet(tool: str, arguments: Json, folder: str = "", more: Iterable[str] = ()) -> bool:
    """Whether the call names what is ours, also where it hides the name. `folder`: in which it is executed. `more`:
    names of files that are ours."""
    names = [*NAMES, *(each.lower() for each in more if each)]
    texts = [tool, *_texts(arguments)]
    if any(f"{each}/" in f"{folder.lower()}/" for each in FOLDERS):
        return True
    if any(_names_one(text, names) for text in texts):
        return True
    return any(_HIDES.search(text.lower()) for text in _commands(arguments))


def _names_one(text: str, names: list[str]) -> bool:
    return any(name in reading for reading in _readings(text) for name in names) or _fits_one(text, names)


def _readings(text: str) -> Iterator[str]:
    """The text as it stands, and as a shell, a decoder or a reader of look-alikes may understand it."""
    plain = unicodedata.normalize("NFKC", text).lower()
    yield plain
    bare = _QUOTES.sub("", plain)
    yield bare
    yield _QUOTES.sub("", _VARIABLE.sub("", plain))
    yield unquote(plain)
    yield plain[::-1]
    yield _ESCAPE.sub(_unescaped, text).lower()
    yield re.sub(r"[{},\s+]", "", bare)  # «{pla,cet}», «"pla" + "cet"», a name over two lines
    for word in _ENCODED.findall(text):
        yield from _decoded(word)


def _unescaped(found: re.Match[str]) -> str:
    hexadecimal, octal, unicode = found.groups()
    return chr(int(octal, 8) if octal else int(hexadecimal or unicode, 16))


def _decoded(word: str) -> Iterator[str]:
    padded = word.rstrip("=") + "=" * (-len(word.rstrip("=")) % 4)
    for decode in (base64.b64decode, base64.urlsafe_b64decode, bytes.fromhex):
        try:
            found = decode(word if decode is bytes.fromhex else padded)
        except (binascii.Error, ValueError):
            continue
        yield found.decode("utf-8", "replace").lower()


def _fits_one(text: str, names: list[str]) -> bool:
    """A pattern of a shell that fits a name of ours."""
    for word in _WORD.findall(text.lower()):
        literal = len(re.sub(r"\[[^\]]*\]|[*?\[\]]", "", word))
        if literal < len(word) and literal >= LEAST_LITERAL and any(fnmatchcase(name, word) for name in names):
            return True
    return False


def _texts(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, each in value.items():
                yield name
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
            words = [each for each in value if isinstance(each, str)]
            yield " ".join(words)
        case _:
            return


def _commands(arguments: Json) -> Iterator[str]:
    if isinstance(arguments, dict):
        for name, each in arguments.items():
            if name.lower() in COMMANDS:
                yield from _texts(each)
