"""The results of one run of the benchmark, as a file that a later run can be compared with."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from bench.work import Figure, Figures, Work

FORMAT = 1

HOW_TO_HAVE_RESULTS = "name a file that `python3 dev.py bench --out FILE` wrote."

Measured: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


class NotResults(Exception):
    """A file does not hold what `--out` writes."""


def place(text: str) -> Path:
    """The value of `--out`. A place where nothing can be kept is refused at once, since measuring takes long."""
    file = Path(text)
    try:
        if file.is_dir():
            raise ArgumentTypeError(f"{file} is a folder: name a file, such as {file / 'results.json'}")
        if not file.parent.is_dir():
            raise ArgumentTypeError(f"there is no folder {file.parent}: make it, or name a file elsewhere")
        is_new = not file.exists()
        file.open("a").close()
        if is_new:
            file.unlink()
    except OSError as error:
        raise ArgumentTypeError(f"{file} cannot be written ({error.strerror}): name another file") from error
    return file


@dataclass(slots=True)
class Results:
    date: str
    machine: str
    python: str
    rounds: int
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """By contender: what took part, and in which version."""
    values: dict[str, dict[str, Measured]] = field(default_factory=dict)
    """By `work:size:figure` and contender: seconds or bytes, the least that was seen."""
    unmet: list[dict[str, Any]] = field(default_factory=list)
    """The targets that were not met (bench/targets.py)."""

    def add(self, work: str, size: int, contender: str, figures: Figures) -> None:
        for key, value in figures.items():
            row = self.values.setdefault(f"{work}:{size}:{key}", {})
            row[contender] = min(value, row.get(contender, value))

    def take_over(self, works: Sequence[Work]) -> None:
        """Where a work is the same thing as another one to some contenders, their figures of that one count too."""
        for work in works:
            for key in [key for key in self.values if key.startswith(f"{work.otherwise}:")]:
                same = self.values[key]
                if row := self.values.get(key.replace(f"{work.otherwise}:", f"{work.name}:", 1)):
                    row |= {name: value for name, value in same.items() if name not in row}

    def of(self, work: Work, size: int, figure: Figure) -> dict[str, float]:
        return self.values.get(f"{work.name}:{size}:{figure.key}", {})

    def circumstances(self) -> str:
        versions = {name: version for found in self.versions.values() for name, version in found.items()}
        named = ", ".join(f"{name} {version}" for name, version in versions.items())
        effort = {0: "each once and very small: no measurement", 1: "one round"}
        least = effort.get(self.rounds, f"least of at most {self.rounds} rounds")
        return f"{self.date} · {self.machine} · {self.python} · {named} · {least}"

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> Results:
        try:
            found = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
            written_in = found.pop("format", None)
            if written_in is not None and written_in != FORMAT:
                raise NotResults(f"{file} was written by another version of the benchmark: measure once more.")
            results = msgspec.convert(found, cls)
        except OSError as error:
            raise NotResults(f"{file} cannot be read ({error.strerror}): {HOW_TO_HAVE_RESULTS}") from error
        except (ValueError, UnicodeError) as error:  # msgspec's errors are such
            raise NotResults(f"{file} holds no results of this benchmark ({error}): {HOW_TO_HAVE_RESULTS}") from error
        if surplus := sorted(found.keys() - {each.name for each in fields(cls)}):
            raise NotResults(f"{file} holds more than results ({', '.join(surplus)}): {HOW_TO_HAVE_RESULTS}")
        if written_in is None or not results.values:
            lacks = "does not say its format" if written_in is None else "holds no figures"
            raise NotResults(f"{file} {lacks}: {HOW_TO_HAVE_RESULTS}")
        return results


def over_budget(results: Results, works: Sequence[Work], contender: str, limit: str) -> list[str]:
    """A sentence for each figure that costs more than its budget."""
    found = []
    for work in works:
        for figure in work.figures:
            for size in work.sizes:
                values = results.of(work, size, figure)
                if contender in values and limit in values and values[contender] > figure.budget * values[limit]:
                    times = values[contender] / values[limit]
                    found.append(f"{work.name} takes {times:.1f} times the limit's, and may take {figure.budget:.1f}")
    return found
