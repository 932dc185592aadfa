"""Redis and Valkey: a namespace is a few hashes and sorted sets in one slot, and a commit is one script.

Rows stand in a hash per kind, their keys and indexed fields in a sorted set without scores, unique values in a hash.
The script checks every condition before it writes. A plan relies on what it has read by requiring it in its commit;
a refusal goes to the caller, who plans anew.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import count
from typing import Any, Literal
from urllib.parse import quote

from holdfast.backends._opened import Opened
from holdfast.backends._paging import in_pages
from holdfast.backends._redis import scripts
from holdfast.backends._redis.blobs import RedisBlobs
from holdfast.backends._redis.line import Command, Line
from holdfast.backends._redis.operations import Contended, Operations, Watching
from holdfast.backends._redis.plans import Plan, arguments, plan
from holdfast.backends._redis.rows import decode_key, encode_key, unpack
from holdfast.backends._redis.settings import Settings
from holdfast.backends._redis.turns import turn
from holdfast.backends._redis.waking import KEPT, STREAM, Stream
from holdfast.backends._waking import Waking
from holdfast.contracts import Inspection, Key, Query, Rebase, Record, Sharing, Write, check_limits
from holdfast.deadlines import DEFAULT_TIMEOUT_S, remaining
from holdfast.errors import AccessDenied, HoldfastError, MigrationError
from holdfast.kinds import KINDS, Kind

FORMAT = 1
MOST_ROWS, MOST_BYTES = 2_000, 4 * 1024 * 1024  # what one script looks at, while everybody else waits
FIRST_PATIENCE_S = 1.0  # a wrong address is told soon
CHANCE_S = 0.4  # how long a writer that others outran leaves it to chance before it queues
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.1
FORGOTTEN_S = 24 * 60 * 60


class _Slot:
    """A place in which the server keeps the number of the last commit that was made from it."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.number = 0


