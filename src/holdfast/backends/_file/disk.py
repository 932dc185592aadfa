"""The few things the file backend does to a disk, each by a path under one root.

Nothing here is durable until `sync` or `sync_folder` has returned; when to call them is the journal's to know.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_data_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class Disk:
    """Files and folders under a root; with `durable` False it leaves it to the system when they reach the disk."""

    def __init__(self, root: str, durable: bool = True) -> None:
        self.root = root
        self.durable = durable

    def path(self, name: str) -> str:
        """The full path of a name under the root."""
        return f"{self.root}/{name}" if name else self.root

    def read(self, name: str) -> bytes | None:
        """A file's content, or None if there is none."""
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        """Some bytes of a file; fewer, or none, if it is shorter."""
        try:
            with open(self.path(name), "rb", buffering=0) as file:
                file.seek(offset)
                return file.read(length)
        except (FileNotFoundError, NotADirectoryError):
            return b""

    def names(self, folder: str) -> list[str]:
        """What is in a folder, in a stable order; nothing if it is not there."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def write(self, name: str, offset: int, content: bytes, cut: bool = True) -> None:
        """Put bytes at an offset of a file, made if it is not there; `cut` ends the file behind them."""
        fd = os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_whole(fd, content, offset)
            if cut and os.fstat(fd).st_size > offset + len(content):
                os.ftruncate(fd, offset + len(content))
        finally:
            os.close(fd)

    def sync(self, name: str) -> None:
        """Have a file's content survive power loss."""
        if self.durable:
            fd = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                sync_file(fd)
            finally:
                os.close(fd)

    def sync_folder(self, name: str) -> None:
        """Have what a folder lists survive power loss; fine if the folder itself is gone."""
        if self.durable:
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(self.path(name), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)

    def cut(self, name: str, size: int) -> None:
        """End a file at this size, or remove it at 0; fine if it is not there."""
        with contextlib.suppress(FileNotFoundError):
            if size:
                os.truncate(self.path(name), size)
            else:
                os.unlink(self.path(name))

    def rename(self, old: str, new: str) -> None:
        """Have a file take the place of another."""
        os.rename(self.path(old), self.path(new))

    def remove(self, name: str) -> None:
        """Remove a file; fine if it is not there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(name))

    def make_folder(self, name: str) -> list[str]:
        """Make a folder and those above it; returns the folders in which one was made."""
        missing = []
        while name and not os.path.isdir(self.path(name)):
            missing.append(name)
            name = os.path.dirname(name)
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path(folder))
        return [os.path.dirname(folder) for folder in missing]

    def drop_empty(self, name: str) -> str:
        """Remove a folder and those above it as far as they are empty; returns the first that stays."""
        while name:
            try:
                os.rmdir(self.path(name))
            except FileNotFoundError:
                pass
            except OSError:
                return name
            name = os.path.dirname(name)
        return name


def write_whole(fd: int, content: bytes, offset: int) -> None:
    """Write all of it; the system may take a large write in several pieces."""
    view = memoryview(content)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def sync_file(fd: int) -> None:
    """Flush a file to the medium itself."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(fd, _FULL_SYNC)
    else:
        _data_sync(fd)
