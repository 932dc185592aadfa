"""What an import took, and what it has to say about the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from msgspec import Struct

from holdfast.errors import AlreadyExists, Conflict, CorruptData, InvalidInput, NotFound, SerializationError


class Note(Struct, frozen=True, kw_only=True):
    """Something that was not taken, or was inferred, or looks wrong; `where` names the file and the place in it."""

    where: str
    what: str


class Taken(Struct, frozen=True, kw_only=True):
    """What one import added; importing the same again adds nothing, so all its counts are 0."""

    format: str
    agents: int = 0
    sessions: int = 0
    messages: int = 0
    checkpoints: int = 0
    executions: int = 0
    usages: int = 0
    artifacts: int = 0
    notes: list[Note] = []


Progress: TypeAlias = Callable[[Taken], None]

# What is wrong with one thing of the source must not stop the import of the rest.
_OF_ONE_THING = (AlreadyExists, Conflict, CorruptData, InvalidInput, NotFound, SerializationError, OSError)


class Report:
    """The counts and notes of an import under way."""

    def __init__(self, format: str, progress: Progress | None = None) -> None:
        self.format = format
        self.agents = self.sessions = self.messages = self.checkpoints = 0
        self.executions = self.usages = self.artifacts = 0
        self.understood = False
        self._notes: list[Note] = []
        self._progress = progress

    def note(self, where: str, what: str) -> None:
        """Write down what a person should know."""
        self._notes.append(Note(where=where, what=what))

    @contextmanager
    def noting(self, where: str) -> Iterator[None]:
        """A scope in which what cannot be read or stored becomes a note; trouble with the store itself is raised."""
        try:
            yield
        except _OF_ONE_THING as cause:
            self.note(where, f"not taken: {str(cause).removeprefix(f'{where}: ')}")
        except RecursionError:
            self.note(where, "not taken: it is nested too deeply")

    def must_be_understood(self, source: str) -> None:
        """InvalidInput if nothing at all of the source was in this format, and something was in another."""
        if self._notes and not self.understood:
            first = self._notes[0]
            raise InvalidInput(f"nothing in {source!r} can be read as {self.format}; {first.where}: {first.what}")

    def step(self) -> None:
        """Tell whoever watches how far it has come."""
        if self._progress is not None:
            self._progress(self.taken())

    def taken(self) -> Taken:
        """What was added so far."""
        counts = {name: getattr(self, name) for name in Taken.__struct_fields__ if name not in ("format", "notes")}
        return Taken(format=self.format, notes=[*self._notes], **counts)
