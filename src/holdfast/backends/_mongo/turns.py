"""Whose turn it is, and that nobody reads or writes on top of a commit that is not applied yet.

Readers read, then look whether the version is still the one they began at: what they read is then of one instant.
Writers read, then commit on the condition that it is. Who is overtaken again and again draws a ticket.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from msgspec.structs import replace
from pymongo.collection import Collection

from holdfast.backends._mongo.answers import Pauses, overtaken, patiently
from holdfast.backends._mongo.batches import Change, apply, decode, encode
from holdfast.backends._mongo.documents import Document
from holdfast.backends._mongo.space import Space, State
from holdfast.deadlines import remaining
from holdfast.errors import Busy, ConnectionFailed, HoldfastError

R = TypeVar("R")

TRIES = 5  # without a ticket
HELP_AFTER_S = 0.05  # a commit takes that long to apply, or its writer is gone
SKIP_AFTER_S = 2.0  # who is served and does nothing for that long is gone, too
POLL_S = 0.004
LONGEST_NAP_S = 0.5


class Turn:
    """How things stand for one who may write now, and the ticket it waited with."""

    def __init__(self, state: State, ticket: int | None) -> None:
        self.state = state
        self.ticket = ticket


class Turns:
    """What one store knows of its namespace's commits; its threads write one after another."""

    def __init__(self, space: Space, records: Collection[Document], namespace: str, *, read_only: bool) -> None:
        self._space = space
        self._records = records
        self._namespace = namespace
        self._read_only = read_only
        self._known: State | None = None  # the newest state that was seen applied
        self._turn_s = 0.0  # how long this store's last turn took, which the others' will, too
        self._mine = threading.Lock()

    # reading

    def consistently(self, read: Callable[[], R]) -> R:
        """What is read, of one instant."""
        for _ in range(TRIES):
            with suppress(Overtaken):
                return patiently(lambda: self._at_one_version(read))
        if self._read_only:
            return self._insist(read)
        with self.alone(), self.turn(overtaken=True):
            return self._insist(read)

    def _at_one_version(self, read: Callable[[], R]) -> R:
        before = self.settled()
        found = read()
        if not self.holds(before):
            raise Overtaken
        return found

    def _insist(self, read: Callable[[], R]) -> R:
        pauses = Pauses()
        while True:
            try:
                return patiently(lambda: self._at_one_version(read))
            except Overtaken:
                pauses.wait(overtaken())

    def holds(self, before: State) -> bool:
        """Whether nothing was committed since a settled state."""
        now = self._space.read()
        if now.version == before.version:
            self._known = replace(now, applied=True)
            return True
        self._known = now if now.applied else None
        return False

    def settled(self) -> State:
        """A state whose commits are all applied, as new as this store has one."""
        return self._known or self.settle(self._space.read())

    def settle(self, state: State) -> State:
        """Wait for a commit to be applied, and apply it if that takes too long."""
        pauses, since, version = Pauses(), time.monotonic(), state.version
        while not state.applied:
            if time.monotonic() - since > HELP_AFTER_S:
                self._help(state.version)
            pauses.wait(Busy("a commit is being applied for longer than the timeout; repeat, or raise timeout="))
            state = self._space.read()
            if state.version != version:
                since, version = time.monotonic(), state.version
        self._known = state
        return state

    def _help(self, version: int) -> None:
        """Apply what somebody else has committed, and perhaps not lived to apply."""
        content = self._space.journal(version)
        if content is not None:
            apply(self._records, self._namespace, version, decode(content))
            self._space.finish(version)

    # writing

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the other threads of this store from writing."""
        if not self._mine.acquire(timeout=remaining()):
            raise Busy("another thread of this process is writing; repeat, or raise timeout=")
        try:
            yield
        finally:
            self._mine.release()

    @contextmanager
    def turn(self, *, overtaken: bool) -> Iterator[Turn]:
        """A moment to write: at once if nobody waits and nobody was faster, else with a ticket."""
        state = self.settled()
        if state.idle() and not overtaken:
            yield Turn(state, None)
            return
        ticket, state = self._space.draw()
        try:
            state = self.settle(self._wait(ticket, state))
            begun = time.monotonic()
            yield Turn(state, ticket)
            self._turn_s = time.monotonic() - begun
        finally:
            with suppress(ConnectionFailed):  # then the others wait a little longer
                self._give_up(ticket)

    def _wait(self, ticket: int, state: State) -> State:
        since = time.monotonic()
        while state.serving < ticket:
            if remaining() == 0:
                raise overtaken()
            if state.serving in state.left or time.monotonic() - since > SKIP_AFTER_S:
                self._space.skip(state.serving)
            else:
                before_us = ticket - state.serving - 1
                time.sleep(random.uniform(0.5, 1) * (POLL_S + min(before_us * self._turn_s, LONGEST_NAP_S)))
            before, state = state, self._space.read()
            if (state.serving, state.version) != (before.serving, before.version):
                since = time.monotonic()
        return state

    def _give_up(self, ticket: int) -> None:
        """Let the next one through, unless a commit has done so."""
        if self._known is not None and self._known.serving > ticket:
            return
        state = self._space.read()
        if state.serving == ticket:
            self._space.skip(ticket)
        elif state.serving < ticket:
            self._space.leave(state, ticket)

    def commit(self, turn: Turn, changes: list[Change], token: str) -> bool:
        """Commit and apply; False if somebody else came first, and then nothing was written."""
        content = encode(changes)
        self._known = None
        if not self._space.advance(turn.state, turn.ticket, content, token):
            return False
        state = turn.state
        served = state.serving if turn.ticket is None else turn.ticket + 1
        with suppress(HoldfastError):  # it has happened, and whoever comes next applies it
            apply(self._records, self._namespace, state.version + 1, changes)
            self._space.finish(state.version + 1)
            self._known = replace(state, version=state.version + 1, serving=served)
        return True

    def fate(self, version: int, token: str) -> str:
        """What became of a commit whose connection broke."""
        return self._space.fate(version, token)


class Overtaken(Exception):
    """Somebody has committed meanwhile, so that what was read may be of two instants."""
