"""The careful editor: below its folder and nowhere else, all changes of a call or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.tools import ApplyPatchOperation, ApplyPatchResult, LocalEditor

Op = ApplyPatchOperation


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.txt").write_text("three\n")
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(result: ApplyPatchResult, why: str) -> None:
    assert result.status == "failed"
    assert why in (result.output or "")
    assert "Nothing was changed." in (result.output or "")


async def test_files_are_created_changed_and_deleted_together(root: Path) -> None:
    result = await LocalEditor(root).apply_all([
        Op("update_file", "a.txt", "@@\n one\n-two\n+2\n"),
        Op("create_file", "new/deep/c.txt", "+hello\n"),
        Op("delete_file", "b.txt"),
    ])  # fmt: skip

    assert result == ApplyPatchResult("completed", "Updated a.txt\nCreated new/deep/c.txt\nDeleted b.txt")
    assert everything(root) == {"a.txt": b"one\n2\n", "new/deep/c.txt": b"hello\n"}


async def test_a_patch_of_which_one_part_does_not_fit_changes_nothing_at_all(root: Path) -> None:
    before = everything(root)

    result = await LocalEditor(root).apply_all([
        Op("update_file", "a.txt", "@@\n one\n-two\n+2\n"),
        Op("create_file", "c.txt", "+hello\n"),
        Op("update_file", "b.txt", "@@\n-four\n+4\n"),
    ])  # fmt: skip

    refused(result, "in 'b.txt', hunk 1 does not fit")
    assert everything(root) == before


async def test_a_change_that_fails_when_it_is_put_in_place_is_taken_back_with_all_others(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replaced, real = everything(root), [], os.replace

    def fails_at_the_third(source: str, target: str, **options: int) -> None:
        replaced.append(target)
        if len(replaced) == 3:
            raise OSError(28, "No space left on device", target)
        real(source, target, **options)

    monkeypatch.setattr(os, "replace", fails_at_the_third)
    result = await LocalEditor(root).apply_all([
        Op("update_file", "a.txt", "@@\n one\n-two\n+2\n"),
        Op("create_file", "c.txt", "+hello\n"),
        Op("update_file", "b.txt", "@@\n-three\n+3\n"),
    ])  # fmt: skip

    refused(result, "No space left on device")
    assert everything(root) == before


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "/etc/passwd",
        "sub/../../outside.txt",
        "",
        "sub/",
        "a\0b",
        "..",
        ".",
        "sub\\..\\..\\outside.txt",
    ],
)
@pytest.mark.parametrize("kind", ["create_file", "update_file", "delete_file"])
async def test_a_path_that_leads_out_of_the_folder_is_refused(root: Path, path: str, kind: str) -> None:
    outside = root.parent / "outside.txt"
    outside.write_text("secret\n")

    result = await LocalEditor(root).apply_all(
        [Op(kind, path, "+x\n" if kind == "create_file" else "@@\n-secret\n+x\n")]
    )

    assert result.status == "failed"
    assert outside.read_text() == "secret\n"


@pytest.mark.parametrize("kind", ["create_file", "update_file", "delete_file"])
async def test_links_are_not_followed_neither_to_files_nor_through_folders(root: Path, kind: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret\n")
    (root / "file-link").symlink_to(outside / "secret.txt")
    (root / "folder-link").symlink_to(outside)
    diff = "+x\n" if kind == "create_file" else "@@\n-secret\n+x\n"

    for path in ("file-link", "folder-link/secret.txt", "folder-link/new.txt"):
        result = await LocalEditor(root).apply_all([Op(kind, path, diff)])

        assert result.status == "failed", path
    assert everything(outside) == {"secret.txt": b"secret\n"}


async def test_what_is_not_a_text_file_is_left_alone(root: Path) -> None:
    (root / "binary").write_bytes(b"\xff\xfe\x00")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    editor = LocalEditor(root)

    refused(await editor.update_file(Op("update_file", "binary", "@@\n-a\n+b\n")), "not a text")
    refused(await editor.delete_file(Op("delete_file", "folder")), "not a plain file")
    refused(await editor.update_file(Op("update_file", "pipe", "@@\n-a\n+b\n")), "not a plain file")
    refused(await editor.update_file(Op("update_file", "missing", "@@\n-a\n+b\n")), "no such file")
    refused(await editor.create_file(Op("create_file", "a.txt", "+b\n")), "there already")


async def test_sizes_have_a_limit(root: Path) -> None:
    editor = LocalEditor(root, limit=10)
    (root / "large").write_text("x" * 11)

    refused(await editor.update_file(Op("update_file", "large", "@@\n-a\n+b\n")), "11 bytes, and 10 are allowed")
    refused(await editor.create_file(Op("create_file", "c", "+0123456789\n")), "11 bytes, and 10 are allowed")


async def test_a_file_that_stands_twice_in_one_call_is_refused(root: Path) -> None:
    result = await LocalEditor(root).apply_all([
        Op("update_file", "a.txt", "@@\n-one\n+1\n two\n"),
        Op("delete_file", "./a.txt"),
    ])  # fmt: skip

    refused(result, "more than once")


async def test_permissions_of_a_changed_file_stay(root: Path) -> None:
    (root / "a.txt").chmod(0o750)

    await LocalEditor(root).update_file(Op("update_file", "a.txt", "@@\n one\n-two\n+2\n"))

    assert (root / "a.txt").stat().st_mode & 0o777 == 0o750
