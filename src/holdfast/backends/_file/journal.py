"""The journal that makes a commit of several files one step.

A commit is written here whole and synced, then carried out on the files, each synced in turn, then marked
done. Whoever next takes the lock and finds it pending carries it out again: every step may be repeated.
One that is not whole was never begun, and is forgotten.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from holdfast.backends._file.disk import Disk
from holdfast.errors import BackendError, ConnectionFailed

FOLDER = ".holdfast"
JOURNAL = f"{FOLDER}/journal"
TEMPORARY = f"{FOLDER}/tmp"

_PENDING = b"pending "
_DONE = b"done    "
_HEADER = re.compile(rb"pending ([0-9a-f]{64}) +([0-9]+)\n")
_INSIDE = re.compile(r"[a-z0-9_.%~-]+(?:/[a-z0-9_.%~-]+)*")
_PAGE = 4096  # whole pages are overwritten in place, which a sync writes without touching metadata
_KEEP = 1 << 20


class Step(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One change to one file, which may be made twice.

    append: `content` at `offset`, where the file then ends. replace: `content` takes the place of the file.
    move: the temporary file `source` does. blank: spaces over each (offset, length). remove: nothing does.
    """

    do: Literal["append", "replace", "move", "blank", "remove"]
    path: str
    content: bytes = b""
    offset: int = 0
    source: str = ""
    spans: list[tuple[int, int]] = []


_decode_step = msgspec.json.Decoder(Step).decode


