"""Appends by many while something breaks, rivals, and cuts of a connection: what the tests of servers share."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from servers.proxy import Proxy

import holdfast
from holdfast.client import Holdfast
from holdfast.contracts import Insert, Put, Reader, RecordStore, Write
from holdfast.errors import ConnectionFailed
from holdfast.kinds import SESSIONS
from holdfast.model import Message
from holdfast.testing.records import agent, dump, session

WRITERS = 4
APPENDS = 60
LONG_S = 60.0


def append_all(store: RecordStore, progress: Callable[[], object] = lambda: None) -> None:
    """Let some writers append to one session; then every message is there once, in its writer's order."""
    hf = Holdfast(store, timeout=LONG_S)
    hf.sessions.create(id="s")

    def write(writer: int) -> None:
        for number in range(APPENDS):
            hf.sessions.append("s", Message.user(f"{writer} {number}"))
            progress()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    said = [message.text for message in hf.sessions.messages("s")]
    for writer in range(WRITERS):
        mine = [text for text in said if text.startswith(f"{writer} ")]
        assert mine == [f"{writer} {number}" for number in range(APPENDS)]
    assert len(said) == WRITERS * APPENDS
    assert hf.verify().problems == []


def append_and_disturb(store: RecordStore, disturb: Callable[[], object]) -> None:
    """Do it when half of all appends are acknowledged."""
    acknowledged, half = itertools.count(1), threading.Event()

    def progress() -> None:
        if next(acknowledged) == WRITERS * APPENDS // 2:
            half.set()

    def wait_and_disturb() -> None:
        assert half.wait(LONG_S)
        disturb()

    with ThreadPoolExecutor(1) as pool:
        disturbing = pool.submit(wait_and_disturb)
        append_all(store, progress)
        disturbing.result()
    store.close()


def plan_beside_an_insert(store: RecordStore) -> None:
    """What a plan has found absent cannot come between its look and its commit: it plans again."""
    with ThreadPoolExecutor(1) as pool:

        def plan(reader: Reader) -> list[Write]:
            if reader.get(SESSIONS, [("s",)]) == [None]:
                pool.submit(store.commit, [Insert(session("s"))]).result()
                return [Put(agent("a", b"there was no session"))]
            return [Put(agent("a", b"there was one"))]

        store.commit(None, plan)
    assert dump(store) == [agent("a", b"there was one"), session("s")]


class Crowd:
    """Writers with a client each, who say every message until it is acknowledged."""

    def __init__(self, url: str, appends: int) -> None:
        self._url = url
        self._appends = appends
        self._acknowledged = threading.Semaphore(0)
        self._writing: list[Future[list[str]]] = []

    @property
    def total(self) -> int:
        """How many messages they say together."""
        return WRITERS * self._appends

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let them append to one session of a new store; leaving waits until they have ended."""
        with holdfast.open(self._url) as hf:
            hf.sessions.create(id="s")
        with ThreadPoolExecutor(WRITERS) as pool:
            self._writing = [pool.submit(self._say, writer) for writer in range(WRITERS)]
            yield

    def wait_for(self, acknowledged: int) -> None:
        """Wait until they have had so many more acknowledged."""
        for _ in range(acknowledged):
            assert self._acknowledged.acquire(timeout=2 * LONG_S)

    def check(self, url: str) -> None:
        """Everything acknowledged is there, once, in one sound chain."""
        said = [id for one in self._writing for id in one.result()]
        with holdfast.open(url) as hf:
            found = list(hf.sessions.messages("s"))
            assert Counter(one.id for one in found) == Counter(said)
            assert [one.seq for one in found] == list(range(1, self.total + 1))
            assert hf.verify().problems == []

    def _say(self, writer: int) -> list[str]:
        said = [Message.user(f"writer {writer} message {number}") for number in range(self._appends)]
        with holdfast.open(self._url) as hf:
            for one in said:
                _insist(hf, one)
                self._acknowledged.release()
        return [one.id for one in said]


def _insist(hf: Holdfast, one: Message) -> None:
    for _ in range(100):
        try:
            hf.sessions.append("s", one)
            return
        except ConnectionFailed:
            continue  # it may have happened or not; saying it again is safe
    raise AssertionError("a hundred attempts were not enough")


# cuts of a connection


def once(then: Callable[[], object] = lambda: None) -> Callable[[bytes], bool]:
    """Cuts at the first piece that comes by, having done something else, and never again."""
    left = [then]

    def cuts(_: bytes) -> bool:
        if not left:
            return False
        left.pop()()
        return True

    return cuts


def every(number: int) -> Callable[[bytes], bool]:
    """Cuts at each piece whose number this divides."""
    pieces = itertools.count(1)
    return lambda _: next(pieces) % number == 0


def never(_: bytes) -> bool:
    """Cuts nothing."""
    return False


def count_once(proxy: Proxy, store: RecordStore, way: str) -> None:
    """Add one to a counter by a plan whose commit is cut once: the counter is one afterwards."""
    store.commit([Insert(agent("counter", b"0"))])
    cutting = [once()]

    def one_more(reader: Reader) -> list[Write]:
        (present,) = reader.get(agent("counter").kind, [("counter",)])
        assert present is not None
        if cutting:
            setattr(proxy, f"cuts_{way}", cutting.pop())
        return [Put(agent("counter", b"%d" % (int(present.body) + 1)), over=present.digest)]

    store.commit(None, one_more)
    assert (proxy.cuts, dump(store)) == (1, [agent("counter", b"1")])
