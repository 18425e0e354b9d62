"""The list of promises and the tests agree, in both directions."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.promises.marks import all_marks, marks_in

ROOT = Path(__file__).resolve().parents[2]
PROMISES = tomllib.loads(Path(__file__).with_name("promises.toml").read_text())["promise"]
MARKS = all_marks(ROOT)
IDS = [promise["id"] for promise in PROMISES]


def test_the_list_holds_each_promise_once_and_in_order():
    numbers = [int(each.removeprefix("P")) for each in IDS]

    assert numbers == sorted(set(numbers))
    assert set(range(1, 18)) <= set(numbers)


@pytest.mark.parametrize("promise", PROMISES, ids=IDS)
def test_each_promise_has_a_name_a_sentence_and_a_status(promise):
    assert promise["name"]
    assert promise["says"].endswith(".")
    assert promise["status"] in {"kept", "open"}
    assert promise.keys() <= {"id", "name", "says", "status", "tests", "missing", "later"}


@pytest.mark.parametrize("promise", PROMISES, ids=IDS)
def test_a_kept_promise_has_tests_and_an_open_one_says_what_is_missing(promise):
    if promise["status"] == "kept":
        assert promise["tests"]
        assert "missing" not in promise
    else:
        assert promise["missing"]


@pytest.mark.parametrize("promise", PROMISES, ids=IDS)
def test_each_test_on_the_list_exists_and_is_marked_with_its_promise(promise):
    unknown = [test for test in promise.get("tests", []) if test not in MARKS]
    unmarked = [test for test in promise.get("tests", []) if promise["id"] not in MARKS.get(test, {promise["id"]})]

    assert unknown == []
    assert unmarked == []


def test_no_test_is_marked_with_a_promise_that_is_not_on_the_list():
    strangers = {test: marks - set(IDS) for test, marks in MARKS.items() if marks - set(IDS)}

    assert strangers == {}


@pytest.mark.parametrize("promise", PROMISES, ids=IDS)
def test_each_marked_test_of_this_folder_is_on_the_list(promise):
    marked = [
        test for test, marks in MARKS.items() if promise["id"] in marks and test.startswith("tests/promises/test_p")
    ]

    assert [test for test in marked if test not in promise.get("tests", [])] == []


def test_the_scan_sees_marks_on_functions_classes_and_files(tmp_path):
    source = tmp_path / "test_marks.py"
    source.write_text(
        "import pytest\n"
        "pytestmark = [pytest.mark.promise('P1'), pytest.mark.slow]\n"
        "@pytest.mark.promise('P2', 'P3')\n"
        "def test_one(): ...\n"
        "async def test_two(): ...\n"
        "@pytest.mark.promise('P4')\n"
        "class TestGroup:\n"
        "    pytestmark = pytest.mark.promise('P5')\n"
        "    def test_three(self): ...\n"
        "def helper(): ...\n"
    )

    assert marks_in(source, "t.py") == {
        "t.py::test_one": {"P1", "P2", "P3"},
        "t.py::test_two": {"P1"},
        "t.py::TestGroup::test_three": {"P1", "P4", "P5"},
    }
