"""Search: messages by their text, in whatever sessions reach them.

A backend's index only guesses; `matching` judges every message it brings, and every message it has not seen. So
what is found is the same everywhere, and only the order is each backend's own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from holdfast import codec, history, matching
from holdfast.contracts import Hit, Key, Query, Ranked, Record, RecordStore, SearchesText
from holdfast.deadlines import remaining
from holdfast.errors import Busy, CorruptData, InvalidInput, Unsupported
from holdfast.ids import check_count, check_id, micros
from holdfast.kinds import MESSAGES, PRUNED, USAGES
from holdfast.matching import Wanted
from holdfast.model import ROLES, Found, Message, Role, Usage
from holdfast.nouns import Noun
from holdfast.reaching import Reached, Scope

Progress = Callable[[int, int], None]
T = TypeVar("T")

_LOOK_AT_CLOCK = 256  # messages between two looks


class Asked(Struct, frozen=True, kw_only=True):
    """One search: what is wanted, from whom and when, and how much of it; `query` is in the index's language."""

    wanted: Wanted
    query: str | None = None
    scope: Scope
    role: Role | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    limit: int

    def passes(self, message: Message) -> bool:
        """Whether a message is of the role and time asked for."""
        return (
            (self.role is None or message.role == self.role)
            and (self.created_after is None or message.created_at >= self.created_after)
            and (self.created_before is None or message.created_at < self.created_before)
        )


class _Match(Struct, frozen=True, gc=False):
    """A message that is among what is asked for."""

    score: float
    record: Record
    message: Message
    session_id: str

    def order(self) -> tuple[float, datetime, int]:
        """Best first, then newest first, when sorted downwards."""
        number = self.record.fields[1]
        return self.score, self.message.created_at, number if isinstance(number, int) else 0


class Searching(Noun):
    """The part of the client that finds messages."""

    def search(
        self,
        text: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        role: Role | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        substring: bool = False,
        syntax: bool = False,
        limit: int = 20,
        progress: Callable[[int, int], None] | None = None,
        timeout: float | None = None,
    ) -> list[Found]:
        """The messages that have every word of the text, best first; on all branches, not in detached sessions.

        `substring` finds the text anywhere, also inside words; `syntax` takes a query in the backend's own language
        (FTS5 on SQLite), Unsupported where it has none. `progress` is told how many new messages are indexed so far,
        and of how many.
        """
        wanted, query = ask(text, substring, syntax)
        if progress is not None and not callable(progress):
            raise InvalidInput(f"progress is a function of two numbers, not {progress!r}")
        for moment, name in ((created_after, "created_after"), (created_before, "created_before")):
            if moment is not None:
                micros(moment, name)
        asked = Asked(
            wanted=wanted,
            query=query,
            scope=check_scope(Scope(agent_id=agent_id, session_id=session_id, user_id=user_id)),
            role=check_role(role),
            created_after=created_after,
            created_before=created_before,
            limit=check_count(limit, "limit"),
        )
        with self._within(timeout):
            return search(self._store, asked, progress)


def ask(text: str, substring: bool, syntax: bool) -> tuple[Wanted, str | None]:
    """What a text asks for; InvalidInput if it asks for nothing."""
    if not isinstance(text, str):
        raise InvalidInput(f"text is a string, not {type(text).__name__}")
    for name, flag in (("substring", substring), ("syntax", syntax)):
        if not isinstance(flag, bool):
            raise InvalidInput(f"{name} is True or False, not {flag!r}")
    if substring and syntax:
        raise InvalidInput("a query has a syntax or is a substring, not both")
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInput("the text is not valid Unicode (a lone surrogate)") from cause
    if not text.strip():
        raise InvalidInput("the text is blank; say what to look for")
    wanted = matching.substring(text) if substring else matching.words(text)
    return wanted, text if syntax else None


def check_scope(scope: Scope) -> Scope:
    """The scope itself, or InvalidId if one of its ids is none."""
    for name in scope.__struct_fields__:
        if getattr(scope, name) is not None:
            check_id(getattr(scope, name), name.replace("_", " "))
    return scope


def check_role(role: str | None) -> Role | None:
    """The role in lower case, or InvalidInput if it is none."""
    if role is None:
        return None
    if isinstance(role, str):
        for known in ROLES:
            if role.lower() == known:
                return known
    raise InvalidInput(f"role is one of {', '.join(ROLES)}, not {role!r}")