class RedisStore:
    """A record store on a Redis or Valkey server."""

    sharing: Sharing = "processes"

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "",
        durability: Literal["full", "normal"] = "full",
        read_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._opened = Opened(read_only)
        self._tag = b"hf:{%s}:" % (quote(namespace, safe="") or "%").encode()  # `{}` would be no hash tag
        self._durability = durability
        self.scripts = scripts.load()
        self._client, self._numbers = os.urandom(12), count()
        self._slots: deque[_Slot] = deque()
        self._line = Line(url, timeout)
        self._waking = Waking(Stream(self._line.pool, self.key(STREAM)).listen)
        try:
            self._enter()
        except BaseException:
            self._line.close()
            raise

    def _enter(self) -> None:
        name = self.key("format")
        ours = ("GET", name) if self._opened.read_only else ("SET", name, FORMAT, "NX", "GET")
        self._line.ask(("PING",), patience_s=FIRST_PATIENCE_S)
        stored = self._line.say(*ours)
        if stored is not None and int(stored) > FORMAT:
            raise MigrationError(f"this namespace has format {int(stored)}; open it with a newer version of holdfast")
        if not self._opened.read_only:
            self._check_allowed()
        if self._durability == "full" and not self._opened.read_only:
            self._line.waits_for_disk = Settings(self._line).waits_for_disk

    def _check_allowed(self) -> None:
        """AccessDenied unless this user may run all that a commit consists of."""
        refused = self._line.run(
            self.scripts.allowed, [self.key("commits"), self._places(KINDS[0])[1]], [], writes=True
        )
        if refused:
            raise AccessDenied(f"this user may not run what a commit needs; grant it (ACL SETUSER): {refused.decode()}")

    def key(self, name: str) -> bytes:
        """The server's key for something of this namespace; all of them fall into one slot."""
        return self._tag + name.encode()

    def to_read(self) -> Line:
        """The line to the server, if this store may be used."""
        self._opened.to_read()
        return self._line

    def to_write(self) -> Line:
        """The line to the server, if this store may be written to."""
        self._opened.to_write()
        return self._line

    # reading

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        line = self.to_read()
        if not keys:
            return []
        rows = line.say("HMGET", self.key(kind.name), *map(encode_key, keys))
        return [None if row is None else unpack(kind, key, row) for key, row in zip(keys, rows, strict=True)]

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, self._page)

    def _page(self, query: Query) -> list[Record]:
        kind, found = query.kind, list[Record]()
        assert query.limit is not None
        way: Plan | None = plan(query)
        while way is not None and len(found) < query.limit:
            way, answer = self._read(kind, way, "rows", query.limit - len(found))
            found += [
                unpack(kind, decode_key(kind, key), row) for key, row in zip(answer[::2], answer[1::2], strict=True)
            ]
        return found

    def count(self, query: Query) -> int:
        way = plan(query)
        if way.claim or way.tests:
            found = self._sum(query.kind, way, "count")
        else:
            found = 0 if way.empty else self.to_read().say("ZLEXCOUNT", self._order(query.kind), way.low, way.high)
        return found if query.limit is None else min(found, query.limit)

    def _sum(self, kind: Kind, way: Plan | None, what: str) -> int:
        found = 0
        while way is not None:
            way, answer = self._read(kind, way, what, MOST_ROWS)
            found += answer[0] if answer else 0
        return found

    def _read(self, kind: Kind, way: Plan, what: str, limit: int) -> tuple[Plan | None, list[Any]]:
        """Some of what a plan leads to, and the plan for the rest."""
        line = self.to_read()
        if way.empty:
            return None, []
        bounds = (way.claim, way.low, way.high, int(way.reverse), limit, MOST_ROWS, MOST_BYTES)
        args = [kind.name, what, *bounds, *arguments(way.tests)]
        last, *answer = line.run(self.scripts.read, self._places(kind), args)
        return way.behind(last) if last else None, answer

    def _order(self, kind: Kind) -> bytes:
        return self.key(f"{kind.name}:order")

    def _places(self, kind: Kind) -> list[bytes]:
        return [self.key(kind.name), self._order(kind), self.key(f"{kind.name}:unique")]

    def now(self) -> int:
        """The server's clock in microseconds."""
        seconds, micros = self.to_read().say("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def _turn(self, kind: Kind, key: Key) -> bytes:
        return self.key(f"turn:{kind.name}:") + encode_key(key)

    # writing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self._opened.to_write()
        if rebase is None:
            return self._apply(writes or (), Operations(writes or (), in_turn=False))
        try:
            return self._planned(rebase) if writes is None else self._apply(writes, Operations(writes, in_turn=True))
        except Contended as refusal:
            return self._insist(rebase, self._turn(*refusal.place))

    def _insist(self, rebase: Rebase, key: bytes) -> Sequence[Write]:
        """Plan anew, first by chance, which is fast while few are at it, then in turn, which starves nobody."""
        fair_from, pause = time.monotonic() + min(CHANCE_S, remaining() / 2), FIRST_PAUSE_S
        while time.monotonic() < fair_from:
            time.sleep(random.uniform(0, pause))
            pause = min(pause * 2, LONGEST_PAUSE_S)
            try:
                return self._planned(rebase)
            except Contended:
                continue
        with turn(self._line, self.scripts, key) as token:
            return self._planned(rebase, token)

    def _planned(self, rebase: Rebase, token: bytes = b"") -> Sequence[Write]:
        """Apply what `rebase` makes of what is there, if what it has seen still is."""
        seen = Watching(self)
        writes = rebase(seen)
        return self._apply(writes, Operations([*seen.given(), *writes], in_turn=True), token)

    def _apply(self, writes: Sequence[Write], operations: Operations, token: bytes = b"") -> Sequence[Write]:
        check_limits(writes)
        if not writes:
            return writes
        answer = self._carry_out(operations, token)
        if answer != b"OK":
            raise operations.refusal(answer)
        return writes

    def _carry_out(self, operations: Operations, token: bytes) -> Any:
        """Send a commit under a number of its own, so that the server knows it again if it is sent twice."""
        try:
            slot = self._slots.pop()
        except IndexError:
            slot = _Slot(self._client + next(self._numbers).to_bytes(4))
        slot.number += 1
        kinds = [kind for kind in KINDS if kind.name in operations.kinds]
        kinds.sort(key=lambda kind: operations.kinds[kind.name])
        turns = [self._turn(kind, key) for kind, key in operations.turns]
        own = [self.key("commits"), self.key(STREAM)]
        keys = [*own, *(key for kind in kinds for key in self._places(kind)), *turns]
        try:
            args = [slot.name, slot.number, token, KEPT, *operations.arguments()]
            return self._line.run(self.scripts.commit, keys, args, durably=True)
        finally:
            self._slots.append(slot)

    # the store as a whole

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        line = self.to_read()
        settings = Settings(line)
        settings.check_eviction()
        size = sum(self._sum(kind, plan(Query(kind=kind)), "bytes") for kind in KINDS) if measure else None
        return Inspection(
            backend="redis",
            version=settings.version,
            durability=settings.durability(line.waits_for_disk),
            bytes=size,
            problems=(*settings.problems(), *self._lost_entries()) if check else (),
        )

    def _lost_entries(self) -> Iterator[str]:
        """Kinds of which the server has more rows than keys in order, or fewer."""
        asked: list[Command] = [("HLEN", self.key(kind.name)) for kind in KINDS]
        asked += [("ZLEXCOUNT", self._order(kind), b"[\0", b"(\1") for kind in KINDS]
        found = self._line.ask(("MULTI",), *asked, ("EXEC",))[-1]
        for kind, rows, entries in zip(KINDS, found, found[len(KINDS) :], strict=False):
            if rows != entries:
                yield f"{kind.name}: {rows} rows, but {entries} keys in order"

    def blobs(self) -> RedisBlobs:
        """The blobs of this namespace."""
        return RedisBlobs(self)

    def compact(self) -> None:
        """Forget the commits of clients that ended without closing their store."""
        line = self.to_write()
        oldest = self.now() // 1_000_000 - FORGOTTEN_S
        line.run(self.scripts.forget, [self.key("commits")], [oldest], writes=True)

    def wake(self, owner: str, woken: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `woken` when events of an owner were added."""
        return self._waking.waiting(owner, woken)

    def close(self) -> None:
        if not self._opened.close():
            return
        self._waking.close()
        if self._slots:
            with suppress(HoldfastError):
                self._line.ask(("HDEL", self.key("commits"), *(slot.name for slot in self._slots)), patience_s=0)
        self._line.close()


def open_url(url: str, **options: Any) -> RedisStore:
    """The store that an address such as `redis://localhost:6379/0` names."""
    return RedisStore(url, **options)
