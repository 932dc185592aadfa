"""What a run has on record, handed out again in the order the program asks for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast import codec
from holdfast.errors import Conflict
from holdfast.model import Json, Message
from holdfast.run_records import StoredEvent

What = Literal["append", "tool", "step"]
_SHOWN = 200  # characters of a call in a message


class Call(Struct):
    """One thing the program did: an append, or a call with its end where that is on record.

    It is `taken` once the program has done it again, and `fatal` if its failure ended the run.
    """

    what: What
    name: str
    digest: str
    call: str | None
    value: Json
    by_id: bool
    redacted: bool
    execution: str | None = None
    parent: Call | None = None
    end: StoredEvent | None = None
    taken: bool = False
    fatal: bool = False

    @property
    def is_inside_another(self) -> bool:
        """Whether a call that is over made this one, so that nobody will make it again."""
        parent = self.parent
        return parent is not None and ((parent.end is not None and not parent.fatal) or parent.is_inside_another)


def digest_of(value: Any) -> str:
    """What must agree between a call on record and the same call made again."""
    return codec.digest(codec.encode(_said(value), "a call")).hex()


def _said(value: Any) -> Any:
    """Messages as what they say, without the ids and times that a program makes anew each time."""
    if isinstance(value, Message):
        kept = ("role", "content", "tool_calls", "tool_call_id", "tool_name", "reasoning")
        attached = [{**msgspec.to_builtins(one), "id": ""} for one in value.attachments]
        return {"attachments": attached, **{name: getattr(value, name) for name in kept}}
    if isinstance(value, list | tuple):
        return [_said(one) for one in value]
    if isinstance(value, dict):
        return {name: _said(one) for name, one in value.items()}
    return value


class Replay:
    """The calls of a run in program order; those with an id are found by it, wherever they come.

    To go on from where things stand, and not from the beginning, only the calls without an answer are there.
    """

    def __init__(self, events: Iterable[StoredEvent], *, from_the_beginning: bool) -> None:
        self._in_order = from_the_beginning
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._latest: dict[str, Call] = {}
        self._by_id: dict[tuple[bool, str], deque[Call]] = {}
        self._next = 0
        self._streams: dict[str | None, str] = {}
        self._interrupted: set[str | None] = set()
        self.asked: dict[str, str] = {}
        for event in events:
            self._take(event)
        self._index()

    # reading the record

    def _take(self, event: StoredEvent) -> None:
        self.asked.update(event.asks)
        if event.kind in ("append", "begun"):
            self._begin(event)
        elif event.call is not None and event.call in self._latest and event.kind != "partial":
            self._go_on(self._latest[event.call], event)
        self._stream(event)

    def _stream(self, event: StoredEvent) -> None:
        """Keep what an answer says so far, until it is whole; who asks again begins anew."""
        if event.kind == "resumed":
            self._interrupted = {*self._streams}
        elif event.kind == "partial":
            before = "" if event.call in self._interrupted else self._streams.get(event.call, "")
            self._interrupted.discard(event.call)
            self._streams[event.call] = before + str(event.value)
        elif event.kind in ("append", "done", "failed"):
            self._streams.pop(event.call if event.kind != "append" else None, None)

    @property
    def partial(self) -> str:
        """The text of the answer that was streaming last and is not whole."""
        return next(reversed(self._streams.values()), "")

    def _begin(self, event: StoredEvent) -> None:
        what: What = "append" if event.kind == "append" else event.what or "tool"
        call = Call(
            what,
            event.name or "",
            event.digest or "",
            event.call,
            event.value,
            event.by_id,
            event.redacted,
            event.execution,
            None if event.within is None else self._latest.get(event.within),
        )
        self._calls.append(call)
        if event.kind == "begun" and event.call is not None:
            self._latest[event.call] = call
        self.answered(event.answers)

    def _go_on(self, call: Call, event: StoredEvent) -> None:
        if event.kind == "retried":
            call.end, call.fatal, call.execution = None, False, event.execution
        elif event.kind in ("done", "failed"):
            call.end = event
        elif event.kind == "ended":
            call.fatal = event.name == "failed"

    def _index(self) -> None:
        for call in self._calls:
            if call.is_inside_another or (not self._in_order and call.what != "tool"):
                call.taken = True
            if call.call is not None and (call.by_id or not self._in_order):
                self._by_id.setdefault((call.what == "append", call.call), deque()).append(call)

    # handing it out

    @property
    def done(self) -> bool:
        """Whether everything on record has been handed out: what comes next is live."""
        with self._lock:
            return not self._in_order or self._first() is None

    def _first(self, by_id: bool = True) -> Call | None:
        """The first call that is still to be made again, with or without those that are found by their id."""
        while self._next < len(self._calls) and self._calls[self._next].taken:
            self._next += 1
        rest = (self._calls[at] for at in range(self._next, len(self._calls)))
        return next((call for call in rest if not call.taken and (by_id or not call.by_id)), None)

    def match(self, what: What, name: str, digest: str, call_id: str | None, given: Any = None) -> Call | None:
        """The call on record that this one repeats, or None if it is new; Conflict if another is on record.

        `given` is what the program now says or asks with, for the message of that Conflict.
        """
        with self._lock:
            found = self._find(what, name, call_id)
            if found is None:
                return None
            same = (found.what, found.name) == (what, name) and (found.redacted or found.digest == digest)
            if not same or (found.by_id and found.call != call_id) or (not found.by_id and self._strange(call_id)):
                raise Conflict(_difference(found, what, name, given))
            found.taken = True
            return found

    def give_back(self, call: Call) -> None:
        """Let a call be still to be made: what became of this one was not decided."""
        with self._lock:
            call.taken, self._next = False, 0
            if call.call is not None and (call.by_id or not self._in_order):
                queue = self._by_id[(call.what == "append", call.call)]
                if call not in queue:
                    queue.appendleft(call)

    def _strange(self, call_id: str | None) -> bool:
        """Whether a call has an id where the record has a place in the program."""
        return self._in_order and call_id is not None

    def _find(self, what: What, name: str, call_id: str | None) -> Call | None:
        queue = self._by_id.get((what == "append", call_id), deque()) if call_id is not None else deque()
        while queue and queue[0].taken:
            queue.popleft()
        if queue:
            return queue[0]
        if not self._in_order:
            return None
        # A new one may come beside those with an id, but not before what has its place behind them all.
        return self._first(by_id=False) or (self._without_id(name) if what == "tool" and call_id is None else None)

    def _without_id(self, name: str) -> Call | None:
        """A tool on record that is now called without its id: to call it again would be to call it twice."""
        rest = (call for call in self._calls[self._next :] if not call.taken)
        return next((call for call in rest if (call.what, call.name) == ("tool", name)), None)

    def answered(self, calls: Iterable[str]) -> None:
        """Calls whose answers stand in the session: going on from there, nobody asks for them again."""
        for call_id in calls:
            if not self._in_order and call_id in self._latest:
                self._latest[call_id].taken = True

    def open_calls(self) -> list[Call]:
        """Tools begun and not ended."""
        return [call for call in self._calls if call.what == "tool" and call.end is None]

    def check_done(self) -> None:
        """Conflict if the program has ended before everything on record was done again."""
        left = None if self.done else self._first()
        if left is not None:
            raise Conflict(f"the program no longer does what is on record: next was {_called(left.what, left.name)}")


def _called(what: What, name: str) -> str:
    return "an append" if what == "append" else f"{what} {name!r}"


def _difference(found: Call, what: What, name: str, given: Any) -> str:
    was, now = _called(found.what, found.name), _called(what, name)
    if found.what == "append" and isinstance(found.value, list):
        was += f" of message {', '.join(map(str, found.value))}"
    elif found.value is not None:
        was += f" with {_short(found.value)}"
    if given is not None:
        now += f" {'saying' if what == 'append' else 'with'} {_short(given)}"
    return f"the program no longer does what is on record: next was {was}, now it asks for {now}"


def _short(value: Any) -> str:
    text = codec.encode(value, "a call").decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
