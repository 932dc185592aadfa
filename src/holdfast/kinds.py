"""How each record is stored, said once: its key, its indexed fields, what must be unique.

A new record is a line here; no backend changes. Keys are given without the namespace, which every
backend puts in front by itself.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Type = Literal["text", "int", "bytes"]


class Field(Struct, frozen=True):
    """A typed part of a key, or a value beside the body that queries may use."""

    name: str
    type: Type


class Kind(Struct, frozen=True):
    """One sort of record.

    `fields` repeat what the body says so that queries can use it; `verify` compares the two. A query may
    order by the fields in `orders`, which are never None. A None among unique values collides with nothing.
    A `log` is a kind whose last key part counts up from 1 and whose rows are appended: backends may lay it
    out densely. Of a `numbered` kind the key is an owner and a number, which counts up from 1 as rows are appended, and
    queries name neither as a field; the fields in `orders` grow with an owner's numbers. `narrow` rows are small and
    often rewritten. `about` is for people who look into the tables.
    """

    name: str
    key: tuple[Field, ...]
    fields: tuple[Field, ...] = ()
    unique: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    orders: tuple[str, ...] = ()
    log: bool = False
    numbered: bool = False
    narrow: bool = False
    about: str = ""

    def columns(self) -> tuple[Field, ...]:
        """The key and the fields, in order."""
        return self.key + self.fields


def _text(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, "text") for name in names)


def _int(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, "int") for name in names)


AGENTS = Kind("agents", key=_text("id"), narrow=True, about="agents, each pointing at its newest revision")
REVISIONS = Kind(
    "revisions",
    key=(*_text("agent"), *_int("revision")),
    fields=(Field("link", "bytes"),),
    about="every saved state of an agent, chained by link",
)
SESSIONS = Kind(
    "sessions",
    key=_text("id"),
    fields=_text("agent_id", "history"),
    indexes=(("agent_id",), ("history",)),
    about="conversations: title, model, metadata",
)
HEADS = Kind(
    "heads",
    key=_text("session_id"),
    fields=(
        *_text("agent_id", "user_id", "status", "detached_by"),
        *_int("archived", "created_at", "updated_at"),
    ),
    indexes=(("agent_id",), ("user_id",)),
    orders=("created_at", "updated_at"),
    narrow=True,
    about="where each session stands: branch, position, times",
)
BRANCHES = Kind(
    "branches",
    key=(*_text("history"), *_int("branch")),
    narrow=True,
    about="branches of a history: where each forks off which",
)
MESSAGES = Kind(
    "messages",
    key=(*_text("history"), *_int("branch", "seq")),
    fields=(*_text("id"), *_int("n"), Field("link", "bytes")),
    unique=("history", "id"),
    log=True,
    about="what was said, by history, branch and position, chained by link",
)
USAGES = Kind(
    "usages",
    key=(*_text("history"), *_int("branch", "seq")),
    narrow=True,
    about="tokens and cost of the message at a place",
)
PRUNED = Kind(
    "pruned",
    key=(*_text("history"), *_int("branch", "seq")),
    narrow=True,
    about="messages left out of the model's view",
)
EXECUTIONS = Kind(
    "executions",
    key=(*_text("session"), *_int("n")),
    fields=_text("id", "message_id"),
    unique=("id",),
    about="tool calls and how they came out, in order",
)
EXTRA_USAGES = Kind(
    "extra_usages",
    key=(*_text("session"), *_int("n")),
    fields=_text("id"),
    unique=("session", "id"),
    narrow=True,
    about="tokens and cost beyond one message",
)
CHECKPOINTS = Kind(
    "checkpoints",
    key=(*_text("owner"), *_int("number")),
    fields=(*_text("id"), *_int("step", "at")),
    unique=("id",),
    indexes=(("owner", "step"), ("at",)),
    orders=("at",),
    numbered=True,
    narrow=True,
    about="points to go back to: references, never copies",
)
PENDING = Kind(
    "pending",
    key=(*_text("owner", "checkpoint"), *_int("task")),
    about="what the tasks of a framework's step have written, until the step is whole",
)
CAPTURES = Kind(
    "captures",
    key=(*_text("agent", "session"), *_int("number")),
    narrow=True,
    about="which head a session had at an agent's checkpoint",
)
MARKS = Kind(
    "marks", key=_text("agent_id", "session"), narrow=True, about="sessions changed since their agent's last checkpoint"
)
RESTORES = Kind("restores", key=_text("agent_id"), narrow=True, about="restores of many sessions under way")
RUNS = Kind(
    "runs",
    key=(*_text("owner"), *_int("number")),
    fields=_text("id", "key", "status"),
    unique=("id",),
    indexes=(("owner", "key"),),
    narrow=True,
    about="drives of an agent on a session, by number",
)
EVENTS = Kind(
    "events", key=(*_text("owner"), *_int("number", "seq")), log=True, about="what happened in a run, in order"
)
HOLDS = Kind("holds", key=_text("session"), narrow=True, about="which run holds a session, and until when")
EMBEDDINGS = Kind(
    "embeddings",
    key=_text("id"),
    fields=(*_text("owner", "model"), *_int("at")),
    indexes=(("owner",), ("model", "at")),
    orders=("at",),
    about="vectors by id",
)
EMBEDDING_SPACES = Kind(
    "embedding_spaces", key=_text("model"), narrow=True, about="the dimension of each model's vectors"
)
SWEEPS = Kind("sweeps", key=_text("id"), narrow=True, about="deletions still to be finished")
ARTIFACTS = Kind(
    "artifacts",
    key=(*_text("owner", "name"), *_int("version")),
    fields=(*_text("id"), Field("blob", "bytes"), *_int("newest", "created_at")),
    unique=("id",),
    indexes=(("blob",), ("newest", "created_at")),
    orders=("created_at",),
    narrow=True,
    about="names and versions of stored bytes",
)
ITEMS = Kind(
    "items",
    key=_text("labels", "key"),
    fields=_text("root"),
    indexes=(("root",),),
    about="what a framework's graphs remember across threads, by namespace and key",
)
PARTS = Kind(
    "parts",
    key=(*_text("history"), *_int("branch", "seq", "part")),
    fields=(Field("blob", "bytes"),),
    indexes=(("blob",),),
    narrow=True,
    about="which message has which stored bytes",
)

KINDS: tuple[Kind, ...] = (
    AGENTS,
    REVISIONS,
    SESSIONS,
    HEADS,
    BRANCHES,
    MESSAGES,
    USAGES,
    PRUNED,
    EXECUTIONS,
    EXTRA_USAGES,
    CHECKPOINTS,
    PENDING,
    CAPTURES,
    MARKS,
    RESTORES,
    RUNS,
    EVENTS,
    HOLDS,
    EMBEDDINGS,
    EMBEDDING_SPACES,
    SWEEPS,
    ARTIFACTS,
    PARTS,
    ITEMS,
)