class Journal:
    """Carries out commits on a disk. Its user holds the exclusive lock."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._made = 0
        self._unsynced: set[str] = set()

    def begin(self) -> None:
        """Have the journal itself survive power loss, before anything relies on it, and clear up."""
        self._clear_temporaries()
        if not self._disk.read(JOURNAL):
            self._disk.write(JOURNAL, 0, b"")
            for folder in (FOLDER, ""):
                self._disk.sync_folder(folder)
            self._wipe()

    def prepare(self, content: bytes) -> str:
        """A synced temporary file with this content, for a later `move`."""
        name = self._temporary("prepared", content)
        self._disk.sync_folder(TEMPORARY)
        return name

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Make all changes or none, durably; `mark_done` is left to do.

        BackendError if nothing was changed; ConnectionFailed with an unknown outcome if it stopped in the
        middle, in which case the next to take the lock finishes it.
        """
        try:
            self._write(steps)
            staged = self._stage(steps)
        except OSError as cause:
            self._undo(steps, cause)
            raise BackendError(f"the disk refused: {cause}; nothing was written") from cause
        try:
            self._finish(steps, staged)
        except OSError as cause:
            raise unknown(cause) from cause

    def recover(self) -> bool:
        """Finish what a dead process left, or forget it if it was not whole; True if there was anything."""
        content = self._disk.read(JOURNAL) or b""
        steps = read_steps(content)
        try:
            if steps is not None:
                # The dead process may have made any of these folders without syncing what lists them.
                self._unsynced.update(folder for step in steps for folder in _above(step.path))
                self._finish(steps, self._stage(steps))
            self._wipe()
            self._clear_temporaries()
        except OSError as cause:
            raise BackendError(f"an interrupted commit cannot be finished: {cause}; make room, then repeat") from cause
        return content.startswith(_PENDING)

    def _write(self, steps: Sequence[Step]) -> None:
        payload = b"".join(_encoded(steps))
        header = b"%s%s %12d\n" % (_PENDING, hashlib.sha256(payload).hexdigest().encode(), len(payload))
        length = len(header) + len(payload)
        self._disk.write(JOURNAL, 0, (header + payload).ljust(-(-length // _PAGE) * _PAGE, b"\n"))
        self._disk.sync(JOURNAL)

    def _stage(self, steps: Sequence[Step]) -> list[str]:
        """Do what takes room: lengthen logs and write new contents beside the old ones."""
        staged = []
        for step in steps:
            source = step.source
            if step.do == "append":
                self._append(step)
            elif step.do == "replace":
                source = self._temporary("staged", step.content)
            staged.append(source)
        return staged

    def _append(self, step: Step) -> None:
        folder = os.path.dirname(step.path)
        self._make_folder(folder)
        if step.offset == 0:
            self._unsynced.add(folder)
        self._disk.write(step.path, step.offset, step.content)
        self._disk.sync(step.path)

    def _temporary(self, why: str, content: bytes) -> str:
        # Whoever recovers counts anew, and must not stage over what was prepared.
        self._made += 1
        name = f"{TEMPORARY}/{why}-{self._made}"
        try:
            self._disk.write(name, 0, content)
            self._disk.sync(name)
        except OSError:
            self._disk.remove(name)
            raise
        return name

    def _finish(self, steps: Sequence[Step], staged: Sequence[str]) -> None:
        """Do what takes no room: put new contents in place, and remove."""
        for step, source in zip(steps, staged, strict=True):
            if step.do == "blank":
                self._make_folder(os.path.dirname(step.path))
                for offset, length in step.spans:
                    self._disk.write(step.path, offset, b" " * length, cut=False)
                self._disk.sync(step.path)
            elif step.do == "remove":
                self._disk.remove(step.path)
                self._unsynced.add(self._disk.drop_empty(os.path.dirname(step.path)))
            elif source:
                self._put(source, step.path)
        for folder in sorted(self._unsynced):
            self._disk.sync_folder(folder)
        self._unsynced.clear()

    def _put(self, source: str, path: str) -> None:
        folder = os.path.dirname(path)
        self._unsynced.add(folder)
        try:
            self._disk.rename(source, path)
        except FileNotFoundError:
            self._make_folder(folder)
            if os.path.basename(source) in self._disk.names(TEMPORARY):
                self._disk.rename(source, path)
            # Otherwise it was moved before the interruption.

    def _make_folder(self, folder: str) -> None:
        self._unsynced.update(self._disk.make_folder(folder))

    def mark_done(self, steps: Sequence[Step]) -> None:
        """Say that the last commit is carried out.

        Not synced, for to carry it out again changes nothing. What a commit removes must not stay here.
        """
        if removes(steps) or sum(len(step.content) for step in steps) > _KEEP:
            self._wipe()
        else:
            self._disk.write(JOURNAL, 0, _DONE, cut=False)

    def _wipe(self) -> None:
        self._disk.write(JOURNAL, 0, _DONE, cut=True)

    def _undo(self, steps: Sequence[Step], cause: OSError) -> None:
        try:
            for step in steps:
                if step.do == "append":
                    self._disk.cut(step.path, step.offset)
                    if step.offset:
                        self._disk.sync(step.path)
                    else:
                        self._disk.sync_folder(self._disk.drop_empty(os.path.dirname(step.path)))
            self._wipe()
            self._disk.sync(JOURNAL)
            self._clear_temporaries()
        except OSError:
            raise unknown(cause) from cause

    def _clear_temporaries(self) -> None:
        for name in self._disk.names(TEMPORARY):
            self._disk.remove(f"{TEMPORARY}/{name}")


def _above(path: str) -> Iterator[str]:
    while path:
        path = os.path.dirname(path)
        yield path


def removes(steps: Sequence[Step]) -> bool:
    """Whether something is gone after these steps that was there before."""
    return any(step.do not in ("append", "replace") for step in steps)


def is_pending(journal: int) -> bool:
    """Whether the open journal holds a commit that nobody has marked done."""
    return os.pread(journal, len(_PENDING), 0) == _PENDING


def unknown(cause: OSError) -> ConnectionFailed:
    """The error for a commit that may or may not take effect."""
    return ConnectionFailed(
        f"the disk failed in the middle of a commit: {cause}; repeating it with the same ids is safe", "unknown"
    )


def _encoded(steps: Sequence[Step]) -> Iterator[bytes]:
    for step in steps:
        yield b"%d %s\n" % (len(step.content), msgspec.json.encode(replace(step, content=b"")))
        yield step.content
        yield b"\n"


def read_steps(journal: bytes) -> list[Step] | None:
    """The steps of a pending commit; None if there is none, or if it was never written whole."""
    header = _HEADER.match(journal)
    if header is None:
        return None
    payload = journal[header.end() : header.end() + int(header[2])]
    if hashlib.sha256(payload).hexdigest().encode() != header[1]:
        return None
    return list(_decoded(payload))


def _decoded(payload: bytes) -> Iterator[Step]:
    at = 0
    while at < len(payload):
        end = payload.index(b"\n", at)
        size, _, head = payload[at:end].partition(b" ")
        step = _decode_step(head)
        at = end + 1 + int(size) + 1
        if _INSIDE.fullmatch(step.path) is None or ".." in step.path.split("/"):
            raise BackendError(f"the journal names {step.path!r}, which is no file of the store; remove it by hand")
        yield replace(step, content=payload[end + 1 : at - 1])
