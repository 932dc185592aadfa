"""Whether a store may still be used: not once it is closed, not in a forked child, and not to write if read-only."""

from __future__ import annotations

import os
from urllib.parse import unquote

from holdfast.errors import BackendError, InvalidInput, NotFound, Unsupported

_getpid = os.getpid


class Opened:
    """The state of a store between open and close."""

    def __init__(self, read_only: bool = False) -> None:
        self.read_only = read_only
        self.closed = False
        self._pid = os.getpid()

    def is_to_close(self) -> bool:
        """Whether it is open, and this process's to end."""
        return not self.closed and os.getpid() == self._pid

    def close(self) -> bool:
        """End it; False if that had been done before, or if it is the parent's to end."""
        ended = self.is_to_close()
        self.closed = True
        return ended

    def to_read(self) -> None:
        """BackendError if the store is closed or another process's."""
        if self.closed:
            raise BackendError("the store is closed; open it again")
        if _getpid() != self._pid:
            raise BackendError("the store was opened before a fork; open it again in the child process")

    def to_write(self) -> None:
        """The same, and Unsupported if the store was opened read-only."""
        if self.closed or self.read_only or _getpid() != self._pid:
            self.to_read()
            raise Unsupported("the store was opened read-only; open it without read_only to write")


def path_of(url: str, example: str) -> str:
    """The path that an address names: behind three slashes a relative one, behind four an absolute one."""
    scheme, _, rest = url.partition(":")
    if "?" in rest or "#" in rest:
        raise InvalidInput(f"{url!r} has a ? or #; options are given to open(), and in a path these are %3F and %23")
    path = unquote(rest)
    path, named = path.removeprefix("///"), path.startswith("///") and len(path) > 3
    if not named:
        raise InvalidInput(f"{url!r} names no path; write {scheme}:///{example} or {scheme}:////tmp/{example}")
    return path


def no_folder(path: str) -> NotFound:
    """The folder around a store is not there; many write three slashes and mean four."""
    rooted = f"/{path}"
    meant = not os.path.isabs(path) and os.path.isdir(os.path.dirname(rooted))
    hint = f", or write four slashes, which lead to {rooted}" if meant else ""
    return NotFound(f"the folder {os.path.dirname(os.path.abspath(path))} does not exist; create it first{hint}")
