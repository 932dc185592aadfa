"""Taking turns to write: what a commit has read must still hold when it writes.

In an engine of our own, threads queue for it. At a server, every commit of a namespace counts up one number in its own
transaction, and refuses if another has done so since it began to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from surrealdb import RecordID

from holdfast.backends._insist import Again, Pauses
from holdfast.errors import Busy, ConnectionFailed

R = TypeVar("R")

OVERTAKEN = "another writer was faster"


class Asks(Protocol):
    """Where statements go."""

    def ask(self, text: str, variables: dict[str, Any] | None = None) -> list[Any]:
        """The results of the statements, in order."""
        ...


class Turn:
    """One try to write, by one who holds the engine."""

    def __init__(self, engine: Asks) -> None:
        self._engine = engine

    def transact(self, statements: str, variables: dict[str, Any]) -> None:
        """Carry out all statements or none."""
        if not statements:
            return
        try:
            self._engine.ask(f"BEGIN; {statements}; COMMIT", variables)
        except ConnectionFailed as cause:
            raise ConnectionFailed(str(cause), outcome="unknown") from cause


class CountedTurn(Turn):
    """One try to write at a server; Again if another commit of the namespace came between."""

    def __init__(self, engine: Asks, namespace: str) -> None:
        super().__init__(engine)
        self._place = RecordID("turns", [namespace])
        found = engine.ask("SELECT VALUE number FROM $turn", {"turn": self._place})[-1]
        self._number = int(found[0]) if found else 0

    def transact(self, statements: str, variables: dict[str, Any]) -> None:
        # Two transactions that write one row cannot both commit, whatever the server's engine makes of reads.
        count = (
            f'IF ((SELECT VALUE number FROM $turn)[0] ?? 0) != $number {{ THROW "{OVERTAKEN}" }};'
            " UPSERT $turn CONTENT {number: $number + 1} RETURN NONE"
        )
        super().transact(f"{count}; {statements}", {**variables, "turn": self._place, "number": self._number})
        self._number += 1


def insist(work: Callable[[], R], until: float) -> R:
    """Try until nobody was faster; Busy at the limit."""
    pauses = Pauses(until)
    while True:
        try:
            return work()
        except Again:
            pauses.wait(Busy("other writers were faster until the timeout; nothing was written"))
