"""Putting a source's messages into a session, each behind its parent; what is there already is recognised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from holdfast import codec
from holdfast.appends import ROOT
from holdfast.client import Holdfast
from holdfast.errors import AlreadyExists, HoldfastError, InvalidInput
from holdfast.importers.facts import KEY, with_facts
from holdfast.importers.reports import Report
from holdfast.model import Message, Session

BATCH = 200
BATCH_BYTES = 2 * 1024 * 1024


class Placing:
    """The messages of one session under import. They are appended in batches; `flush` appends what waits."""

    def __init__(self, hf: Holdfast, report: Report, session: Session, *, is_new: bool) -> None:
        self.session_id = session.id
        self.is_new = is_new
        self.has_moved = False
        self._hf = hf
        self._report = report
        self._head = session.head.message_id or ROOT
        self._parent = ROOT
        self._waiting: dict[str, tuple[Message, str]] = {}
        self._bytes = 0
        self._dropped: dict[str, str] = {}
        # In a session that this import has made, an id whose hash is not here is surely new, and is not looked up.
        self._hashes: set[int] | None = set() if is_new else None
        # What was imported before mostly comes in the order of the path, which is cheaper to walk than to look up.
        self._path: Iterator[Message] = iter(()) if is_new else hf.sessions.messages(session.id)
        self._ahead = next(self._path, None)

    def has(self, message_id: str) -> bool:
        """Whether a message is there or about to be."""
        return message_id in self._waiting or self._hf.sessions.message(self.session_id, message_id) is not None

    def put(self, message: Message, parent: str, where: str, *, other: str | None = None) -> str:
        """Add a message behind its parent and return its id here; where it cannot be taken, the parent's.

        `other` is the id it gets if its own is another message's in this session.
        """
        parent = self._dropped.get(parent, parent)
        choices = [message] if other in (None, message.id) else [message, renamed(message, other)]
        for choice in choices:
            try:
                size = len(codec.encode_message(choice)[0])
            except InvalidInput as cause:
                self._report.note(where, f"not taken: {cause}")
                return parent
            there = self._look_up(choice, parent)
            if there is None:
                self._wait(choice, parent, where, size)
            if there is not False:
                return choice.id
        self._report.note(where, f"not taken: message {message.id!r} is there with other content or another parent")
        return parent

    def _look_up(self, message: Message, parent: str) -> bool | None:
        """Whether the message is there as given, or (False) its id is another's; None if it is not there."""
        if self._hashes is not None and hash(message.id) not in self._hashes:
            return None
        if message.id in self._waiting:
            self.flush()
        stored = self._stored(message.id)
        if stored is None:
            return None
        if (stored.parent_id or ROOT) != parent:
            return False
        if _says(stored, message):
            return True
        try:  # the append finds it and adds nothing; a time that was only inferred may be another now
            self._hf.sessions.append(self.session_id, replace(message, created_at=stored.created_at), parent=parent)
        except AlreadyExists:
            return False
        return True

    def _stored(self, message_id: str) -> Message | None:
        ahead = self._ahead
        if ahead is None or ahead.id != message_id:
            return self._hf.sessions.message(self.session_id, message_id)
        self._ahead = next(self._path, None)
        return ahead

    def _wait(self, message: Message, parent: str, where: str, size: int) -> None:
        last = next(reversed(self._waiting), None)
        if len(self._waiting) >= BATCH or self._bytes + size > BATCH_BYTES or (last is not None and last != parent):
            self.flush()
        if not self._waiting:
            self._parent = self._dropped.get(parent, parent)
        if self._hashes is not None:
            self._hashes.add(hash(message.id))
        self._waiting[message.id] = (message, where)
        self._bytes += size

    def flush(self) -> None:
        """Append what waits."""
        waiting, self._waiting, self._bytes = list(self._waiting.values()), {}, 0
        if not waiting:
            return
        try:
            self._append([message for message, _ in waiting], self._parent)
        except (InvalidInput, AlreadyExists):
            self._one_by_one(waiting)

    def _one_by_one(self, waiting: list[tuple[Message, str]]) -> None:
        parent = self._parent
        for message, where in waiting:
            try:
                self._append([message], parent)
                parent = message.id
            except (InvalidInput, AlreadyExists) as cause:
                self._report.note(where, f"not taken: {cause}")
                self._dropped[message.id] = parent

    def _append(self, messages: list[Message], parent: str) -> None:
        self.stand(parent)
        self._hf.sessions.append(self.session_id, *messages, parent=None if parent == ROOT else parent)
        self._head = messages[-1].id
        self.has_moved = True
        self._report.messages += len(messages)
        self._report.usages += sum(message.usage is not None for message in messages)

    def stand(self, at: str) -> None:
        """Move the head to a message, unless it is there."""
        self.flush()
        at = self._dropped.get(at, at)
        if self._head != at:
            self._hf.sessions.switch(self.session_id, at=at)
            self._head = at
            self.has_moved = True

    @contextmanager
    def standing(self, at: str) -> Iterator[None]:
        """A scope with the head at a message, where it stays; if what is done there fails, it goes back."""
        self.flush()
        before = self._head
        self.stand(at)
        try:
            yield
        except HoldfastError:
            self.stand(before)
            raise


def _says(stored: Message, message: Message) -> bool:
    """Whether a stored message surely says what is given, in the same bytes."""
    asked = replace(message, created_at=stored.created_at)
    return codec.encode_message(stored)[0] == codec.encode_message(asked)[0]


def renamed(message: Message, other: str | None) -> Message:
    """The same message under another id, with its own written down."""
    assert other is not None
    metadata = dict(message.metadata or {})
    facts = metadata.pop(KEY, {})
    return replace(message, id=other, metadata=with_facts(metadata, {**facts, "id": message.id}))
