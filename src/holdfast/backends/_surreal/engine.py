"""An engine, wherever it runs: statements go in, rows come out."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.backends._insist import Again
from holdfast.backends._surreal import schema
from holdfast.backends._surreal.turns import OVERTAKEN, CountedTurn, Turn, insist
from holdfast.contracts import Sharing
from holdfast.deadlines import deadline
from holdfast.errors import AccessDenied, BackendError, Busy, MigrationError, NotFound

_CONSEQUENCE = "not executed due to a failed transaction"
_RETRY = "can be retried"
_NO_RIGHT = re.compile("IAM error|Anonymous access not allowed|Not enough permissions|session has expired")


class Engine:
    """What folders and servers have in common; whoever writes holds `writing`."""

    sharing: Sharing
    name: str

    def __init__(self) -> None:
        self.writing = threading.RLock()

    def send(self, text: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The driver's answer."""
        raise NotImplementedError

    def version(self) -> str:
        """What the engine calls itself."""
        raise NotImplementedError

    def ask(self, text: str, variables: dict[str, Any] | None = None) -> list[Any]:
        """The results of the statements, in order; BackendError if one fails, Again if they may be repeated."""
        answer = self.send(text, variables or {})
        if "error" in answer:
            raise _failure(f"SurrealDB failed: {answer['error']}")
        refusals = [str(one["result"]) for one in answer["result"] if one["status"] != "OK"]
        if refusals:
            first = next((refusal for refusal in refusals if _CONSEQUENCE not in refusal), refusals[0])
            said = f"SurrealDB refused a statement: {first}"
            raise Again(said) if OVERTAKEN in first or _RETRY in first else _failure(said)
        return [one["result"] for one in answer["result"]]

    def rows(self, text: str, variables: dict[str, Any] | None = None) -> list[Any]:
        """The result of the last statement."""
        found: list[Any] = self.ask(text, variables)[-1]
        return found

    @contextmanager
    def to_write(self, timeout_s: float) -> Iterator[None]:
        """Hold the engine for writing; Busy if another thread does for so long."""
        if not self.writing.acquire(timeout=timeout_s):
            raise Busy("another thread holds the store; repeat, or raise timeout=")
        try:
            yield
        finally:
            self.writing.release()

    def turn(self, namespace: str) -> Turn:
        """Begin a try to write what depends on what is read from now on."""
        return Turn(self) if self.sharing == "threads" else CountedTurn(self, namespace)

    def prepare(self, read_only: bool) -> None:
        """Make the tables that are missing; NotFound if that is not allowed and there are none."""
        found = self.rows("SELECT VALUE [number, tables] FROM holdfast:format")
        number, tables = found[0] if found else (0, "")
        if number > schema.FORMAT:
            raise MigrationError(f"{self.name} has format {number}, this version reads {schema.FORMAT}: upgrade it")
        if read_only and not found:
            raise NotFound(f"there is no store at {self.name} yet; open it once without read_only")
        if not read_only and tables != schema.fingerprint():
            insist(self._define, deadline())

    def _define(self) -> None:
        mark = "UPSERT holdfast:format CONTENT {number: $number, tables: $tables} RETURN NONE"
        variables = {"number": schema.FORMAT, "tables": schema.fingerprint()}
        # In one block: hundreds of answers would take longer to read than the tables to make.
        Turn(self).transact(f"{{ {schema.definition()} }}; {mark}", variables)


def _failure(said: str) -> BackendError:
    if _NO_RIGHT.search(said):
        return AccessDenied(f"the user of the address lacks a right; grant it, or name another user: {said}")
    return BackendError(said)
