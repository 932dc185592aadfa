"""Text search in a SQLite file: FTS5, filled by whoever searches, so that an append pays nothing for it.

`searched` says up to which position each log is indexed; what is behind that is for the caller to scan. Each
namespace has its own index, made by the first search; it keeps words and places, no texts, and can be dropped and
filled again at any time. Logs only grow at their end.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

import apsw

from holdfast.backends import _sqlite_words as tables
from holdfast.backends._sqlite_logs import LAST
from holdfast.backends._sqlite_rows import checked, whole
from holdfast.backends._sqlite_words import Log
from holdfast.contracts import Hit, Ranked, Reader, Record, Write
from holdfast.deadlines import deadline, remaining, within
from holdfast.errors import BackendError, Busy, HoldfastError, InvalidInput, Unsupported
from holdfast.kinds import MESSAGES
from holdfast.matching import Wanted, indexed

if TYPE_CHECKING:
    from holdfast.backends._sqlite_reading import SqliteReader
    from holdfast.backends.sqlite import SqliteStore

Progress = Callable[[int, int], None]
T = TypeVar("T")

BATCH = 500  # messages that one transaction indexes
LARGE = 10_000  # messages after which many small pieces of the index are worth merging
BATCH_BYTES = 4 * 1024 * 1024
PATIENCE_S = 0.05
MERGE_PAGES = 500  # pages that one transaction rewrites
# Letters, digits, `_` and all beyond ASCII, by naming what is none of these: by naming them it compiles for 2 ms.
_WORD = re.compile(r"[^\x00-/:-@\[-^`{-\x7f]+")
MOST_WORDS = 32  # that the index is asked for; the judge knows the rest


class SqliteSearch:
    """The text index of one namespace."""

    language = "FTS5"

    def __init__(self, store: SqliteStore, read_only: bool) -> None:
        self._store = store
        self._space = store.space
        self._read_only = read_only

    @contextmanager
    def find(
        self, wanted: Wanted | str, owners: Sequence[str] | None, progress: Progress | None = None
    ) -> Iterator[Ranked]:
        expression = phrase(wanted) if isinstance(wanted, Wanted) else spaced_out(wanted)
        with self._store.reading() as reader, _snapshot(reader):
            behind = self._behind(reader, owners)
            if behind and not self._read_only:
                reader.con.execute("ROLLBACK")
                # A search in FTS5's own language needs all of the index, and waits for it.
                self._fill(behind, progress, PATIENCE_S if isinstance(wanted, Wanted) else remaining())
                reader.con.execute("BEGIN")
                behind = self._behind(reader, owners)
            if behind and not isinstance(wanted, Wanted):
                raise self._lacking()
            with closing(self._hits(reader, expression, owners)) as hits:
                yield Ranked(hits, [log.query() for log in behind])

    def _lacking(self) -> HoldfastError:
        if self._read_only:
            return Unsupported("not all text is indexed, and a reader cannot; search once without read_only")
        return Busy("not all text is indexed, and FTS5 needs that; repeat, or raise timeout=")

    def _hits(self, reader: SqliteReader, expression: str, owners: Sequence[str] | None) -> Generator[Hit]:
        con = reader.con
        if tables.state(con, self._space) != "usable":
            return
        clause, values = tables.scope(con, self._space, owners)
        try:
            with checked():
                for row in con.execute(tables.ranked(self._space, clause), (expression, *values)):
                    owner, branch, rank, place, *fields, digest, body = row
                    key = (owner, whole(branch), place & LAST)
                    yield Hit(Record(MESSAGES, key, body, digest, tuple(fields)), -rank)
        except apsw.SQLError as cause:
            raise InvalidInput(f"{expression!r} is no FTS5 query: {cause}") from cause
        except apsw.CorruptError as cause:
            if not self._read_only:
                self._inside(lambda con: tables.drop(con, self._space))
            raise BackendError("the text index is damaged; search again, and it is made anew") from cause

    def _behind(self, reader: SqliteReader, owners: Sequence[str] | None) -> list[Log]:
        """The logs that have messages which are not indexed."""
        if owners is not None:
            return tables.behind(reader.con, self._space, owners)
        (version,) = reader.con.execute("PRAGMA data_version").fetchone()  # type: ignore[misc]
        if version == reader.indexed_at:
            return []
        found = tables.behind(reader.con, self._space, None)
        reader.indexed_at = None if found else int(version)
        return found

    # filling

    def _fill(self, behind: list[Log], progress: Progress | None, patience_s: float) -> None:
        """Index what is new until all is, the lock is not free, or half of the time that is left is over."""
        left, done = deque(behind), 0
        total = sum(log.size for log in left)
        until = time.monotonic() + remaining() / 2
        with contextlib.suppress(Busy):
            while left and time.monotonic() < until:
                with within(patience_s):
                    done += self._inside(lambda con: _fill_some(con, self._space, left))
                if progress is not None:
                    progress(min(done, total), total)
            if done >= LARGE:
                self._inside(lambda con: tables.set_unmerged(con, self._space, True))
                self._merge(until)

    def _inside(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do something on the writing connection, inside a commit of its own."""
        answers: list[T] = []

        def inside(reader: Reader) -> list[Write]:
            answers[:] = [work(reader.con)]  # type: ignore[attr-defined]
            return []

        self._store.commit(None, inside)
        return answers[0]

    # what goes

    def purge(self) -> None:
        """Merge the index into one piece, some pages at a time, if messages were deleted from it in bulk."""
        with self._store.reading() as reader:
            if self._read_only or not tables.unmerged(reader.con, self._space):
                return
        self._merge(deadline())

    def _merge(self, until: float) -> None:
        """What is not merged in time is left for the next who comes."""
        more = self._inside(lambda con: tables.merge(con, self._space, -MERGE_PAGES))
        while more and time.monotonic() < until:
            more = self._inside(lambda con: tables.merge(con, self._space, MERGE_PAGES))


