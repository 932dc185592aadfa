"""Text search at an SQL server: an index beside the messages, filled by whoever searches, so an append pays nothing.

`searched` says up to which position each log is indexed; what is behind that is for the caller to scan. A log of which
a message goes or changes leaves the index as a whole, in the same transaction, and the next search takes it in again.
One client of a namespace fills at a time; others do not wait for it. Logs only grow at their end.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from holdfast.backends._sql_server import SqlServerStore
from holdfast.backends._sql_terms import any_text, terms, wanted_terms
from holdfast.contracts import Hit, Key, Query, Ranked
from holdfast.deadlines import remaining
from holdfast.errors import Busy, ConnectionFailed
from holdfast.kinds import MESSAGES
from holdfast.matching import Wanted, plain

C = TypeVar("C")
Progress: TypeAlias = Callable[[int, int], None]
Scored: TypeAlias = tuple[Key, float]
Terms: TypeAlias = dict[str, list[int]]
Firsts: TypeAlias = dict[tuple[str, int], int]  # from where on each log is unseen

BATCH = 500  # messages that one transaction indexes
BEST = 200  # hits that are fetched at first; who wants more gets all
CHUNK = 50
PATIENCE_S = 0.05


class Log(Struct, frozen=True, gc=False):
    """A log that has messages behind the position up to which it is indexed."""

    history: str
    branch: int
    upto: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many positions are not indexed."""
        return self.last - self.first + 1

    def query(self) -> Query:
        """What of it is not indexed."""
        return Query(kind=MESSAGES, prefix=(self.history, self.branch), low=self.first)

    def part(self, size: int) -> Log:
        """Its first positions."""
        return Log(self.history, self.branch, self.upto, self.first, min(self.last, self.first + size - 1))

    def behind(self, part: Log) -> Log:
        """What is left of it when a part is indexed."""
        return Log(self.history, self.branch, part.last, part.last + 1, self.last)


class Looked(Struct, frozen=True):
    """What is not indexed, and the best of what is."""

    behind: list[Log]
    best: list[Scored]


class SqlSearch(ABC, Generic[C]):
    """The text index of one namespace; a backend says what its server is told."""

    language = None

    def __init__(self, store: SqlServerStore[C], *, read_only: bool) -> None:
        self._store = store
        self._space = store.space
        self._read_only = read_only
        self._any_text = any_text(store.space)

    @abstractmethod
    def _look(self, con: C, asked: Sequence[str], owners: Sequence[str] | None, limit: int | None) -> Looked:
        """The logs that are behind, and what has all these terms or the one of any text, as if at one moment."""

    @abstractmethod
    def _take(self, con: C, logs: Sequence[Log]) -> None:
        """Index these parts of logs in one transaction; Busy if somebody else is at it."""

    @contextmanager
    def find(
        self, wanted: Wanted | str, owners: Sequence[str] | None, progress: Progress | None = None
    ) -> Iterator[Ranked]:
        assert isinstance(wanted, Wanted)
        asked = wanted_terms(self._space, wanted)
        looked = self._store.at_server(lambda con: self._look(con, asked, owners, BEST))
        if looked.behind and not self._read_only:
            self._fill(looked.behind, progress)
            looked = self._store.at_server(lambda con: self._look(con, asked, owners, BEST))
        yield Ranked(self._hits(looked, asked, owners), [log.query() for log in looked.behind])

    def purge(self) -> None:
        """Nothing: the index has no words, and the server clears away the terms of what is gone."""

    # filling

    def _fill(self, behind: list[Log], progress: Progress | None) -> None:
        """Index what is new until all is, somebody else is at it, or half of the time that is left is over."""
        left, done = deque(behind), 0
        total = sum(log.size for log in left)
        until = time.monotonic() + remaining() / 2
        with contextlib.suppress(Busy, ConnectionFailed):  # what is not indexed is scanned
            while left and time.monotonic() < until:
                batch = _batch(left)
                with self._store.connection() as con:
                    self._take(con, batch)
                done += sum(log.size for log in batch)
                if progress is not None:
                    progress(done, total)

    def _terms_of(self, body: bytes) -> Terms:
        return terms(self._space, plain(body))

    # looking

    def _hits(self, looked: Looked, asked: Sequence[str], owners: Sequence[str] | None) -> Iterator[Hit]:
        unseen = {(log.history, log.branch): log.first for log in looked.behind}
        yield from self._records([one for one in looked.best if not _is_in(one[0], unseen)])
        if len(looked.best) == BEST:
            again = self._store.at_server(lambda con: self._look(con, asked, owners, None))
            known = {key for key, _ in looked.best}
            yield from self._fallen_out(again.behind, known, unseen)
            yield from self._records([one for one in again.best if one[0] not in known and not _is_in(one[0], unseen)])

    def _fallen_out(self, behind: Sequence[Log], known: set[Key], unseen: Firsts) -> Iterator[Hit]:
        """What has left the index since the first look, for the judge to look at as it is."""
        for log in behind:
            for record in self._store.scan(log.query()):
                if _is_in(record.key, unseen):
                    break
                if record.key not in known:
                    yield Hit(record, 0.0)

    def _records(self, scored: Sequence[Scored]) -> Iterator[Hit]:
        """The hits with their records, without those that have gone meanwhile."""
        waiting = iter(scored)
        while chunk := list(islice(waiting, CHUNK)):
            records = self._store.get(MESSAGES, [key for key, _ in chunk])
            yield from (
                Hit(record, score) for record, (_, score) in zip(records, chunk, strict=True) if record is not None
            )


def _batch(left: deque[Log]) -> list[Log]:
    """The parts of logs that one transaction takes, which are taken off what is left."""
    batch, room = [], BATCH
    while left and room:
        log = left.popleft()
        part = log.part(room)
        if part.last < log.last:
            left.appendleft(log.behind(part))
        batch.append(part)
        room -= part.size
    return batch


def reached(places: Iterable[Sequence[Any]]) -> list[tuple[str, int, int]]:
    """Up to which position each log was read: what has gone since somebody looked is not said to be indexed."""
    last: dict[tuple[str, int], int] = {}
    for history, branch, seq in places:
        last[history, branch] = max(seq, last.get((history, branch), 0))
    return [(*log, seq) for log, seq in last.items()]


def _is_in(key: Key, unseen: Firsts) -> bool:
    """Whether a place is among what is unseen."""
    first = unseen.get((str(key[0]), int(key[1])))
    return first is not None and int(key[2]) >= first


def row_of(history: Any, branch: Any, seq: Any, score: Any) -> Scored:
    """A row of the index as a place and a score."""
    return (history, int(branch), int(seq)), float(score)
