"""A backend and the model of it, the one in RAM: each call is done on both, and must come out alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from holdfast.backends.memory import Contents, MemoryStore
from holdfast.client import Holdfast
from holdfast.contracts import RecordStore
from holdfast.driver import Driver
from holdfast.errors import HoldfastError
from holdfast.ids import Clock
from holdfast.model import Message, Usage
from holdfast.testing.driving import NOON
from holdfast.testing.opening import StoreKit, new_namespace
from holdfast.testing.run_programs import Killed

AGENTS = st.sampled_from(["scout", "scout", "scout", "scout_", "😀"])
SESSIONS = st.sampled_from(["a", "a", "a", "a_b", "a_b", "中", "A", "fork-1"])  # the first ones are there to begin with
NUMBERS = st.integers(0, 30)
JSON = st.sampled_from([None, {}, {"n": 42}, {"n": 42.0}, {"n": "42"}, {"deep": [{"a": None}]}])
INLINE_LIMIT = 100  # bytes: small, so that parts of messages become blobs
TIMES = ("created_at", "updated_at", "modified_at", "last_message_at", "at", "started_at", "ended_at", "expires_at")
OF_THE_BYTES = ("size_bytes", "checksum")  # of a record, which has ids and times in it
_MADE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class Twin(Holdfast):
    """One of the two. Ids that the library makes itself get names, in the order in which they are first seen."""

    def __init__(self, store: RecordStore, clock: Clock, names: dict[str, str]) -> None:
        super().__init__(store, clock=clock, inline_limit=INLINE_LIMIT)
        self.names = names
        self.driven: dict[str, Driver] = {}

    def id(self, name: str) -> str:
        """The id that has this name here; any other is its own."""
        return next((id for id, known in self.names.items() if known == name), name)

    def outcome(self, call: Call) -> tuple[str, Any]:
        """What a call gives or raises, in a form that two stores can share."""
        try:
            return ("ok", self._plain(msgspec.to_builtins(call(self))))
        except (HoldfastError, Killed) as error:
            return (type(error).__name__, None)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._plain(key): self._field(value, key) for key in value}
        if isinstance(value, str):
            return _MADE_ID.sub(lambda found: self.names.setdefault(found[0], f"#{len(self.names)}"), value)
        return [self._plain(inner) for inner in value] if isinstance(value, list) else value

    def _field(self, value: dict[str, Any], key: str) -> Any:
        """A field without what two stores cannot share: the wall clock, and bytes with ids and times in them."""
        if key in OF_THE_BYTES:
            return bool(value[key])
        if key in TIMES and value[key] is not None:
            # To the second: a store may stamp a step more than once. A compaction's marker has no clock but the wall's.
            return "some time" if value.get("is_compaction") else str(value[key])[:19]
        if key == "duration_ms" and value[key] is not None and _MADE_ID.fullmatch(str(value["id"])):
            return "some time"
        return self._plain(value[key])


Call = Callable[[Twin], Any]


class Twins(RuleBasedStateMachine):
    """Every step is done on the backend and on the model, and must have the same outcome on both."""

    kit: StoreKit

    def __init__(self) -> None:
        super().__init__()
        self._now = NOON
        self._namespace = new_namespace()
        self._said: dict[str, list[Message]] = {}
        self._points: list[str] = []
        self._contents = Contents()
        self._twins = self._enter(self.kit.open(self._namespace), [{}, {}])

    def _enter(self, store: RecordStore, names: list[dict[str, str]]) -> list[Twin]:
        stores = [store, MemoryStore(self._contents)]
        return [Twin(one, lambda: self._now, known) for one, known in zip(stores, names, strict=True)]

    def both(self, call: Call) -> Any:
        """Do it on both; they must agree."""
        self._now += timedelta(seconds=1)
        backend, model = (twin.outcome(call) for twin in self._twins)
        assert backend == model
        return model

    # what was said

    def message(self, session: str, text: str) -> Message:
        """Something new to say in a session."""
        number = sum(map(len, self._said.values()))
        usage = Usage(id=f"u{number}", input=3, created_at=NOON) if number % 5 == 0 else None
        message = Message.user(text, id=f"m{number}", created_at=self._now, usage=usage)
        self._said.setdefault(session, []).append(message)
        return message

    def some(self, session: str, number: int) -> Message:
        """Something that was said, mostly in this session, not necessarily on its path."""
        said = self._said.get("a" if number % 5 == 4 else session) or self._said["a"]
        return said[-1 - number % len(said)]

    # the store as a whole

    @rule()
    def collect(self) -> None:
        self.both(lambda hf: hf.gc(grace_s=0))

    @rule()
    def reopen(self) -> None:
        names = [twin.names for twin in self._twins]
        for twin in self._twins:
            twin.close()
        store = self.kit.reopen(self._twins[0]._store, self._namespace)
        self._twins = self._enter(store, names)

    def everything(self) -> Sequence[Call]:
        """All that can be read, in calls."""
        return [
            lambda hf: [hf.agents.revisions(agent.id) for agent in hf.agents.list()],
            lambda hf: msgspec.to_builtins(hf.stats()) | {"bytes": 0},
        ]

    def teardown(self) -> None:
        """Everything must look the same, from the beginning, and be sound."""
        self.reopen()
        assert [how for how, _ in map(self.both, self.everything()) if how != "ok"] == []
        assert [hf.verify().problems for hf in self._twins] == [[], []]
        for twin in self._twins:
            twin.close()