@contextmanager
def _snapshot(reader: SqliteReader) -> Iterator[None]:
    """Reads inside the block see one moment, until its transaction is ended and begun again."""
    reader.con.execute("BEGIN")
    try:
        yield
    finally:
        if reader.con.in_transaction:
            reader.con.execute("ROLLBACK")


def _fill_some(con: apsw.Connection, space: int, left: deque[Log]) -> int:
    """Index the next messages of these logs, and drop the logs that are done; returns how many messages."""
    tables.make(con, space)
    done, size = 0, 0
    while left and done < BATCH and size < BATCH_BYTES:
        log = left.popleft()
        rows, upto = tables.unindexed(con, log, BATCH - done), 0
        for place, body in rows:
            if size >= BATCH_BYTES:
                break
            tables.add(con, space, place, body)
            done, size, upto = done + 1, size + len(body), place & LAST
        if rows:
            tables.mark(con, log.log, upto)
            if upto < log.last:
                left.appendleft(log)
    return done


def phrase(wanted: Wanted) -> str:
    """The FTS5 query for what is wanted: words, and runs of characters as phrases, all of which must occur."""
    runs = [" ".join(run) for run in wanted.runs]
    return " ".join(f'"{piece}"' for piece in [*wanted.words, *runs][:MOST_WORDS])


def spaced_out(query: str) -> str:
    """A query of the caller's in the form of the index: folded beyond ASCII, unbroken scripts apart and quoted."""
    pieces = query.split('"')
    for at, piece in enumerate(pieces):
        quote = "" if at % 2 else '"'  # every other piece is inside quotes already
        pieces[at] = _WORD.sub(lambda word, quote=quote: _spaced(word[0], quote), piece)  # type: ignore[misc]
    return '"'.join(pieces)


def _spaced(word: str, quote: str) -> str:
    if word.isascii():
        return word
    spaced = indexed(word).split()
    return spaced[0] if len(spaced) == 1 else f"{quote}{' '.join(spaced)}{quote}"
