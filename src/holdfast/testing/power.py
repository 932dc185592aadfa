"""Cut the power and look: a disk that keeps only what was synced must still hold every acknowledged step.

SQLite works through a recording VFS, and the steps' "asked" and "answered" go into the same log. From one
log come many crash states: up to some point of it everything synced is there, while each later write is
kept, lost or torn, in any order. Each state is laid out as real files and opened as after a reboot.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

import apsw
from msgspec import Struct, field

from holdfast.backends.sqlite import SqliteStore
from holdfast.client import Holdfast
from holdfast.testing.oracle import Broken, Finding, Tally, check, judge
from holdfast.testing.oracle_model import State, Step, after
from holdfast.testing.oracle_steps import perform, plan

StoreOpener: TypeAlias = Callable[[str, str], SqliteStore]

SECTOR = 512
STEPS = 16  # in one log: enough to make checkpoints and to go back to them
STATES_PER_LOG = 50
CHECKPOINT_PAGES = 40  # so that even a short log has checkpoints
RAM_DISK = "/dev/shm"  # the states are already crashed, so that what holds them may forget


class Write(Struct, frozen=True):
    """Bytes went into a file."""

    file: str
    offset: int
    content: bytes


class Truncate(Struct, frozen=True):
    """A file was cut."""

    file: str
    size: int


class Sync(Struct, frozen=True):
    """A file was made durable, and its folder with it, if it was a journal's first time."""

    file: str
    folder: bool


class Create(Struct, frozen=True):
    """A file was opened, and made if it was not there."""

    file: str


class Remove(Struct, frozen=True):
    """A file was removed; durable at once only if the folder was synced."""

    file: str
    folder: bool


class Mark(Struct, frozen=True):
    """A step was begun, or acknowledged; the first step is the opening."""

    what: Literal["asked", "answered"]


Event: TypeAlias = Write | Truncate | Sync | Create | Remove | Mark


class RecordingVFS(apsw.VFS):
    """The usual VFS, with a log of everything that reaches the disk."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.log: list[Event] = []

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None:
            return super().xOpen(name, flags)
        file = os.path.basename(name if isinstance(name, str) else name.filename())
        if flags[0] & apsw.SQLITE_OPEN_CREATE:
            self.log.append(Create(file))
        return RecordingFile(self.log, file, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.log.append(Remove(os.path.basename(filename), bool(syncdir)))


class RecordingFile(apsw.VFSFile):
    """An open file whose writes, cuts and syncs are logged."""

    def __init__(self, log: list[Event], file: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._log = log
        self._file = file
        # As SQLite's own unix VFS does: a new journal's first sync syncs the folder, too.
        self._new_journal = bool(
            flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        )

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._log.append(Write(self._file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._log.append(Truncate(self._file, newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._log.append(Sync(self._file, self._new_journal))
        self._new_journal = False


class Inode(Struct):
    """A file's durable bytes, and what has been done to it since they were."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Truncate] = field(default_factory=list)

    def sync(self) -> None:
        """Make everything durable."""
        for change in self.pending:
            _do(self.durable, change)
        self.pending.clear()

    def crashed(self, chance: Random) -> bytes:
        """What a power loss may leave of it."""
        content, pending = bytearray(self.durable), list(self.pending)
        keeping = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        if chance.random() < 0.3:
            chance.shuffle(pending)
        for change in pending:
            if chance.random() < keeping:
                _do(content, change)
            elif isinstance(change, Write) and chance.random() < 0.3:
                _tear(content, change, chance)
        return bytes(content)


def _do(content: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        del content[change.size :]
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.content)] = change.content


def _tear(content: bytearray, write: Write, chance: Random) -> None:
    """Of each sector that was written, the old bytes, the new ones, or rubbish; beside it, nothing changes."""
    start, end = write.offset, write.offset + len(write.content)
    for low in range(start - start % SECTOR, end, SECTOR):
        low, high = max(low, start), min(low + SECTOR, end)
        fate = chance.choices(("old", "new", "rubbish"), (5, 5, 1))[0]
        if fate != "old":
            new = write.content[low - start : high - start]
            _do(content, Write("", low, new if fate == "new" else chance.randbytes(high - low)))


