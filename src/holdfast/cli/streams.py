"""The standard streams as a caller leaves them: closed, unbuffered, or with nobody at the other end any more."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Literal, TextIO


def stand_in() -> None:
    """Make the standard streams usable, whatever the caller has done with them."""
    # Whatever is opened next gets the lowest free number: a store's file must not become standard output.
    sys.stdin = sys.stdin or _opened(os.O_RDONLY, "r")
    sys.stdout = sys.stdout or _opened(os.O_RDONLY, "w")  # read-only, so that a write to it fails
    sys.stderr = sys.stderr or _opened(os.O_WRONLY, "w")
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):  # PYTHONUNBUFFERED
        sys.stdout = _whole_writes(sys.stdout)


def _opened(flags: int, mode: Literal["r", "w"]) -> TextIO:
    return io.TextIOWrapper(os.fdopen(os.open(os.devnull, flags), "rb" if mode == "r" else "wb"), encoding="utf-8")


def _whole_writes(stream: TextIO) -> TextIO:
    """The stream with a buffer: without one, Python drops what a pipe does not take at once, and says nothing."""
    buffer = io.BufferedWriter(io.FileIO(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)


def is_closed(error: OSError) -> bool:
    """Whether an error says that the caller gave no standard output to write to."""
    return error.errno == errno.EBADF and error.filename is None


def let_go_of_stdout() -> None:
    """Keep the interpreter from complaining about a closed pipe when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
