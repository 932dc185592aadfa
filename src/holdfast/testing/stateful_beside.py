"""Steps of the state machine: what is kept beside the conversation, and ways to look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from holdfast.client import Holdfast
from holdfast.model import Embedding, Message, ToolExecution, Usage
from holdfast.testing.driving import NOON
from holdfast.testing.stateful_twins import AGENTS, JSON, NUMBERS, SESSIONS, Call, Twins

OWNERS = st.none() | SESSIONS
NAMES = st.sampled_from(["map", "MAP", "map.png"])
WORDS = st.sampled_from(["a", "behind", "checkpoint", "look", "loo", "中", "large", "recorded"])
MODELS = st.sampled_from(["small", "large"])
VECTORS = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=2, max_size=2) | st.just([1.0, 0.0, 0.0])
VECTOR_IDS = st.sampled_from(["v1", "v2", "v3", "v4"])
CONTENTS = st.sampled_from([b"", b"one", bytes(range(256))])
PLENTY = 1_000
DIGITS = 5  # of a cosine: engines add up in different orders


class RecordSteps(Twins):
    """Executions and usage."""

    @rule(session=SESSIONS, number=NUMBERS, took=NUMBERS, end=st.sampled_from(["failed", "success", None]))
    def record_execution(self, session: str, number: int, took: int, end: str | None) -> None:
        begun = ToolExecution(
            id=f"e{number % 6}",
            tool_name="look",
            message_id=self.some(session, number).id,
            created_at=NOON,
            status="running",
        )
        ended = {
            None: begun,
            "failed": begun.failed("no answer", duration_ms=took),
            "success": begun.succeeded(number, duration_ms=took),
        }
        self.both(lambda hf: hf.executions.record(session, ended[end]))

    @rule(number=NUMBERS, took=NUMBERS)
    def finish_execution(self, number: int, took: int) -> None:
        self.both(lambda hf: hf.executions.finish(f"e{number % 6}", {"found": took}, duration_ms=took))

    @rule(session=SESSIONS, number=NUMBERS, tokens=NUMBERS, model=MODELS)
    def record_usage(self, session: str, number: int, tokens: int, model: str) -> None:
        usage = Usage(id=f"extra {number % 4}", model=model, input=tokens, output=1, created_at=NOON)
        self.both(lambda hf: hf.usage.record(session, usage))

    @rule(session=SESSIONS, number=NUMBERS, by=st.sampled_from([None, "model", "agent", "user", "day"]))
    def read_records(self, session: str, number: int, by: Any) -> None:
        self.both(lambda hf: hf.executions.list(session, message_id=self.some(session, number).id))
        self.both(lambda hf: hf.usage.totals(by=by))
        self.both(lambda hf: figures(hf, session))

    def everything(self) -> Sequence[Call]:
        return [
            *super().everything(),
            lambda hf: [[hf.executions.list(one.id), hf.usage.list(one.id)] for one in hf.sessions.list()],
            lambda hf: [figures(hf, one.id) for one in hf.sessions.list()],
        ]


def figures(hf: Holdfast, session_id: str) -> Any:
    """What a session comes to; where a run has called tools, their time is the wall clock's."""
    found = msgspec.to_builtins(hf.sessions.stats(session_id))
    timed = any(one.tool_name == "fatal" or one.call_id is not None for one in hf.executions.list(session_id))
    return found | {"average_tool_ms": "some time"} if timed else found


class ArtifactSteps(Twins):
    """Bytes by name and version."""

    @rule(content=CONTENTS, name=NAMES, session=OWNERS, number=NUMBERS, metadata=JSON)
    def put_artifact(self, content: bytes, name: str, session: str | None, number: int, metadata: Any) -> None:
        given: Any = {"name": name, "session_id": session, "id": f"file {number % 8}", "metadata": metadata}
        self.both(lambda hf: hf.artifacts.put(content, **given))

    @rule(name=NAMES, session=OWNERS, version=st.none() | st.integers(0, 3), limit=st.integers(0, 3))
    def find_artifacts(self, name: str, session: str | None, version: int | None, limit: int) -> None:
        self.both(lambda hf: hf.artifacts.get(name=name, session_id=session, version=version))
        self.both(lambda hf: hf.artifacts.versions(name, session, limit=limit))
        self.both(lambda hf: list(hf.artifacts.list(session_id=session, limit=limit)))

    @rule(number=NUMBERS)
    def delete_artifact(self, number: int) -> None:
        self.both(lambda hf: hf.artifacts.delete(f"file {number % 8}"))

    def everything(self) -> Sequence[Call]:
        return [
            *super().everything(),
            lambda hf: [[one, hf.artifacts.read(one.id)] for one in hf.artifacts.list(limit=PLENTY)],
        ]


