"""What was said in a session: appending, reading, redacting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from holdfast import appends, blobs, codec, cursors, execution_records, history
from holdfast.commits import Plan, commit, get
from holdfast.contracts import Delete, Put, Query, Reader, Record, RecordStore, Write
from holdfast.errors import InvalidInput, NotFound
from holdfast.filters import Filter
from holdfast.forgetting import forget
from holdfast.history import Pointer, Segment
from holdfast.ids import check_count, check_id, check_whole, moment
from holdfast.kinds import PARTS, SESSIONS
from holdfast.model import Message, Page, Redaction, Usage, title_from
from holdfast.nouns import Ground, Noun
from holdfast.parts import parts_at


class Appending(Plan[list[Message]]):
    """An append that is decided but not yet done."""

    ground: Ground
    session_id: str
    said: list[appends.Said]
    parent: str | None
    activate: bool
    made: appends.Appended | None

    def rebase(self, reader: Reader) -> list[Write]:
        seen = history.must_see(reader, self.session_id)
        at = self.ground.stamps.next(seen.pointer.updated_at)
        self.made = appends.settle(reader, seen, self.said, self.parent, self.activate, at)
        return self.made.writes

    def finish(self) -> list[Message]:
        made = self.made
        assert made is not None
        self.ground.remember(made.seen)
        return made.messages


class Moving(Appending):
    """An append whose large parts are put as blobs first."""

    blocks = True

    def carry_out(self, store: RecordStore) -> list[Message]:
        self.said = self.ground.lighten(self.said)
        return super().carry_out(store)


class Transcripts(Noun):
    """The messages of sessions."""

    def append(
        self,
        session_id: str,
        *messages: Message | dict[str, Any],
        parent: str | None = None,
        activate: bool = True,
        timeout: float | None = None,
    ) -> list[Message]:
        """Add messages at the head, all or none; safe with concurrent writers, and safe to repeat.

        With a `parent` that is not the head they open a branch, which becomes the active one unless
        `activate=False`; `parent=ROOT` stands in front of the first message.
        """
        return self._submit(self._plan_append, timeout, session_id, messages, parent, activate)

    def _plan_append(
        self, session_id: str, messages: Sequence[Message | dict[str, Any]], parent: str | None, activate: bool
    ) -> Plan[list[Message]]:
        seen = self._ground.heads.get(session_id) if type(session_id) is str else None
        if seen is None:
            check_id(session_id, "session id")
        if parent is not None and parent != appends.ROOT:
            check_id(parent, "parent id")
        said = appends.say(messages)
        if self._ground.has_blobs(said):
            return Moving(None, self._ground, session_id, said, parent, activate, None)
        if seen is None or not said or parent is not None or not appends.goes_on(seen.pointer, said):
            return Appending(None, self._ground, session_id, said, parent, activate, None)
        made = appends.extend(seen, said, self._stamps.next(seen.pointer.updated_at))
        return Appending(made.writes, self._ground, session_id, said, parent, activate, made)

    def message(self, session_id: str, message_id: str, *, timeout: float | None = None) -> Message | None:
        """One message this session reaches, on any branch, or None."""
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None:
                return None
            try:
                record = history.find_reached(self._store, seen.pointer, check_id(message_id, "message id"))
            except NotFound:
                return None
            _, branch, seq = record.key
            runs = history.segments(self._store, seen.pointer.history, int(branch), int(seq))
            run = history.last_of(runs, 1)[0]
            return next(history.read(self._store, session_id, seen.pointer.history, run))

    def messages(
        self,
        session_id: str,
        *,
        last: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        branch: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[Message]:
        """The path to the head, lazily; or its `last` n, or positions `start` to `stop` (from 1, inclusive).

        With `branch` the path to that branch's end. Nothing for an unknown session.
        """
        for name, value in (("last", last), ("start", start), ("stop", stop)):
            if value is not None:
                check_count(value, name)
        if branch is not None:
            check_whole(branch, "branch")
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None:
                return iter(())
            runs = self._runs(seen.pointer, branch)
        if last is not None:
            runs = history.last_of(runs, last)
        if start is not None or stop is not None:
            runs = history.between(runs, start, stop)
        return self._read(session_id, seen.pointer.history, runs)

    def written(self, session_id: str, *, timeout: float | None = None) -> Iterator[Message]:
        """Every message a session reaches, on all its branches, in the order of writing; lazily, as `messages`."""
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            session = None if seen is None else get(self._store, SESSIONS, session_id)
            if seen is None or session is None:
                return iter(())
            past = seen.pointer.history
            branches = history.branches_of(self._store, past)
            reached = history.reach_from(session, branches)
            ends = {
                at: history.end_of(self._store, branches[at]) if end is None else end for at, end in reached.items()
            }
        runs = [
            Segment(branch=at, low=branches[at].fork_seq + 1, high=end, before_id=branches[at].fork_id)
            for at, end in ends.items()
            if end > branches[at].fork_seq
        ]
        return history.read_as_written(self._store, session_id, past, runs)

    def _runs(self, pointer: Pointer, branch: int | None) -> list[Segment]:
        if branch is None:
            return history.segments(self._store, pointer.history, pointer.branch, pointer.seq)
        return history.segments(self._store, pointer.history, branch, self._end(self._store, pointer, branch))

    def _end(self, reader: Reader, pointer: Pointer, branch: int) -> int:
        """The last position of a branch that this session reaches; NotFound if it does not."""
        session = get(reader, SESSIONS, pointer.session_id)
        reached = {} if session is None else history.reach_of(reader, session, pointer.history)
        if branch not in reached:
            raise NotFound(f"session {pointer.session_id!r} has no branch {branch}")
        end = reached[branch]
        return history.end_of(reader, history.branch_at(reader, pointer.history, branch)) if end is None else end

    def _read(self, session_id: str, name: str, runs: list[Segment]) -> Iterator[Message]:
        return chain.from_iterable(history.read(self._store, session_id, name, run) for run in runs)

    def page(
        self,
        session_id: str,
        *,
        limit: int = 100,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> Page[Message]:
        """Messages from the first on, a page at a time; the cursor keeps to the path it began on."""
        cursors.check_range(limit, 0)
        listing = ["messages", check_id(session_id, "session id")]
        with self._within(timeout):
            seen = history.look_up(self._store, session_id)
            if seen is None:
                return Page([], None)
            branch, end, begin = seen.pointer.branch, seen.pointer.seq, 0
            if cursor is not None:
                branch, end, begin = cursors.read(listing, cursor)
            runs = history.segments(self._store, seen.pointer.history, branch, end)
            stop = min(end, begin + limit)
            found = list(self._read(session_id, seen.pointer.history, history.between(runs, begin + 1, stop)))
            return Page(found, cursors.make(listing, [branch, end, stop]) if stop < end and limit else None)

    def update_usage(self, session_id: str, message_id: str, usage: Usage, *, timeout: float | None = None) -> Message:
        """Set what a message used, in place of what was set before; NotFound without the message."""
        check_id(session_id, "session id")
        check_id(message_id, "message id")
        codec.encode_value(usage, Usage, "usage")

        def place(reader: Reader) -> list[Write]:
            pointer = history.must_see(reader, session_id).pointer
            record = history.find_reached(reader, pointer, message_id)
            return [Put(history.usage_record(record.key, usage))]

        with self._within(timeout):
            commit(self._store, place)
            return self._must_find(session_id, message_id)

    def _must_find(self, session_id: str, message_id: str) -> Message:
        message = self.message(session_id, message_id)
        if message is None:
            raise NotFound(f"session {session_id!r} was deleted meanwhile")
        return message

    def redact(self, session_id: str, message_id: str, reason: str, *, timeout: float | None = None) -> Message:
        """Destroy a message's content everywhere; id, role, call ids, time and digest stay, and the chain verifies.

        What tool calls and events of runs repeat of it goes with it. NotFound without the message.
        """
        check_id(session_id, "session id")
        check_id(message_id, "message id")
        if not isinstance(reason, str):
            raise InvalidInput(f"reason is a string, not {type(reason).__name__}")
        unkept: list[bytes] = []

        def place(reader: Reader) -> list[Write]:
            pointer = history.must_see(reader, session_id).pointer
            record = history.find_reached(reader, pointer, message_id)
            if codec.redacted_digest(record.body) is not None:
                return []
            said = codec.decode_message(record.body, f"message {message_id!r}")
            redaction = Redaction(reason=reason, at=moment(self._stamps.next()))
            stub = codec.redact(said, record.digest, redaction)
            emptied = Record(record.kind, record.key, stub, codec.digest(stub), record.fields)
            done = execution_records.redact(reader, record, said, redaction)
            unkept[:] = [part.kept.digest for part in parts_at(reader, record.key)]
            rest = [Delete(PARTS, record.key), *_untitle(reader, pointer.history, said), *done]
            return [Put(emptied, record.digest), *rest]

        with self._within(timeout):
            self._forget(session_id, message_id)
            commit(self._store, place)
            blobs.let_go(self._store, self._ground.blobs, unkept)
            self._ground.sweeps.scrub()
            return self._must_find(session_id, message_id)

    def _forget(self, session_id: str, message_id: str) -> None:
        """Empty what the events of runs repeat of a message."""
        pointer = history.must_see(self._store, session_id).pointer
        record = history.find_reached(self._store, pointer, message_id)
        forget(self._store, pointer.history, codec.decode_message(record.body, f"message {message_id!r}"))


def _untitle(reader: Reader, past: str, said: Message) -> Iterator[Write]:
    """Take away the titles that were made of this message, from every session of the history."""
    title = title_from(said.text) if said.role == "user" else None
    if title is None:
        return
    for record in list(reader.scan(Query(kind=SESSIONS, where=(Filter("history", "=", past),)))):
        envelope = codec.decode_envelope(record.body, f"session {record.key[0]!r}")
        if envelope.get("title") == title:
            body = codec.encode({name: value for name, value in envelope.items() if name != "title"}, "session")
            yield Put(Record(SESSIONS, record.key, body, codec.digest(body), record.fields), record.digest)
