"""The bare limits: what the disk and SQLite allow, and the same work written out by hand.

synced   append of the text to a file + fdatasync
bare     prepared INSERT of the text + commit
one row  what is left of an append in any layout: the message encoded, hashed and linked, and its row, by one
         INSERT. Nothing keeps the head, nor ids unique
by hand  the statements of an append written out with apsw: encode, hash, link, compare-and-set of the head
         row, INSERT with a unique id, one transaction; also for many tasks of an event loop that share a commit.
         The rows are ours; we have SQLite write them by one statement (decision 0027), which nobody would write
         by hand
with values
         the same by a function that is called as ours is: it takes a Message, and gives the Message in its place or
         the Checkpoint. It checks nothing but that message, waits for no other process and repeats nothing
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import apsw
import msgspec
from msgspec.structs import replace
from rounds import TEXT
from uuid_utils import uuid7

from holdfast import Message, codec
from holdfast.model import Checkpoint, Head

Append = Callable[[], None]
Said = tuple[tuple[object, ...], tuple[object, ...]]  # a head in its new place, and a message
Kept = tuple[int, str, int, bytes, bytes, int]  # a checkpoint
Step = tuple[Said, Kept]
encode = msgspec.json.Encoder(order="sorted").encode


def connect(path: Path) -> apsw.Connection:
    con = apsw.Connection(str(path))
    con.set_busy_timeout(60_000)
    con.execute("PRAGMA journal_mode = WAL")
    con.execute("PRAGMA synchronous = FULL")
    return con


@contextmanager
def synced(folder: Path) -> Iterator[Append]:
    said = TEXT.encode()
    with (folder / "synced").open("ab", buffering=0) as file:

        def append() -> None:
            file.write(said)
            os.fdatasync(file.fileno())

        yield append


@contextmanager
def bare(folder: Path) -> Iterator[Append]:
    with closing(connect(folder / "bare.db")) as con:
        con.execute("CREATE TABLE messages (place INTEGER PRIMARY KEY, body BLOB)")
        yield partial(insert, con, TEXT)


def insert(con: apsw.Connection, text: str) -> None:
    con.execute("BEGIN IMMEDIATE")
    con.execute("INSERT INTO messages (body) VALUES (?)", (text,))
    con.execute("COMMIT")


TABLES = (
    "CREATE TABLE heads (space INTEGER NOT NULL, session_id TEXT, agent_id TEXT, user_id TEXT, status TEXT,"
    " detached_by TEXT, archived INTEGER, created_at INTEGER, updated_at INTEGER, digest BLOB NOT NULL,"
    " body BLOB NOT NULL, PRIMARY KEY (space, session_id)) WITHOUT ROWID",
    "CREATE TABLE messages (place INTEGER PRIMARY KEY, family INTEGER NOT NULL, id TEXT, n INTEGER, link BLOB,"
    " digest BLOB NOT NULL, body BLOB NOT NULL, UNIQUE (id, family))",
    "CREATE TABLE logs (log INTEGER PRIMARY KEY, family INTEGER)",
    "CREATE TABLE checkpoints (place INTEGER PRIMARY KEY, family INTEGER NOT NULL, id TEXT, step INTEGER, at INTEGER,"
    " digest BLOB NOT NULL, body BLOB NOT NULL)",
    "CREATE INDEX heads_by_agent_id ON heads (space, agent_id) WHERE agent_id IS NOT NULL",
    "CREATE INDEX heads_by_user_id ON heads (space, user_id) WHERE user_id IS NOT NULL",
    "CREATE INDEX checkpoints_by_step ON checkpoints (step) WHERE step IS NOT NULL",
    "CREATE UNIQUE INDEX checkpoints_once ON checkpoints (id, family)",
)
UPDATE = (
    "UPDATE heads SET status = ?, detached_by = ?, archived = ?, created_at = ?, updated_at = ?, digest = ?,"
    " body = ? WHERE space = ? AND session_id = ? AND digest = ? AND agent_id IS ? AND user_id IS ?"
)
INSERT = (
    "INSERT INTO messages (place, family, id, n, link, digest, body) SELECT ?, family, ?, ?, ?, ?, ?"
    " FROM logs WHERE log = ?"
)
KEEP = (
    "INSERT INTO checkpoints (place, family, id, at, digest, body) SELECT ?, family, ?, ?, ?, ? FROM logs WHERE log = ?"
)
KEPT = 1 << 20  # above the numbers of all conversations: the numbers of their checkpoints' logs
NEWEST = "SELECT body FROM checkpoints WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 20"
NEWEST_OF = (
    "SELECT body FROM checkpoints, (SELECT log << 32 AS first FROM logs"
    " WHERE space = 1 AND kind = 'checkpoints' AND owner = ? AND branch = 0)"
    " WHERE place BETWEEN first AND first + 4294967295 ORDER BY place DESC LIMIT 20"
)


def message_body(message_id: str, now: datetime) -> bytes:
    content = [{"text": TEXT, "type": "text"}]
    return encode({"content": content, "created_at": now, "id": message_id, "role": "user"})


def checkpoint_body(ids: Mapping[str, str | None], number: int, n: int, link: bytes, at: int, made: datetime) -> bytes:
    """A pointer into a conversation; `ids` are its own, its parent's, the session's and the message's."""
    head = {"branch": 1, "seq": n, "link": link, "n": n, "message_id": ids["message_id"]}
    named = {name: ids[name] for name in ("id", "parent_id", "session_id")}
    return encode({**named, "number": number, "at": at, "created_at": made, "head": head})


