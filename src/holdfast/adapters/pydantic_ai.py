"""pydantic-ai on Holdfast: its conversations in any store.

store = HoldfastConversationStore(hf)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from msgspec.structs import replace

from holdfast.adapters._extras import needing

with needing("pydantic-ai"):
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )

from holdfast import appends, codec, history
from holdfast.adapters._awaited import Awaited
from holdfast.adapters._groups import groups, last_groups
from holdfast.adapters._pydantic_ai_messages import MARK, message_of, messages_of
from holdfast.adapters._together import Found, every, look, with_metadata
from holdfast.aio import AsyncHoldfast
from holdfast.appends import ROOT, Said
from holdfast.client import Holdfast
from holdfast.commits import commit
from holdfast.contracts import Insert, Put, Reader, Write
from holdfast.errors import NotFound, Unsupported
from holdfast.history import Pointer, Seen
from holdfast.holds import check_free
from holdfast.ids import check_id, moment
from holdfast.model import Message, title_from
from holdfast.session_records import Stored, check_readable, stored_record

__all__ = ["HoldfastConversationStore"]

TAG = "pydantic-ai"
_RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)
_REMEMBERED = 4096
_PAGE = 200


def _look(reader: Reader, conversation_id: str) -> Found | None:
    return look(reader, conversation_id, MARK)


def _revision(found: Found | None) -> str | None:
    """The token of the last save; another one if the head was moved since then by other means."""
    if found is None:
        return None
    link = found.seen.pointer.link.hex()
    saved: str = found.note.get("record", {}).get("revision", "")
    return saved if found.note.get("link") == link else f"{saved}@{link}"


class HoldfastConversationStore(ConversationStore):
    """pydantic-ai's conversations in a Holdfast store; takes a `Holdfast` or an `AsyncHoldfast`.

    A conversation is a session, of the agent `agent_id` if there is one, and of its scope as the user. A save is one
    commit, a fork shares what it keeps, and a deleted conversation takes along what no fork of it shares.
    """

    def __init__(self, hf: Holdfast | AsyncHoldfast, *, agent_id: str | None = None) -> None:
        self._awaited = Awaited(hf)
        self._hf = self._awaited.hf
        self._store = self._hf._store
        self._agent_id = None if agent_id is None else check_id(agent_id, "agent id")
        self._homes: dict[str, str] = {}  # in which session an entry was seen; may be out of date

    # reading

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None; any session can be gone on with as one."""
        return await self._awaited.call(self._record, conversation_id)

    def _record(self, conversation_id: str) -> ConversationRecord | None:
        found = _look(self._store, conversation_id)
        if found is None or "deleted" in found.note:
            return None
        pointer, saved = found.seen.pointer, dict(found.note.get("record", {}))
        if found.note.get("of", conversation_id) != conversation_id:  # a fork that was made by other means
            saved |= {"branches": [], "forked_from": found.note["of"], "forked_at": pointer.message_id}
        own = {"conversation_id": conversation_id, "head_id": pointer.message_id, "revision": _revision(found)}
        default = {"scope": pointer.user_id, "updated_at": moment(pointer.updated_at)}
        record = _RECORDS.validate_python({**default, **saved, **own})
        self._remember(conversation_id, pointer.message_id, *record.branches)
        return record

    def _remember(self, conversation_id: str, *entry_ids: str | None) -> None:
        if len(self._homes) > _REMEMBERED:
            self._homes.clear()
        self._homes |= {entry_id: conversation_id for entry_id in entry_ids if entry_id is not None}

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The conversations, or those of a scope, the last saved first; not sessions that came another way."""
        return await self._awaited.call(self._records, scope, limit)

    def _records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        records = (self._record(name) for name in self._names(scope))
        return [*islice((record for record in records if record is not None), limit)]

    def _names(self, scope: str | None) -> Iterator[str]:
        page = partial(self._hf.sessions.list, tag=TAG, user_id=scope, limit=_PAGE)
        return (session.id for session in every(lambda cursor: page(cursor=cursor)))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry by its id; KeyError if there is none."""
        [entry] = await self._awaited.call(self._history, entry_id, 1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to this one, or the last so many of them, in a few range reads."""
        return [] if head_id is None else await self._awaited.call(self._history, head_id, limit)

    def _history(self, entry_id: str, limit: int | None) -> list[ConversationEntry]:
        session_id, pointer, (branch, seq) = self._place(entry_id)
        runs = history.segments(self._store, pointer.history, branch, seq)

        def last(count: int) -> Iterator[Message]:
            return self._hf.sessions._read(session_id, pointer.history, history.last_of(runs, count))

        path = self._hf.sessions._read(session_id, pointer.history, runs)
        found = groups(path, MARK) if limit is None else last_groups(last, limit, MARK)
        return [self._entry(group) for group in found]

    def _entry(self, group: list[Message]) -> ConversationEntry:
        message = message_of(group, self._hf.artifacts.read)
        return ConversationEntry(id=group[-1].id, parent_id=group[0].parent_id, message=message)

    def _place(self, entry_id: str) -> tuple[str, Pointer, tuple[int, int]]:
        """Where an entry is: a session that reaches it, its head, and the entry's place; KeyError if nowhere."""
        homes = [self._homes[entry_id]] if entry_id in self._homes else []
        for session_id in (*homes, *(name for name in self._names(None) if name not in homes)):
            seen = history.look_up(self._store, session_id)
            try:
                record = None if seen is None else history.find_reached(self._store, seen.pointer, entry_id)
            except NotFound:
                continue
            if seen is not None and record is not None:
                self._remember(session_id, entry_id)
                return session_id, seen.pointer, (int(record.key[1]), int(record.key[2]))
        raise KeyError(entry_id)

    # writing

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record with its new entries in one commit; ConversationConflict if another was stored meanwhile."""
        await self._awaited.call(self._write, record, list(new_entries), expected_revision)

    def _write(self, record: ConversationRecord, entries: list[ConversationEntry], expected: str | None) -> None:
        name = record.conversation_id
        said = self._hf._ground.say([one for entry in entries for one in messages_of(entry.message, entry.id)])
        parent = entries[0].parent_id if entries else record.head_id

        def place(reader: Reader) -> list[Write]:
            found = _look(reader, name)
            if _revision(found) != expected:
                raise ConversationConflict(name)
            try:
                if found is not None:
                    return self._change(reader, found, record, said, parent)
                return self._begin(record, said) if parent is None else self._fork(reader, record, said)
            except NotFound as cause:  # a delete has released what this one builds on
                raise ConversationConflict(name) from cause

        self._clear_away(name)
        commit(self._store, place)
        self._hf._ground.heads.pop(name, None)
        self._remember(name, record.head_id)

    def _clear_away(self, name: str) -> None:
        """Finish a deletion that was interrupted, so that the id can be used again."""
        found = _look(self._store, name)
        if found is not None and "deleted" in found.note:
            self._hf.sessions.delete(name)
        self._hf._ground.sweeps.finish_session(name)

    def _change(
        self, reader: Reader, found: Found, record: ConversationRecord, said: list[Said], parent: str | None
    ) -> list[Write]:
        """Go on at the head, or on a branch from the parent, or stand at another entry."""
        seen, pointer = found.seen, found.seen.pointer
        at = self._hf._ground.stamps.next(pointer.updated_at)
        turns = parent != pointer.message_id
        if turns:
            check_free(reader, pointer, self._store)
        if said:
            made = appends.settle(reader, seen, said, (parent or ROOT) if turns else None, True, at)
            writes, moved = made.writes, made.seen.pointer
        elif turns:
            goal = self._hf.sessions._goal(reader, pointer, None, parent or ROOT)
            now_seen, writes = history.move(seen, self._hf.sessions._point(reader, pointer, *goal))
            moved = now_seen.pointer
        else:
            moved = replace(pointer, updated_at=at)
            writes = [Put(history.pointer_record(moved, seen.later), seen.digest)]
        metadata = {**(found.stored.metadata or {}), MARK: _note(record, moved)}
        return with_metadata(reader, found.stored.id, metadata, writes)

    def _begin(self, record: ConversationRecord, said: list[Said]) -> list[Write]:
        """A new conversation with its first entries."""
        first = next((one.message for one in said if one.message.role == "user"), None)
        stored, pointer, root = self._hf.sessions._new(
            id=record.conversation_id,
            agent_id=self._agent_id,
            user_id=record.scope,
            title=None if first is None else title_from(first.text),
            tags=[TAG],
        )
        if not said:
            return [*_inserts(stored, pointer, record), root]
        made = appends.extend(Seen(pointer, b"", {}), said, self._hf._ground.stamps.next())
        messages = [write for write in made.writes if isinstance(write, Insert)]
        return [*_inserts(stored, made.seen.pointer, record), root, *messages]

    def _fork(self, reader: Reader, record: ConversationRecord, said: list[Said]) -> list[Write]:
        """A new conversation that begins with another's entries, which it shares."""
        if said or record.forked_from is None or record.head_id is None:
            raise Unsupported("a fork begins with entries of the conversation it names, and is then saved to")
        at, sessions = record.head_id, self._hf.sessions

        def stand(reader: Reader, pointer: Pointer) -> Pointer:
            _, branch, seq = history.find_reached(reader, pointer, at).key
            return sessions._point(reader, pointer, int(branch), int(seq))

        name = record.conversation_id
        stored, pointer, required = sessions._fork_point(reader, record.forked_from, name, stand, {})
        tags = [*dict.fromkeys([*stored.tags, TAG])]
        return [required, *_inserts(replace(stored, tags=tags), replace(pointer, user_id=record.scope), record)]

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete it and the entries that no other reaches; ConversationConflict if it was saved meanwhile."""
        await self._awaited.call(self._delete, conversation_id, expected_revision)

    def _delete(self, name: str, expected: str) -> None:
        def place(reader: Reader) -> list[Write]:
            found = _look(reader, name)
            if found is None or "deleted" in found.note or _revision(found) != expected:
                raise ConversationConflict(name)
            metadata = {**(found.stored.metadata or {}), MARK: {**found.note, "deleted": True}}
            return with_metadata(reader, name, metadata)

        commit(self._store, place)  # from here on nobody can save to it
        self._hf.sessions.delete(name)


def _note(record: ConversationRecord, pointer: Pointer) -> dict[str, Any]:
    """What is kept of a record beside what the session says itself, and at which link the head then was."""
    saved = _RECORDS.dump_python(record, mode="json", exclude={"conversation_id", "head_id"}, exclude_none=True)
    codec.check_json(saved, "conversation record")
    return {"record": saved, "link": pointer.link.hex(), "of": record.conversation_id}


def _inserts(stored: Stored, pointer: Pointer, record: ConversationRecord) -> list[Write]:
    stored = replace(stored, metadata={**(stored.metadata or {}), MARK: _note(record, pointer)})
    check_readable(stored, pointer)
    return [Insert(stored_record(stored)), *history.new_head(pointer)[1]]