class EmbeddingSteps(Twins):
    """Vectors by id."""

    @rule(id=VECTOR_IDS, vector=VECTORS, session=OWNERS, model=MODELS, metadata=JSON)
    def upsert(self, id: str, vector: list[float], session: str | None, model: str, metadata: Any) -> None:
        given = Embedding(id=id, vector=vector, session_id=session, model=model, metadata=metadata, created_at=NOON)
        self.both(lambda hf: hf.embeddings.upsert(given))

    @rule(vector=VECTORS, session=OWNERS, model=MODELS, limit=st.integers(0, 4))
    def search_vectors(self, vector: list[float], session: str | None, model: str, limit: int) -> None:
        self.both(lambda hf: nearest(hf, vector, session_id=session, model=model, limit=limit))

    @rule(id=VECTOR_IDS, session=SESSIONS, all=st.booleans())
    def delete_vectors(self, id: str, session: str, all: bool) -> None:
        self.both(lambda hf: hf.embeddings.delete(session_id=session) if all else hf.embeddings.delete(id))

    def everything(self) -> Sequence[Call]:
        return [*super().everything(), lambda hf: list(hf.embeddings.list())]


def nearest(hf: Holdfast, vector: list[float], **chosen: Any) -> list[Any]:
    """What a search for a vector finds."""
    return [[one.embedding, round(one.score, DIGITS)] for one in hf.embeddings.search(vector, **chosen)]


class LookingSteps(Twins):
    """Search, and the model's view."""

    @rule(word=WORDS, substring=st.booleans(), agent=st.none() | AGENTS, session=OWNERS)
    def search(self, word: str, substring: bool, agent: str | None, session: str | None) -> None:
        scope: Any = {"substring": substring, "agent_id": agent, "session_id": session}
        self.both(lambda hf: found(hf, word, **scope))

    @rule(session=SESSIONS, keep=st.integers(0, 2))
    def compact(self, session: str, keep: int) -> None:
        id = self.message(session, "taken by a summary").id

        def summarise(messages: Sequence[Message], previous: str | None) -> Message:
            text = f"{previous}, then {[message.text for message in messages]}"
            return Message.assistant(text, id=id, created_at=NOON)

        self.both(lambda hf: hf.sessions.compact(session, summarise, keep_turns=keep, force=True))

    @rule(session=SESSIONS, keep=st.integers(0, 2), back=st.booleans())
    def prune_outputs(self, session: str, keep: int, back: bool) -> None:
        result = replace(self.message(session, "looked up"), role="tool", tool_call_id="call")
        self.both(lambda hf: hf.sessions.append(session, result))
        self.both(lambda hf: hf.sessions.prune_tool_outputs(session, keep_last=keep, min_tokens=0))
        if back:
            self.both(lambda hf: hf.sessions.unprune_tool_outputs(session))

    @rule(session=SESSIONS)
    def view(self, session: str) -> None:
        self.both(lambda hf: hf.sessions.context(session))

    def everything(self) -> Sequence[Call]:
        return [
            *super().everything(),
            lambda hf: [hf.sessions.context(one.id) for one in hf.sessions.list()],
            lambda hf: found(hf, "behind"),
        ]


def found(hf: Holdfast, word: str, **scope: Any) -> list[Any]:
    """What a search finds, whatever its order, which is each backend's own."""
    hits = [[one.session_id, one.message, one.snippet] for one in hf.search(word, limit=PLENTY, **scope)]
    return sorted(hits, key=lambda hit: (hit[0], hit[1].id))
