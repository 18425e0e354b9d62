"""A console for tests: of this width and encoding, with a terminal behind it or without."""

from __future__ import annotations

import io

from placet.cli.output import Screen


class Out(io.TextIOWrapper):
    """An output of which the tests say what it is."""

    def __init__(self, encoding: str = "utf-8", *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="backslashreplace", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def lines(self) -> list[str]:
        return self.buffer.getvalue().decode(self.encoding).splitlines()


def screen_of(width: int = 60, encoding: str = "ascii", *, is_terminal: bool = False) -> tuple[Screen, Out]:
    out = Out(encoding, is_terminal=is_terminal)
    return Screen(file=out, width=width), out
