"""Patches as texts: they fit in one place and are applied whole, or they are refused and say why."""

import random

import pytest

from placet.tools import DoesNotApply, apply_diff

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


def test_lines_are_replaced_where_they_stand() -> None:
    found = apply_diff(TEXT, "@@ def two():\n-    return 2\n+    return 22\n")

    assert found == TEXT.replace("return 2\n", "return 22\n")


def test_a_hunk_without_an_anchor_is_found_by_its_lines() -> None:
    found = apply_diff(TEXT, "@@\n def one():\n-    return 1\n+    return 11\n \n")

    assert found == TEXT.replace("return 1\n", "return 11\n")


def test_several_hunks_are_applied_in_order() -> None:
    diff = "@@ def one():\n-    return 1\n+    return 11\n@@ def two():\n-    return 2\n+    return 22\n"

    assert apply_diff(TEXT, diff) == "def one():\n    return 11\n\n\ndef two():\n    return 22\n"


def test_a_hunk_at_the_end_of_the_file_adds_there() -> None:
    found = apply_diff(TEXT, "@@\n     return 2\n+\n+three = 3\n*** End of File\n")

    assert found == TEXT + "\nthree = 3\n"


def test_a_hunk_that_only_adds_stands_behind_its_anchor() -> None:
    found = apply_diff(TEXT, "@@ def one():\n+    # the first\n")

    assert found.startswith("def one():\n    # the first\n    return 1\n")


def test_windows_line_ends_stay_what_they_are() -> None:
    found = apply_diff("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n c\n")

    assert found == "a\r\nB\r\nc\r\n"


def test_blanks_at_the_ends_of_lines_do_not_keep_a_hunk_from_fitting() -> None:
    assert apply_diff("a  \nb\n", "@@\n-a\n+A\n b\n") == "A\nb\n"


def test_a_file_without_a_last_newline_keeps_none() -> None:
    assert apply_diff("a\nb", "@@\n a\n-b\n+c\n") == "a\nc"


def test_a_new_file_is_its_plus_lines() -> None:
    assert apply_diff("", "+one\n+\n+two\n", "create") == "one\n\ntwo\n"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        ("@@\n-not there\n+x\n", "does not fit"),
        ("@@ def three():\n-    return 3\n+x\n", "there is no line"),
        ("@@\n context only\n", "changes nothing"),
        ("", "changes nothing"),
        ("@@\n?what\n", "begins with none of"),
        ("@@\n-    return 1\n+x\n*** End of File\n", "does not end with"),
        ("@@\n-x\n*** End of File\n+y\n", "follows"),
    ],
)
def test_a_patch_that_does_not_fit_says_why(diff: str, why: str) -> None:
    with pytest.raises(DoesNotApply, match=why):
        apply_diff(TEXT, diff)


def test_a_hunk_that_fits_in_several_places_is_refused() -> None:
    with pytest.raises(DoesNotApply, match=r"fits in 2 places \(lines 1, 3\)"):
        apply_diff("a\nb\na\nb\n", "@@\n-a\n+A\n")


def test_a_second_hunk_that_does_not_fit_spoils_the_whole_patch() -> None:
    with pytest.raises(DoesNotApply, match="hunk 2"):
        apply_diff(TEXT, "@@ def one():\n-    return 1\n+    return 11\n@@\n-nowhere\n+x\n")


@pytest.mark.parametrize("seed", range(200))
def test_a_patch_made_from_two_texts_turns_the_one_into_the_other(seed: int) -> None:
    chance = random.Random(seed)
    old = [f"line {number} {chance.random():.9f}" for number in range(chance.randint(1, 30))]
    new, diff, run = [], [], 0
    for line in old:
        kind = chance.choice(["keep", "keep", "keep", "drop", "change", "add"])
        new += {"keep": [line], "drop": [], "change": [f"{line}!"], "add": [line, f"{line}+"]}[kind]
        diff += {
            "keep": [f" {line}"],
            "drop": [f"-{line}"],
            "change": [f"-{line}", f"+{line}!"],
            "add": [f" {line}", f"+{line}+"],
        }[kind]
        run += kind != "keep"
    if run == 0:
        new, diff = [*new, "more"], [*diff, "+more"]
    text = "\n".join(["@@", *diff]) + "\n"

    assert apply_diff("\n".join(old) + "\n", text) == "".join(f"{line}\n" for line in new)
