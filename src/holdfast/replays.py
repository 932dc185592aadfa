"""What a run has on record, handed out again in the order the program asks for it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from holdfast import codec
from holdfast.errors import Conflict
from holdfast.model import Json, Message
from holdfast.run_records import StoredEvent


class Call(Struct):
    """One thing the program did: an append, or a call with its end where that is on record."""

    kind: str
    name: str
    digest: str
    call: str | None
    value: Json
    end: StoredEvent | None = None


def digest_of(value: Json) -> str:
    """What must agree between a call on record and the same call made again."""
    return codec.digest(codec.encode(value, "call")).hex()


def said_digest(messages: Iterable[Message]) -> str:
    """What was said, without the ids and times that a program makes anew each time."""
    return digest_of(
        [
            {"role": one.role, "content": one.content, "calls": one.tool_calls, "to": one.tool_call_id}
            for one in messages
        ]
    )


class Replay:
    """The calls of a run in program order; those with a call id are matched by it, wherever they come."""

    def __init__(self, events: Iterable[StoredEvent]) -> None:
        self._ordered: list[Call] = []
        self._by_id: dict[str, Call] = {}
        self.partial = ""
        for event in events:
            self._take(event)
        self._next = 0

    def _take(self, event: StoredEvent) -> None:
        if event.kind == "partial":
            self.partial = str(event.value)
        if event.kind in ("append", "begun"):
            call = Call(event.kind, event.name or "", event.digest or "", event.call, event.value)
            if event.kind == "append":
                call.end = event
            if event.call is not None and event.kind == "begun":
                self._by_id[event.call] = call
            self._ordered.append(call)
        elif event.kind in ("done", "failed") and event.call in self._by_id:
            self._by_id[event.call].end = event

    @property
    def done(self) -> bool:
        """Whether everything on record has been handed out: what comes next is live."""
        while self._next < len(self._ordered) and self._ordered[self._next].kind == "matched":
            self._next += 1
        return self._next >= len(self._ordered)

    def match(self, kind: str, name: str, digest: str, call_id: str | None) -> Call | None:
        """The call on record that this one repeats, or None if it is new; Conflict if another is on record."""
        found = self._by_id.pop(call_id, None) if call_id is not None else None
        if found is None:
            if self.done or call_id is not None:
                return None
            found = self._ordered[self._next]
        if (found.kind, found.name, found.digest) != (kind, name, digest):
            raise Conflict(_difference(found, kind, name))
        handed = Call(found.kind, found.name, found.digest, found.call, found.value, found.end)
        if found.call is not None:
            self._by_id.pop(found.call, None)
        found.kind = "matched"
        return handed

    def open_calls(self) -> list[Call]:
        """Calls begun and not ended."""
        return [call for call in self._by_id.values() if call.end is None]


def _difference(found: Call, kind: str, name: str) -> str:
    was = "an append" if found.kind == "append" else f"{found.name!r}"
    now = "an append" if kind == "append" else f"{name!r}"
    other = "" if was != now else " with other content"
    return f"the program no longer does what is on record: next was {was}, now it asks for {now}{other}"
