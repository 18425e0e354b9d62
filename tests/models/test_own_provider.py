"""The page on a provider of one's own, taken at its word: its package is built, installed and used by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from placet.facts.codec import JsonObject
from placet.ports import Model
from placet.testing import ModelContract
from tests.docs.pages import DOCS, blocks_of

PAGE = blocks_of(DOCS / "own-provider.md")
[ACME, USE, CONTRACT] = [block.text for block in PAGE if block.info == "python"]
[PROJECT, MAIN, PRINTED] = [block.text for block in PAGE if block.info == "text"]
BIN = Path(sys.executable).parent


def ran(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own programs, on files that this test wrote
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's package, built from its files and installed into a folder of its own, without any network."""
    package = tmp_path_factory.mktemp("placet-acme")
    (package / "acme.py").write_text(ACME)
    (package / "pyproject.toml").write_text(PROJECT)
    target = tmp_path_factory.mktemp("site")
    options = ["--offline", "--no-deps", "--no-build-isolation", "--no-cache", "--quiet", "--python", sys.executable]
    done = ran(str(BIN / "uv"), "pip", "install", *options, "--target", str(target), str(package), cwd=package)
    assert done.returncode == 0, done.stderr
    return target


def test_the_installed_package_gives_its_provider_a_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(MAIN)

    done = ran(sys.executable, "-W", "error", "main.py", cwd=tmp_path, PYTHONPATH=str(installed))

    assert (done.stdout, done.stderr) == (PRINTED, "")


def test_nothing_of_the_package_is_imported_before_its_name_is_used(installed: Path, tmp_path: Path) -> None:
    script = """
import sys
from placet import Agent, Runner
agent = Agent(name="Herald", model="acme/loud")
print("acme" in sys.modules)
Runner.run_sync(agent, "Hello")
print("acme" in sys.modules, "openai" in sys.modules, "anthropic" in sys.modules)
"""

    done = ran(sys.executable, "-c", script, cwd=tmp_path, PYTHONPATH=str(installed))

    assert done.stdout == "False\nTrue False False\n", done.stderr


def test_without_the_package_the_name_is_refused_with_the_names_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(MAIN)

    done = ran(sys.executable, "main.py", cwd=tmp_path)

    assert done.returncode != 0
    assert (
        "No provider 'acme' for the model 'acme/loud': there are anthropic, litellm, openai, openai-chat" in done.stderr
    )


def _page() -> dict[str, object]:
    found: dict[str, object] = {}
    exec(ACME + CONTRACT, found)  # noqa: S102  # our own documentation
    return found


class TestThePagesModel(ModelContract):
    """The contract, run on the model of the page through the page's own `make_model`."""

    def make_model(self, output: list[JsonObject]) -> Model:
        made: Model = _page()["TestAcmeModel"]().make_model(output)  # type: ignore[operator]
        return made
