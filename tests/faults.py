"""Appends by many while something breaks, and cuts of a connection: what the tests of servers that fail share."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.model import Message

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


def once() -> Callable[[bytes], bool]:
    """Cuts at the first piece that comes by, and never again."""
    left = [True]

    def cuts(_: bytes) -> bool:
        return bool(left) and left.pop()

    return cuts