def laid_out(path: Path) -> apsw.Connection:
    """A file with our tables."""
    con = connect(path)
    for statement in TABLES:
        con.execute(statement)
    return con


class Spoken:
    """One session by hand: the values of its next rows."""

    def __init__(self, log: int = 1) -> None:
        self._log, self._session = log, str(uuid7())
        self._owner = self._session  # as it is of a session that the store has named
        self._n, self._link, self._head_digest, self._kept, self._parent = 0, bytes(32), b"\0", "", ""
        self._checkpoints = 0
        self._message_id: str | None = None

    def said(self) -> Said:
        """The head in its new place, and the message."""
        message_id, now = str(uuid7()), datetime.now(UTC)
        return self._place(message_id, now, message_body(message_id, now))

    def told(self, message: Message) -> tuple[Said, Message]:
        """The same of a message that is given, and that message in its place."""
        parent = self._message_id
        body, plain = codec.encode_message(message)
        rows = self._place(plain.id, plain.created_at, body)
        return rows, replace(plain, session_id=self._session, branch=1, seq=self._n, parent_id=parent)

    def linked(self) -> tuple[int, bytes, bytes, bytes]:
        """The next message's number, link, digest and bytes."""
        body = message_body(str(uuid7()), datetime.now(UTC))
        digest = self._chain(body)
        return self._n, self._link, digest, body

    def _chain(self, body: bytes) -> bytes:
        """The digest of the next message, which is linked behind the last."""
        self._n += 1
        digest = hashlib.sha256(body).digest()
        self._link = hashlib.sha256(self._link + digest + self._n.to_bytes(8)).digest()
        return digest

    def _place(self, message_id: str, now: datetime, body: bytes) -> Said:
        digest = self._chain(body)
        n, self._message_id = self._n, message_id
        self._at = time.time_ns() // 1000
        ids = {"history": self._owner, "message_id": self._message_id, "session_id": self._session, "uid": self._owner}
        place = {"branch": 1, "created_at": self._at, "last_message_at": now, "link": self._link, "n": n, "seq": n}
        kept = {"checkpoints": self._checkpoints, "checkpoint_id": self._kept} if self._kept else {}
        head = encode({**ids, **place, **kept, "checkpoint_step": -1, "titled": True, "updated_at": self._at})
        over, self._head_digest = self._head_digest, hashlib.sha256(head).digest()
        moved = ("active", None, 0, 1, self._at, self._head_digest, head, 1, self._session, over, None, None)
        return moved, (self._log << 32 | n, self._message_id, n, self._link, digest, body, self._log)

    def name_checkpoint(self) -> None:
        """Give the next checkpoint its id, which the head tells."""
        self._parent, self._kept = self._kept, str(uuid7())
        self._checkpoints += 1

    def kept(self) -> Kept:
        """The checkpoint of where it stands."""
        ids = {"id": self._kept, "parent_id": self._parent, "session_id": self._session}
        ids["message_id"], self._made, number = self._message_id or "", datetime.now(UTC), self._checkpoints
        body = checkpoint_body(ids, number, self._n, self._link, self._at, self._made)
        log = KEPT + self._log
        return log << 32 | number, self._kept, self._at, hashlib.sha256(body).digest(), body, log


class Conversation(Spoken):
    """The same with the statements that write them into SQLite."""

    def __init__(self, con: apsw.Connection, log: int) -> None:
        super().__init__(log)
        self.con = con
        con.executemany("INSERT INTO logs VALUES (?, ?)", [(log, log), (KEPT + log, 1)])
        first = "INSERT INTO heads (space, session_id, digest, body) VALUES (1, ?, x'00', x'00')"
        con.execute(first, (self._session,))

    def write(self, moved: tuple[object, ...], said: tuple[object, ...]) -> None:
        self.con.execute(UPDATE, moved)
        if self.con.changes() != 1:
            raise RuntimeError("lost the race")
        self.con.execute(INSERT, said)

    def close(self) -> None:
        self.con.close()


