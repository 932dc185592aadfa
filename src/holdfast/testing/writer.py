"""One writer of a crowd, in a process of its own: it waits for the word, opens the store, and writes."""

from __future__ import annotations

import importlib.util
import inspect
import pickle
import sys
from operator import attrgetter
from typing import Any

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
        sys.path[:] = self.path
        spec = importlib.util.spec_from_file_location(self.module, self.file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.module] = module
        spec.loader.exec_module(module)
        kit: StoreKit = attrgetter(self.kit)(module)()
        vars(kit).update(self.attributes)
        return kit.open(self.namespace)


def write(store: RecordStore, writer: int, appends: int) -> None:
    """Append to the session "s", or make a session where there is nothing to append."""
    hf = Holdfast(store)
    if not appends:
        hf.sessions.create(id=f"of writer {writer}")
    for number in range(appends):
        hf.sessions.append("s", Message.user(f"writer {writer} message {number}"))


def main() -> None:
    """Read a job, say "ready", wait for the word, do it."""
    job: Job = pickle.load(sys.stdin.buffer)
    print("ready", flush=True)
    if sys.stdin.buffer.readline() == GO:
        store = job.open()
        write(store, job.writer, job.appends)
        store.close()
