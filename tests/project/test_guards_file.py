"""The list of guards stays true to the source: a guard that moved is noticed here, not only in the long run."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_harness() -> ModuleType:
    """Loaded by path: it is a script, which runs from where it lies."""
    spec = importlib.util.spec_from_file_location("guards_harness", ROOT / "tests" / "guards" / "harness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


harness = load_harness()


def test_each_guard_is_found_exactly_once_and_its_removal_compiles() -> None:
    for guard in harness.read_guards():
        source = (ROOT / "src" / "placet" / guard.file).read_text()

        assert guard.mutated(source) != source


def test_each_guard_names_tests_in_files_that_exist() -> None:
    named = [
        (guard.name, test) for guard in harness.read_guards() for test in guard.tests if not test.startswith("-k ")
    ]

    missing = [(name, test) for name, test in named if not (ROOT / test.partition("::")[0]).exists()]

    assert missing == []


ENTRY = """
[[guard]]
name = "silence-asks"
why = "Silence is not consent."
file = "core/gate.py"
find = "if verdict is not False:"
replace = "if verdict:"
tests = ["tests/core/test_gate.py"]
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ENTRY + ENTRY, "unique"),
        (ENTRY.replace("why", "because"), "fields must be"),
        (ENTRY.replace('["tests/core/test_gate.py"]', "[]"), "not empty"),
        (ENTRY.replace('"if verdict:"', '"if verdict is not False:"'), "must differ"),
        (ENTRY.replace('["tests/core/test_gate.py"]', '["-k a", "-k b"]'), "one -k"),
        ("[guards]\n", "only"),
    ],
)
def test_an_entry_that_could_not_be_judged_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "guards.toml").write_text(text)

    with pytest.raises(harness.HarnessError, match=complaint):
        harness.read_guards(tmp_path / "guards.toml")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("pass\n", "occurs 0 times"),
        ("if verdict is not False: pass\n" * 2, "occurs 2 times"),
        ("x = 1 if verdict is not False: pass\n", "does not compile"),
    ],
)
def test_a_guard_whose_place_is_not_clear_is_refused(tmp_path: Path, source: str, complaint: str) -> None:
    (tmp_path / "guards.toml").write_text(ENTRY)
    (guard,) = harness.read_guards(tmp_path / "guards.toml")

    with pytest.raises(harness.HarnessError, match=complaint):
        guard.mutated(source)