class Disk:
    """A folder as it is, and as it may be after a power loss."""

    def __init__(self) -> None:
        self._names: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._pending: list[tuple[str, Inode | None]] = []
        self.asked = 0
        self.answered = 0

    def take(self, event: Event) -> None:
        """Let the event happen."""
        match event:
            case Write() | Truncate():
                self._names[event.file].pending.append(event)
            case Sync():
                self._names[event.file].sync()
            case Create() if event.file not in self._names:
                self._names[event.file] = Inode()
                self._pending.append((event.file, self._names[event.file]))
            case Remove():
                self._names.pop(event.file, None)
                self._pending.append((event.file, None))
            case Mark():
                self.asked += event.what == "asked"
                self.answered += event.what == "answered"
        if isinstance(event, Sync | Remove) and event.folder:
            self._durable = dict(self._names)
            self._pending.clear()

    def crashed(self, chance: Random) -> dict[str, bytes]:
        """The files that a power loss may leave."""
        names = dict(self._durable)
        for file, inode in self._pending[: chance.randint(0, len(self._pending))]:
            names.pop(file, None)
            if inode is not None:
                names[file] = inode
        return {file: inode.crashed(chance) for file, inode in names.items()}


def open_often_checkpointed(path: str, vfs: str) -> SqliteStore:
    """A store as users have it on a disk, but one that moves its log into the file more often."""
    store = SqliteStore(path, vfs=vfs)
    store._log._doubts = 0  # the files are in memory, where syncs take no time
    store._con.wal_autocheckpoint(CHECKPOINT_PAGES)
    return store


def record(steps: list[Step], opener: StoreOpener) -> list[Event]:
    """What reaches the disk while a new store is opened, does the steps, and is closed."""
    vfs = RecordingVFS("holdfast-recording")
    with tempfile.TemporaryDirectory(dir=_ram_disk()) as folder:
        vfs.log.append(Mark("asked"))
        with Holdfast(opener(f"{folder}/agents.db", vfs.name)) as hf:
            vfs.log.append(Mark("answered"))
            for step in steps:
                vfs.log.append(Mark("asked"))
                perform(hf, step)
                vfs.log.append(Mark("answered"))
    vfs.unregister()
    return vfs.log


def crashes(log: list[Event], number: int, chance: Random) -> Iterator[tuple[Disk, dict[str, bytes]]]:
    """So many crash states, at random points of the log, with the disk as it was at each."""
    points = sorted(chance.randint(0, len(log)) for _ in range(number))
    disk, done = Disk(), 0
    for point in points:
        for event in log[done:point]:
            disk.take(event)
        done = point
        yield disk, disk.crashed(chance)


def run(
    states: int,
    *,
    seed: int = 0,
    may_lose: bool = False,
    opener: StoreOpener = open_often_checkpointed,
    until: Broken | None = None,
) -> Tally:
    """Open so many crash states of SQLite stores and check each, or stop at the log that shows what is looked for.

    With `may_lose` the last acknowledged steps may be missing, as long as what is there is what the steps
    before them made.
    """
    tally, chance = Tally(), Random(seed)
    while tally.crashes < states and not any(problem.broken == until for problem in tally.problems):
        steps = plan(chance, State(), count(1), "w0-", STEPS)
        log = record(steps, opener)
        for disk, files in crashes(log, min(STATES_PER_LOG, states - tally.crashes), chance):
            tally.crashes += 1
            _check(disk, files, steps, may_lose, tally)
    return tally


def _check(disk: Disk, files: dict[str, bytes], steps: list[Step], may_lose: bool, tally: Tally) -> None:
    """Lay one crash state out, open it, and note what is broken; the first two marks are the opening's."""
    acked = steps[: max(0, disk.answered - 1)]
    flying = steps[len(acked) : max(0, disk.asked - 1)]
    tally.acknowledged += len(acked)
    tally.in_flight += len(flying)

    def verdict(seen: State) -> Iterator[Finding]:
        return judge_prefix([*acked, *flying], seen) if may_lose else judge(State(), acked, flying, seen)

    with tempfile.TemporaryDirectory(dir=_ram_disk()) as folder:
        for file, content in files.items():
            Path(folder, file).write_bytes(content)
        _, problems = check(tally.crashes, lambda: Holdfast(SqliteStore(f"{folder}/agents.db")), verdict)
    tally.problems += problems


def judge_prefix(attempted: list[Step], seen: State) -> Iterator[Finding]:
    """What is seen must be what some first steps of those attempted have made, and nothing else."""
    present = seen.facts()
    if all(after(State(), *attempted[:length]).facts() != present for length in range(len(attempted) + 1)):
        yield "torn", f"no first steps make what is there: {sorted(map(repr, present))}"


def _ram_disk() -> str | None:
    return RAM_DISK if os.path.isdir(RAM_DISK) else None
