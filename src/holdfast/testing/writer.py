"""Writers of a crowd, each in a process of its own: they wait for the word, open the store, and write."""

from __future__ import annotations

import importlib.util
import inspect
import os
import pickle
import sys
import traceback
from operator import attrgetter
from typing import IO, Any

from msgspec import Struct

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.model import Message
from holdfast.testing.opening import StoreKit

GO = b"go\n"
COMMAND = [sys.executable, "-c", "from holdfast.testing.writer import main; main()"]


class Job(Struct, frozen=True, kw_only=True):
    """What a writer does, and everything it needs to open the store as the kit does."""

    writer: int
    appends: int
    namespace: str
    path: list[str]
    module: str
    file: str
    kit: str
    attributes: dict[str, Any]

    @classmethod
    def of(cls, kit: StoreKit, namespace: str, writer: int, appends: int) -> Job:
        """The job for another process; what the kit's `open` uses must be something pickle can carry."""
        return cls(
            writer=writer,
            appends=appends,
            namespace=namespace,
            path=sys.path,
            module=type(kit).__module__,
            file=inspect.getfile(type(kit)),
            kit=type(kit).__qualname__,
            attributes=vars(kit),
        )

    def open(self) -> RecordStore:
        """The store, opened as the kit does in its own process."""
        return self.load().open(self.namespace)

    def load(self) -> StoreKit:
        """The kit, as it is in its own process."""
        sys.path[:] = self.path
        spec = importlib.util.spec_from_file_location(self.module, self.file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.module] = module
        spec.loader.exec_module(module)
        kit: StoreKit = attrgetter(self.kit)(module)()
        vars(kit).update(self.attributes)
        return kit


def write(store: RecordStore, writer: int, appends: int) -> None:
    """Append to the session "s", or make a session where there is nothing to append."""
    hf = Holdfast(store)
    if not appends:
        hf.sessions.create(id=f"of writer {writer}")
    for number in range(appends):
        hf.sessions.append("s", Message.user(f"writer {writer} message {number}"))


def main() -> None:
    """Read jobs, fork a writer for each, say "ready", give them the word; then say how each has fared.

    The test's module is loaded once, by the parent, which opens no store: that takes longer than all the writing.
    """
    jobs: list[Job] = pickle.load(sys.stdin.buffer)
    kit = jobs[0].load()
    waiting, word = os.pipe()
    writers = [_fork(kit, job, waiting, word) for job in jobs]
    os.close(waiting)
    print("ready", flush=True)
    if sys.stdin.buffer.readline() == GO:
        os.close(word)
        pickle.dump([writer.read() for writer in writers], sys.stdout.buffer)
        sys.stdout.flush()


def _fork(kit: StoreKit, job: Job, waiting: int, word: int) -> IO[str]:
    """A writer in a process of its own, and what it has to complain of."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(word)
        os.read(waiting, 1)  # until the word is given, which is that nobody can give one any more
        try:
            store = kit.open(job.namespace)
            write(store, job.writer, job.appends)
            store.close()
        except BaseException:  # noqa: BLE001 — whatever it was is told to the parent
            os.write(theirs, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(theirs)
    return os.fdopen(ours)
