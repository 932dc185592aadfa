"""What a model sees of a session: compacting a long conversation, and leaving old tool outputs out."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast import appends, compaction, history
from holdfast.commits import commit
from holdfast.compaction import Count, Summarise, View, estimate_tokens
from holdfast.contracts import Delete, Key, Put, Reader, Write
from holdfast.errors import Busy, Conflict, InvalidInput, NotFound
from holdfast.history import Pointer
from holdfast.ids import check_id
from holdfast.kinds import PRUNED
from holdfast.model import Compaction, Message, parts
from holdfast.nouns import Ground
from holdfast.tallies import Tallies
from holdfast.transcripts import Appending

FAILURES = 3
_FIRST_CHUNK = 128
_BATCH = 500


class _Attempts(Struct):
    """How often in a row a session's summary has failed, and when last (microseconds)."""

    failed: int = 0
    at: int = 0


class Compacting(Appending):
    """An append of a marker and its summary, unless the session has gone another way since it was read."""

    read_at: Pointer

    def rebase(self, reader: Reader) -> list[Write]:
        now, then = history.must_see(reader, self.session_id).pointer, self.read_at
        runs = history.segments(reader, now.history, now.branch, now.seq)
        on_path = any(run.branch == then.branch and run.low <= then.seq <= run.high for run in runs)
        if now.uid != then.uid or not on_path:
            raise Conflict(f"session {now.session_id!r} went another way while it was summarised; compact it again")
        return super().rebase(reader)