def search(store: RecordStore, asked: Asked, progress: Progress | None) -> list[Found]:
    """The messages that match, best first."""
    index = store.text if isinstance(store, SearchesText) else None
    if asked.query is not None and (index is None or index.language is None):
        raise Unsupported("this backend has no query language; search without syntax=True")
    reached = Reached(store, asked.scope)
    owners = None if asked.scope.is_open() else reached.histories()
    if asked.limit == 0 or owners == []:
        return []
    if index is not None and (asked.query is not None or asked.wanted.words or asked.wanted.runs):
        with index.find(asked.wanted if asked.query is None else asked.query, owners, progress) as ranked:
            matches = list(_indexed(store, asked, reached, ranked))
    else:
        matches = _scanned(store, asked, reached, reached.queries())
    return _found(store, asked, sorted(matches, key=_Match.order, reverse=True)[: asked.limit])


def _indexed(store: RecordStore, asked: Asked, reached: Reached, ranked: Ranked) -> Iterator[_Match]:
    """The best of what the index has, and the best of what it has not seen."""
    yield from islice(_confirmed(asked, reached, ranked.hits), asked.limit)
    unseen = (query for query in ranked.unseen if reached.is_reached(str(query.prefix[0])))
    yield from _scanned(store, asked, reached, unseen)


def _confirmed(asked: Asked, reached: Reached, hits: Iterator[Hit]) -> Iterator[_Match]:
    """The hits that are among what is asked for; a query in the index's own language only the index can judge."""
    for hit in _in_time(hits):
        session_id = reached.session_of(hit.record.key)
        message = None if session_id is None else _read(hit.record)
        if session_id is None or message is None or not asked.passes(message):
            continue
        if asked.query is not None or asked.wanted.count(matching.fold(message.text)):
            yield _Match(hit.score, hit.record, message, session_id)


def _scanned(store: RecordStore, asked: Asked, reached: Reached, queries: Iterable[Query]) -> list[_Match]:
    """The best of the messages that no index has ranked: those that have most of what is wanted, and the newest."""
    records = (record for query in queries for record in store.scan(query))
    return heapq.nlargest(asked.limit, _judged(asked, reached, records), key=_Match.order)


def _judged(asked: Asked, reached: Reached, records: Iterator[Record]) -> Iterator[_Match]:
    may_have = asked.wanted.sieve()
    for record in _in_time(records):
        if not may_have(record.body):
            continue
        count = asked.wanted.count(matching.fold(matching.plain(record.body)))
        session_id = reached.session_of(record.key) if count else None
        message = None if session_id is None else _read(record)
        if session_id is not None and message is not None and asked.passes(message):
            yield _Match(float(count), record, message, session_id)


def _in_time(found: Iterator[T]) -> Iterator[T]:
    """The same, or Busy at the deadline."""
    for number, one in enumerate(found, 1):
        if number % _LOOK_AT_CLOCK == 0 and remaining() == 0:
            raise Busy("the search did not end within its timeout; narrow it, or raise timeout=")
        yield one


def _read(record: Record) -> Message | None:
    """The message of a record; None where it is damaged, which is for `verify` to say."""
    try:
        return codec.decode_message(record.body, f"message {record.key}")
    except CorruptData:
        return None


def _found(store: RecordStore, asked: Asked, matches: list[_Match]) -> list[Found]:
    """The matches as people see them, each message in its place."""
    keys = [match.record.key for match in matches]
    usages, pruned = store.get(USAGES, keys), store.get(PRUNED, keys)
    before = store.get(MESSAGES, [(*key[:2], int(key[2]) - 1) for key in keys])
    found = []
    for match, usage, mark, previous in zip(matches, usages, pruned, before, strict=True):
        _, branch, seq = match.record.key
        parent = _parent(store, match.record.key, previous)
        message = codec.decode_placed(match.record.body, match.session_id, int(branch), int(seq), parent)
        used = None if usage is None else codec.decode(usage.body, Usage, "usage")
        codec.note(message, used, mark is not None)
        snippet = matching.snippet(message.text, asked.wanted)
        found.append(Found(message=message, snippet=snippet, score=match.score, session_id=match.session_id))
    return found


def _parent(store: RecordStore, key: Key, previous: Record | None) -> str | None:
    return history.before(store, key) if previous is None else str(previous.fields[0])
