"""Every name and path of the SDK is there, or is refused in words. There is no third way."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import placet
import placet.agents
from placet.agents import _left_out

SDK = json.loads((Path(__file__).parent / "sdk_names.json").read_text())
PLACES = [(module, name) for module, names in SDK["modules"].items() for name in names]
PRIVATE_TO_THE_SDK = {
    "agents.agent_tool_state",
    "agents.memory.util",
    "agents.models.chatcmpl_converter",
    "agents.models.chatcmpl_helpers",
    "agents.models.chatcmpl_stream_handler",
    "agents.models.openai_client_utils",
    "agents.tracing.logger",
    "agents.tracing.model_tracing",
}
"""Modules of its own machinery, without an underscore and without a page in its documentation."""


def ours(module: str) -> str:
    return module.replace("agents", "placet.agents", 1)


def why_not(module: str, name: str) -> str | None:
    path = ".".join(filter(None, [module.partition(".")[2], name]))
    parts = path.split(".")
    ways = (".".join(parts[: end + 1]) for end in range(len(parts)))
    return next((_left_out.MODULES[way] for way in ways if way in _left_out.MODULES), _left_out.NAMES.get(name))


@pytest.mark.parametrize(("module", "name"), PLACES, ids=[f"{module}.{name}" for module, name in PLACES])
def test_a_name_of_the_sdk_is_there_or_is_refused_in_words(module, name):
    found = importlib.import_module(ours(module))

    if why_not(module, name) is None:
        assert getattr(found, name) is not None
        assert name in found.__all__
    else:
        assert not hasattr(found, name)


@pytest.mark.parametrize("module", SDK["modules"])
def test_a_module_of_the_sdk_is_there_or_is_refused_in_words(module):
    if module in PRIVATE_TO_THE_SDK:
        return
    if why_not(module, "") is None:
        assert importlib.import_module(ours(module)).__doc__
    else:
        with pytest.raises(ImportError, match=r"placet\.agents has no .*docs/porting\.md"):
            importlib.import_module(ours(module))


def test_nothing_is_offered_that_the_sdk_does_not_have():
    assert set(placet.agents.__all__) <= {*SDK["modules"]["agents"], "__version__"}


@pytest.mark.parametrize("name", sorted(_left_out.NAMES))
def test_what_is_left_out_says_so_when_it_is_imported(name):
    with pytest.raises(ImportError, match=f"'{name}'"):
        importlib.import_module("placet.agents." + name)  # what the import statement asks for last
    with pytest.raises(AttributeError, match=f"'{name}'"):
        getattr(placet.agents, name)


@pytest.mark.parametrize("module", ["realtime", "voice", "sandbox", "realtime.agent", "extensions.experimental.codex"])
def test_a_module_that_is_left_out_says_why(module):
    with pytest.raises(ImportError, match=r"docs/porting\.md"):
        importlib.import_module(f"placet.agents.{module}")


def test_a_name_that_nobody_has_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = placet.agents.Agnet  # type: ignore[attr-defined]


def test_the_front_door_costs_a_program_that_does_not_use_it_nothing():
    code = "import sys, placet; print([name for name in sys.modules if name.startswith('placet.agents')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert found.stdout.strip() == "[]"


def test_the_front_door_needs_none_of_the_packages_that_are_extras():
    code = (
        "import sys\n"
        "for name in ('openai', 'mcp', 'anthropic', 'opentelemetry', 'pydantic'): sys.modules[name] = None\n"
        "import placet.agents, placet.agents.tracing, placet.agents.memory, placet.agents.testing\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_a_class_of_the_front_door_is_placets_own():
    assert placet.agents.Agent is placet.Agent
    assert placet.agents.RunState is placet.RunState
    assert placet.agents.AgentsException is placet.PlacetError