class Contexts(Tallies):
    """The model's view of sessions."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._attempts: dict[str, _Attempts] = {}

    def context(self, session_id: str, *, timeout: float | None = None) -> list[Message]:
        """The model's view: the last summary, then what it does not cover; without one the whole path.

        Pruned tool outputs are short placeholders. Nothing for an unknown session.
        """
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            return [] if seen is None else self._view(seen.pointer).messages()

    def _view(self, pointer: Pointer) -> View:
        """Read backwards until the last compaction's tail, in chunks that double."""
        runs = history.segments(self._store, pointer.history, pointer.branch, pointer.seq)
        found: list[Message] = []
        high, size = pointer.seq, _FIRST_CHUNK
        while high > 0:
            low = max(1, high - size + 1)
            chunk = history.between(runs, low, high)
            found = [*self._read(pointer.session_id, pointer.history, chunk), *found]
            seen = compaction.view_at_end(found)
            if seen is not None:
                return seen
            high, size = low - 1, size * 2
        return compaction.view(found)

    # compacting

    def compact(
        self,
        session_id: str,
        summarise: Summarise,
        *,
        keep_turns: int | None = 3,
        keep_tokens: int | None = None,
        threshold: float = compaction.THRESHOLD,
        count: Count | None = None,
        force: bool = False,
        retry_after_s: float = 60.0,
        timeout: float | None = None,
    ) -> Message | None:
        """Summarise what came before the last turns; returns the summary, None where there is nothing to do.

        `summarise(messages, previous_summary)` is yours and may take its time. A session with max_context_tokens
        is only compacted when that is nearly used up. After 3 failures in a row Busy for `retry_after_s` from the
        last one; `force=True` overrules both.
        """
        count = count or estimate_tokens
        with self._within(timeout):
            pointer = history.must_see(self._store, check_id(session_id, "session id")).pointer
            session = self._get(self._store, session_id)
            seen = self._view(pointer)
        limit = None if session is None else session.max_context_tokens
        full = compaction.should_compact(seen.messages(), limit, threshold=threshold, count=count)
        tail = compaction.choose_tail(seen.live, keep_tokens=keep_tokens, keep_turns=keep_turns, count=count)
        if tail == 0 or not (force or limit is None or full):
            return None
        self._check_breaker(pointer, retry_after_s, force)
        said = summarise(seen.live[:tail], None if seen.summary is None else seen.summary.text)
        summary = _summary(said)
        self._attempts.pop(pointer.uid, None)
        return self._write_summary(pointer, seen, tail, summary, timeout)

    def _check_breaker(self, pointer: Pointer, retry_after_s: float, force: bool) -> None:
        """Count the attempt as a failure, until it has succeeded; Busy where too many have failed."""
        if isinstance(retry_after_s, bool) or not isinstance(retry_after_s, int | float) or not retry_after_s >= 0:
            raise InvalidInput(f"retry_after_s is a number of seconds from 0, not {retry_after_s!r}")
        attempts = self._attempts.setdefault(pointer.uid, _Attempts())
        now = self._stamps.next()
        if attempts.failed >= FAILURES and not force and now < attempts.at + retry_after_s * 1_000_000:
            raise Busy(
                f"summarising session {pointer.session_id!r} failed {attempts.failed} times in a row; "
                f"repeat {retry_after_s:g} s after the last time, or with force=True"
            )
        attempts.failed += 1
        attempts.at = now

    def _write_summary(
        self, pointer: Pointer, seen: View, tail: int, summary: Message, timeout: float | None
    ) -> Message:
        before = None if seen.marker is None else seen.marker.id
        told = Compaction(tail_start_id=seen.live[tail].id, previous_id=before)
        marker = Message(role="user", is_compaction=True, compaction=told)
        with self._within(timeout):
            said = appends.say([marker, summary])
            plan = Compacting(
                writes=None,
                ground=self._ground,
                session_id=pointer.session_id,
                said=said,
                parent=None,
                activate=True,
                made=None,
                read_at=pointer,
            )
            return plan.carry_out(self._store)[1]

    # pruning

    def prune_tool_outputs(
        self,
        session_id: str,
        *,
        keep_last: int = 5,
        min_tokens: int = 200,
        count: Count | None = None,
        timeout: float | None = None,
    ) -> list[str]:
        """Leave old tool results out of the model's view; returns the ids of those newly left out.

        The last `keep_last` stay, and those below `min_tokens`. `messages` goes on giving all of them whole.
        """
        with self._within(timeout):
            pointer = history.must_see(self._store, check_id(session_id, "session id")).pointer
            chosen = compaction.choose_outputs(
                self._view(pointer).live, keep_last=keep_last, min_tokens=min_tokens, count=count or estimate_tokens
            )
            self._mark(pointer, [_place(pointer, said) for said in chosen], pruned=True)
        return [said.id for said in chosen]

    def unprune_tool_outputs(self, session_id: str, *message_ids: str, timeout: float | None = None) -> list[str]:
        """Put pruned tool results back into the model's view, the named ones or all on the path; returns their ids."""
        for message_id in message_ids:
            check_id(message_id, "message id")
        with self._within(timeout):
            pointer = history.must_see(self._store, check_id(session_id, "session id")).pointer
            named = [self._must_find(session_id, message_id) for message_id in message_ids]
            found = named or list(self.messages(session_id))
            chosen = [said for said in found if said.pruned]
            self._mark(pointer, [_place(pointer, said) for said in chosen], pruned=False)
        return [said.id for said in chosen]

    def _mark(self, pointer: Pointer, places: Sequence[Key], *, pruned: bool) -> None:
        """Mark the messages at these places, or unmark them, in bounded commits."""
        for start in range(0, len(places), _BATCH):
            batch = places[start : start + _BATCH]

            def place(reader: Reader, batch: Sequence[Key] = batch) -> list[Write]:
                if history.must_see(reader, pointer.session_id).pointer.uid != pointer.uid:
                    raise NotFound(f"session {pointer.session_id!r} was deleted meanwhile")
                return [_pruned(key) if pruned else Delete(PRUNED, key) for key in batch]

            commit(self._store, place)


def _summary(said: Any) -> Message:
    """The summary as a message of the assistant's, or InvalidInput if it says nothing."""
    if inspect.iscoroutine(said):
        said.close()
        raise InvalidInput("summarise is an async function; open the store with holdfast.aopen to use one")
    message = Message(role="assistant", content=parts(said)) if isinstance(said, str) else said
    if not isinstance(message, Message):
        raise InvalidInput(f"summarise returns a string or a Message, not {type(said).__name__}")
    if not message.text.strip():
        raise InvalidInput("summarise returned an empty summary; nothing was written")
    return replace(message, role="assistant", is_summary=True, is_compaction=False, compaction=None, tool_calls=[])


def _place(pointer: Pointer, said: Message) -> Key:
    assert said.branch is not None
    assert said.seq is not None
    return (pointer.history, said.branch, said.seq)


def _pruned(key: Key) -> Put:
    return Put(history.beside_record(PRUNED, key, {}))
