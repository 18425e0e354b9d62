"""A careful editor for `ApplyPatchTool`: below one folder, all changes of a call or none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from placet.tools.diffs import DoesNotApply, apply_diff
from placet.tools.patch import ApplyPatchOperation, ApplyPatchResult
from placet.tools.rooted_files import DEFAULT_LIMIT, NotAllowed, RootedFiles


@dataclass(slots=True)
class _Change:
    """One operation on its way: what is staged beside its place, and what was set aside."""

    path: str
    is_new: bool
    staged: str | None = None
    aside: str | None = None
    is_done: bool = False


class LocalEditor:
    """Applies patches to text files below `root`. It follows no links, leaves folders alone and refuses what is not
    text or larger than `limit` bytes.

    The changes of one call are checked and written beside their places first; only then are they put there, one by one,
    and taken back if one cannot be. (A power cut between two of them leaves the first: the call is then in doubt.)
    """

    def __init__(self, root: str | os.PathLike[str], *, limit: int = DEFAULT_LIMIT) -> None:
        self._files = RootedFiles(root, limit=limit)

    async def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.apply_all([operation])

    async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.apply_all([operation])

    async def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.apply_all([operation])

    async def apply_all(self, operations: Sequence[ApplyPatchOperation]) -> ApplyPatchResult:
        """All of them, or none and the reason."""
        return await asyncio.to_thread(self._apply_all, operations)

    def _apply_all(self, operations: Sequence[ApplyPatchOperation]) -> ApplyPatchResult:
        changes: list[_Change] = []
        try:
            self._require_one_each(operations)
            for operation in operations:
                self._stage(operation, changes)  # one by one: what is staged before a failure is taken back
            for change in changes:
                self._carry_out(change)
        except (DoesNotApply, NotAllowed, OSError) as error:
            kept = self._take_back(changes)
            where = f" But these could not be taken back: {', '.join(kept)}." if kept else " Nothing was changed."
            return ApplyPatchResult(status="failed", output=f"The patch was not applied: {_text(error)}.{where}")
        for change in changes:
            if change.aside is not None:
                self._files.discard(change.path, change.aside)
        return ApplyPatchResult(status="completed", output="\n".join(map(_line_about, operations)))

    @staticmethod
    def _require_one_each(operations: Sequence[ApplyPatchOperation]) -> None:
        paths = [os.path.normpath(operation.path) for operation in operations]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise NotAllowed(f"'{twice}' stands in it more than once: put its hunks into one operation")

    def _stage(self, operation: ApplyPatchOperation, changes: list[_Change]) -> None:
        path, files = operation.path, self._files
        match operation.type:
            case "create_file":
                if files.exists(path):
                    raise NotAllowed(f"'{path}' is there already: update it, or delete it first")
                text = apply_diff("", operation.diff or "", "create")
                changes.append(_Change(path, is_new=True, staged=files.stage(path, text)))
            case "update_file":
                changes.append(_Change(path, is_new=False, staged=files.stage(path, self._updated(operation))))
            case "delete_file":
                files.read(path)  # what cannot be read cannot be put back either
                changes.append(_Change(path, is_new=False))

    def _updated(self, operation: ApplyPatchOperation) -> str:
        try:
            return apply_diff(self._files.read(operation.path), operation.diff or "")
        except DoesNotApply as error:
            raise DoesNotApply(f"in '{operation.path}', {error}") from error

    def _carry_out(self, change: _Change) -> None:
        if not change.is_new:
            change.aside = self._files.set_aside(change.path)
        if change.staged is not None:
            self._files.put(change.path, change.staged)
            change.staged = None
        change.is_done = True

    def _take_back(self, changes: Sequence[_Change]) -> list[str]:
        """Undo what was done, in reverse; the paths where that failed."""
        stuck = []
        for change in reversed(changes):
            try:
                if change.aside is not None:
                    self._files.put(change.path, change.aside)
                elif change.is_new and change.is_done:
                    self._files.discard(change.path, PurePosixPath(change.path).name)
            except (OSError, NotAllowed):
                stuck.append(change.path)
            if change.staged is not None:
                with suppress(OSError, NotAllowed):
                    self._files.discard(change.path, change.staged)
        return stuck


def _line_about(operation: ApplyPatchOperation) -> str:
    verb = {"create_file": "Created", "update_file": "Updated", "delete_file": "Deleted"}[operation.type]
    return f"{verb} {operation.path}"


def _text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"'{error.filename}': {error.strerror}" if error.filename else str(error.strerror)
    return str(error)
