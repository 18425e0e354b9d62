"""`python3 dev.py live`: the scenarios on the real services whose keys are set, and a line for each that is skipped."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.live.scenarios import EVERYWHERE, ON_RESPONSES, Scenario


@dataclass(frozen=True, slots=True)
class Service:
    title: str
    prefix: str
    key: str
    variable: str
    """Where a person names the model to try."""
    default: str
    scenarios: Sequence[Scenario]

    @property
    def model(self) -> str:
        return f"{self.prefix}/{os.environ.get(self.variable) or self.default}"


SERVICES = (
    Service("OpenAI Responses", "openai", "OPENAI_API_KEY", "PLACET_LIVE_OPENAI", "gpt-5-mini", ON_RESPONSES),
    Service("OpenAI Chat Completions", "openai-chat", "OPENAI_API_KEY", "PLACET_LIVE_OPENAI", "gpt-5-mini", EVERYWHERE),
    Service(
        "Anthropic Messages", "anthropic", "ANTHROPIC_API_KEY", "PLACET_LIVE_ANTHROPIC", "claude-haiku-4-5", EVERYWHERE
    ),
)
LONGEST = 180.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="dev.py live", description=__doc__)
    parser.add_argument("-k", default="", metavar="WORDS", help="only services and scenarios with these words")
    words = str(parser.parse_args(arguments).k)
    passed = failed = skipped = 0
    for service in SERVICES:
        chosen = [each for each in service.scenarios if words in f"{service.title} {each.__name__}"]
        if not chosen:
            continue
        if not os.environ.get(service.key):
            say(f"skipped  {service.title}: {service.key} is not set ({len(chosen)} scenarios)")
            skipped += len(chosen)
            continue
        for scenario in chosen:
            problem = asyncio.run(tried(scenario, service.model))
            name = f"{service.title}, {service.model}: {scenario.__name__.replace('_', ' ')}"
            say(f"{'passed ' if problem is None else 'FAILED '}  {name}" + (f": {problem}" if problem else ""))
            passed, failed = passed + (problem is None), failed + (problem is not None)
    say(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


async def tried(scenario: Scenario, model: str) -> str | None:
    """What is wrong, or None."""
    try:
        async with asyncio.timeout(LONGEST):
            await scenario(model)
    except Exception as error:  # noqa: BLE001  # one service that fails does not keep the others from being tried
        return f"{type(error).__name__}: {error}"
    return None


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
