"""Reads the documentation's pages: their code blocks, their links, their headings."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]

EXAMPLES = ("python", "python on-host")
"""Examples that run; those on a host run in the environment of the framework that their page is about."""

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\((?P<target>[^)\s]+)\)|(?:src|href)=\"(?P<attribute>[^\"]+)\"")
_HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    info: str
    text: str
    follows: bool
    """Nothing but white space stands between this block and the one before it."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    source = page.read_text("utf-8")
    found, end = [], 0
    for match in _FENCE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        follows = bool(found) and not source[end : match.start()].strip()
        found.append(Block(page, line, match["info"].strip(), match["text"], follows))
        end = match.end()
    return found


def prose_of(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def links_of(page: Path) -> Iterator[str]:
    for match in _LINK.finditer(prose_of(page)):
        yield match["target"] or match["attribute"]


def anchors_of(page: Path) -> set[str]:
    """The anchors of the headings, made as code hosts make them."""
    texts = (re.sub(r"[`*]|\]\([^)]*\)|\[", "", match["text"]) for match in _HEADING.finditer(prose_of(page)))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def run_examples(page: Path, kind: str = "python") -> int:
    """Run a page's examples of this kind in order, in one namespace, and compare what they print. Returns how many."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = ""
    ran = 0
    with asyncio.Runner() as runner:
        for block in blocks_of(page):
            if block.info == kind:
                printed = _run(block, namespace, runner)
                ran += 1
            elif block.info == "output":
                assert block.follows, f"{name_of(page)}:{block.line}: an output block follows its example at once"
                if printed is not None:
                    _compare(block, printed)
            elif block.info in EXAMPLES:
                printed = None  # an example that is not run here
    return ran


def _run(block: Block, namespace: dict[str, object], runner: asyncio.Runner) -> str:
    code = compile_example(block)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(eval(code, namespace))  # noqa: S307  # our own documentation
        else:
            exec(code, namespace)  # noqa: S102  # our own documentation
    return out.getvalue()


def compile_example(block: Block) -> object:
    """The example's code; its line numbers are those of the page."""
    source = "\n" * block.line + block.text
    return compile(source, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def _compare(block: Block, printed: str) -> None:
    """`…` in an output block stands for anything on its line."""
    shown, got = block.text.rstrip().splitlines(), printed.rstrip().splitlines()
    fits = len(shown) == len(got) and all(
        re.fullmatch(".*".join(map(re.escape, want.split("…"))), have) for want, have in zip(shown, got, strict=True)
    )
    assert fits, f"{name_of(block.page)}:{block.line} shows\n{block.text}\nand the example printed\n{printed}"
