"""Damage: what it concerns, what to do about it, and a word beside each message that is not what was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click

from holdfast import codec, history
from holdfast.cli.main import DAMAGED
from holdfast.cli.printing import note
from holdfast.contracts import Query
from holdfast.errors import HoldfastError
from holdfast.heads import scan_heads
from holdfast.kinds import HEADS, KINDS, MESSAGES

if TYPE_CHECKING:  # or the help of a command would load the whole library
    from holdfast import Holdfast, Message
    from holdfast.claims import Problem

_AT_ONCE = 200
_SHOWN = 8
ADVICE = (
    "Restore a backup. What is not damaged can be read, but nothing is copied or exported as long as damage is there: "
    "without a backup, `holdfast session load ID | holdfast --store NEW session save -` takes a sound session over."
)


class Watch:
    """Looks at each message of a session as it is read, and remembers whether one was damaged."""

    def __init__(self, hf: Holdfast, session_id: str) -> None:
        self._store = hf._store
        self._session_id = session_id
        self._history = history.must_see(hf._store, session_id).pointer.history
        self._found = False

    def over(self, messages: Iterable[Message]) -> Iterator[Message]:
        """The messages; each that does not match its checksum is named on standard error."""
        rest = iter(messages)
        while some := list(islice(rest, _AT_ONCE)):
            damaged = self._damaged(some)
            for message in some:
                if message.id in damaged:
                    self._found = True
                    note(f"DAMAGED: message {message.seq} of session {self._session_id} is not what was written")
                yield message

    def _damaged(self, messages: list[Message]) -> set[str]:
        """The ids of those whose stored bytes have changed."""
        rows = self._store.get(MESSAGES, [(self._history, one.branch or 0, one.seq or 0) for one in messages])
        pairs = zip(messages, rows, strict=True)
        return {one.id for one, row in pairs if row is not None and codec.digest(row.body) != row.digest}

    def end(self) -> None:
        """Say what to do, and end the command with 3, if anything was damaged."""
        if self._found:
            note(f"`holdfast verify` finds all damage. {ADVICE}")
            click.get_current_context().exit(DAMAGED)


def concerned(hf: Holdfast, problems: Sequence[Problem]) -> str:
    """The sessions that the damaged records belong to, as far as that can be told."""
    shared, own = _places(problems)
    found = []
    try:
        for seen in scan_heads(hf._store, Query(kind=HEADS)):
            if seen.pointer.history in shared or own & {seen.pointer.session_id, seen.pointer.uid}:
                found.append(seen.pointer.session_id)
    except HoldfastError:  # the heads are damaged themselves; the table names them
        return "Which sessions are concerned cannot be told."
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"Sessions concerned: {', '.join(found[:_SHOWN])}{more}." if found else "No session is concerned."


_SHARED = {kind.name for kind in KINDS if kind.key[0].name == "history"}  # by a session and its forks


def _places(problems: Sequence[Problem]) -> tuple[set[str], set[str]]:
    """The damaged histories, and what else the keys of damaged records say."""
    shared: set[str] = set()
    own: set[str] = set()
    for problem in problems:
        (shared if problem.kind in _SHARED else own).update(part for part in problem.key if isinstance(part, str))
    return shared, own
