"""Files below one folder and nowhere else: every step of a path is taken from the open folder before it, and no link is
ever followed, so that neither `..` nor a link that is put there in between leads out.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

DEFAULT_LIMIT = 4 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotAllowed(ValueError):
    """What the path names may not be touched, or cannot be; nothing was changed."""


class RootedFiles:
    """Reads and replaces text files below `root`."""

    def __init__(self, root: str | os.PathLike[str], *, limit: int = DEFAULT_LIMIT) -> None:
        self.root = Path(root).resolve(strict=True)
        if not self.root.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "the root of a patch tool is a folder", str(self.root))
        self.limit = limit

    def read(self, path: str) -> str:
        with self._folder_of(path) as (folder, name):
            return self._read(folder, name, path)

    def exists(self, path: str) -> bool:
        try:
            with self._folder_of(path) as (folder, name):
                os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def stage(self, path: str, text: str) -> str:
        """Write the text beside its place, durably; the name under which it waits for `put`."""
        data = text.encode()
        if len(data) > self.limit:
            raise NotAllowed(f"'{path}' would have {len(data):,} bytes, and {self.limit:,} are allowed")
        with self._folder_of(path, make=True) as (folder, name):
            mode = self._mode(folder, name, path)
            waiting = f".{name[:100]}.{secrets.token_hex(6)}.new"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(waiting, flags, mode, dir_fd=folder)
            with os.fdopen(file, "wb") as out:
                os.fchmod(out.fileno(), mode)
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            return waiting

    def put(self, path: str, waiting: str) -> None:
        """Move what `stage` wrote into its place, in one step."""
        with self._folder_of(path) as (folder, name):
            os.replace(waiting, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def set_aside(self, path: str) -> str:
        """Give the file another name beside its place, from which `put` brings it back."""
        with self._folder_of(path) as (folder, name):
            self._mode(folder, name, path)
            aside = f".{name[:100]}.{secrets.token_hex(6)}.old"
            os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
            return aside

    def discard(self, path: str, waiting: str) -> None:
        """Remove what `stage` or `set_aside` left beside the place."""
        with suppress(FileNotFoundError), self._folder_of(path) as (folder, _):
            os.unlink(waiting, dir_fd=folder)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _read(self, folder: int, name: str, path: str) -> str:
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            raise _explained(error, path) from error
        try:
            facts = os.fstat(file)
            self._require_plain(facts, path)
        except NotAllowed:
            os.close(file)
            raise
        with os.fdopen(file, "rb") as found:
            if facts.st_size > self.limit:
                raise NotAllowed(f"'{path}' has {facts.st_size:,} bytes, and {self.limit:,} are allowed")
            data = found.read(self.limit + 1)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise NotAllowed(f"'{path}' is not a text: byte {error.start} is no UTF-8") from error

    def _mode(self, folder: int, name: str, path: str) -> int:
        """The permissions of what stands there now, or of a new file; anything but a plain file is refused."""
        try:
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return 0o644
        self._require_plain(facts, path)
        return stat.S_IMODE(facts.st_mode) & 0o777

    @staticmethod
    def _require_plain(facts: os.stat_result, path: str) -> None:
        if stat.S_ISLNK(facts.st_mode):
            raise NotAllowed(f"'{path}' is a link, and links are not followed")
        if not stat.S_ISREG(facts.st_mode):
            raise NotAllowed(f"'{path}' is not a plain file")

    @contextmanager
    def _folder_of(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder in which the path's last part stands, and that part."""
        *steps, name = _parts(path)
        folder = os.open(self.root, _FOLDER)
        try:
            for step in steps:
                folder = _into(folder, step, path, make=make)
            yield folder, name
        finally:
            os.close(folder)


def _into(folder: int, step: str, path: str, *, make: bool) -> int:
    """The folder one step further down; the one above is closed."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(step, 0o755, dir_fd=folder)
        below = os.open(step, _FOLDER, dir_fd=folder)
    except OSError as error:
        raise _explained(error, path) from error
    os.close(folder)
    return below


def _parts(path: str) -> tuple[str, ...]:
    if not path or "\0" in path or "\\" in path:
        raise NotAllowed(f"{path!r} is not the path of a file")
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise NotAllowed(f"'{path}' leads out of the folder that may be changed: give a path below it")
    if not parts or path.endswith("/"):
        raise NotAllowed(f"{path!r} is not the path of a file")
    return parts


def _explained(error: OSError, path: str) -> Exception:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        return NotAllowed(f"'{path}' goes through a link or through something that is no folder")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such file", path)
    return NotAllowed(f"'{path}' cannot be opened: {error.strerror}")
