"""Driving Holdfast from a test: plainly or through the async surface, with a clock of the test's own."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal, cast

import msgspec
import pytest

from holdfast.aio import AsyncHoldfast
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.model import Message
from holdfast.testing.opening import StoreKit

Way = Literal["sync", "async"]
Again = Callable[[], Holdfast]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    """Goes on by a millisecond whenever it is asked, and by nothing else."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


class Awaited:
    """The async surface used like the plain one: each call runs on the loop and is waited for."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return Awaited(found, self._runner)
        return lambda *given, **named: self._settle(found(*given, **named))

    def _settle(self, answer: Any) -> Any:
        if inspect.isawaitable(answer) or hasattr(answer, "__aiter__"):
            return self._runner.run(_wait(answer))
        return answer


async def _wait(answer: Any) -> Any:
    if inspect.isawaitable(answer):
        return await answer
    return iter([one async for one in answer])


class Door:
    """A Holdfast that can be closed and opened again, as after a restart."""

    def __init__(self, kit: StoreKit, store: RecordStore, namespace: str, clock: Clock, way: Way) -> None:
        self._kit = kit
        self._namespace = namespace
        self._clock = clock
        self._way = way
        self._runner = asyncio.Runner()
        self.store = store
        self.hf = self._enter()

    def _enter(self) -> Holdfast:
        plain = Holdfast(self.store, clock=self._clock)
        return plain if self._way == "sync" else cast(Holdfast, Awaited(AsyncHoldfast(plain), self._runner))

    def reopen(self) -> Holdfast:
        """The same records, from the beginning."""
        self.hf.close()
        self.store = self._kit.reopen(self.store, self._namespace)
        self.hf = self._enter()
        return self.hf

    def leave(self) -> None:
        """Check everything once more, and close."""
        report = self.reopen().verify()
        self.hf.close()
        self._runner.close()
        assert report.problems == []


class HoldfastKit(StoreKit):
    """A fresh Holdfast for each test, verified when the test is over.

    Where a store does not answer later by itself (`Submits`), the async surface is threads, the same for all: such a
    backend may say `ways = ("sync",)`. Where one does, appends and checkpoints of sessions go another way: it awaits
    the tests of those.
    """

    ways: ClassVar[tuple[Way, ...]] = ("sync", "async")

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Run each test in all ways of its class."""
        if "way" in metafunc.fixturenames:
            metafunc.parametrize("way", cls.ways)

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def door(self, store: RecordStore, namespace: str, clock: Clock, way: Way) -> Iterator[Door]:
        door = Door(self, store, namespace, clock, way)
        yield door
        door.leave()

    @pytest.fixture
    def hf(self, door: Door) -> Holdfast:
        return door.hf

    @pytest.fixture
    def again(self, door: Door) -> Again:
        return door.reopen


def exact(value: object) -> str:
    """A form in which 42, 42.0 and "42" differ and the order of keys does not."""
    return json.dumps(msgspec.to_builtins(value), sort_keys=True)


def users(*texts: str) -> list[Message]:
    """What a person said, one message for each text."""
    return [Message.user(text) for text in texts]


def texts(hf: Holdfast, session_id: str, **chosen: Any) -> list[str]:
    """The texts of a session's messages, in order."""
    return [message.text for message in hf.sessions.messages(session_id, **chosen)]