class ByHand(Conversation):
    """One session's statements, without and with a checkpoint in the same transaction."""

    def __init__(self, path: Path) -> None:
        super().__init__(laid_out(path), 1)

    def append(self) -> None:
        self.commit(self.said())

    def commit(self, rows: Said) -> None:
        self.con.execute("BEGIN IMMEDIATE")
        self.write(*rows)
        self.con.execute("COMMIT")

    def append_with_values(self) -> Message:
        rows, placed = self.told(Message.user(TEXT))
        self.commit(rows)
        return placed

    def step(self) -> None:
        """Append + checkpoint."""
        self.name_checkpoint()
        self.keep((self.said(), self.kept()))

    def step_with_values(self) -> Checkpoint:
        rows = self.stepped()
        self.keep(rows)
        return self.shown(rows)

    def stepped(self) -> Step:
        """The rows of a step that is given a Message."""
        self.name_checkpoint()
        rows, _ = self.told(Message.user(TEXT))
        return rows, self.kept()

    def keep(self, rows: Step) -> None:
        self.con.execute("BEGIN IMMEDIATE")
        self.write(*rows[0])
        self.con.execute(KEEP, rows[1])
        self.con.execute("COMMIT")

    def shown(self, rows: Step) -> Checkpoint:
        """The checkpoint of these rows, as its caller has it."""
        kept = rows[1]
        return Checkpoint(
            id=self._kept,
            session_id=self._session,
            parent_id=self._parent,
            created_at=self._made,
            head=Head(branch=1, seq=self._n, message_id=self._message_id),
            size_bytes=len(kept[4]),
            checksum=kept[3].hex(),
        )


class OneRow(Conversation):
    """One session of which nothing is kept but its chained messages."""

    def __init__(self, path: Path) -> None:
        super().__init__(laid_out(path), 1)
        self.con.execute("CREATE TABLE linked (n INTEGER PRIMARY KEY, link BLOB, digest BLOB, body BLOB)")

    def append(self) -> None:
        self.con.execute("INSERT INTO linked VALUES (?, ?, ?, ?)", self.linked())


class Together:
    """Many sessions' statements, a message of each in one transaction."""

    def __init__(self, path: Path, sessions: int) -> None:
        self.con = laid_out(path)
        self._all = [Conversation(self.con, number) for number in range(1, sessions + 1)]

    def append(self) -> None:
        self.commit([(one, one.said()) for one in self._all])

    def commit(self, said: Sequence[tuple[Conversation, Said]]) -> None:
        self.con.execute("BEGIN IMMEDIATE")
        for one, rows in said:
            one.write(*rows)
        self.con.execute("COMMIT")

    def close(self) -> None:
        self.con.close()


class OnTasks(Together):
    """The same with values, by a task each: what all have said is committed in the loop's next turn."""

    def __init__(self, path: Path, sessions: int) -> None:
        super().__init__(path, sessions)
        self._said: list[tuple[Conversation, Said]] = []
        self._commits = 0

    async def append_to(self, session: int, message: Message) -> list[Message]:
        one = self._all[session]
        rows, placed = one.told(message)
        if not self._said:
            asyncio.get_running_loop().call_soon(self._commit)
        self._said.append((one, rows))
        before = self._commits
        await asyncio.sleep(0)
        if self._commits == before:
            raise RuntimeError("nothing was committed")
        return [placed]

    def _commit(self) -> None:
        said, self._said = self._said, []
        self.commit(said)
        self._commits += 1


class BareRows:
    """A message and a checkpoint as two plain rows: the same JSON under a number, no index, nothing hashed."""

    def __init__(self, path: Path) -> None:
        self.con = connect(path)
        self.con.execute("CREATE TABLE messages (place INTEGER PRIMARY KEY, body BLOB)")
        self.con.execute("CREATE TABLE checkpoints (place INTEGER PRIMARY KEY, body BLOB)")
        self._session, self._kept, self._n = str(uuid7()), str(uuid7()), 0

    def step(self) -> None:
        self.keep(self.stepped())

    def stepped(self) -> tuple[bytes, bytes]:
        self._n += 1
        message_id, kept = str(uuid7()), str(uuid7())
        ids = {"id": kept, "parent_id": self._kept, "session_id": self._session}
        ids["message_id"], self._kept = message_id, kept
        now = datetime.now(UTC)
        message = message_body(message_id, now)
        return message, checkpoint_body(ids, self._n, self._n, bytes(32), time.time_ns() // 1000, now)

    def keep(self, rows: tuple[bytes, bytes]) -> None:
        self.con.execute("BEGIN IMMEDIATE")
        self.con.execute("INSERT INTO messages (body) VALUES (?)", (rows[0],))
        self.con.execute("INSERT INTO checkpoints (body) VALUES (?)", (rows[1],))
        self.con.execute("COMMIT")

    def close(self) -> None:
        self.con.close()
