"""The records people handle: frozen values with keyword fields.

Fields that a caller does not give are left out of the stored form, so a later version can add some
without changing what older records say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, overload

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.ids import new_id, now

T = TypeVar("T")
Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
SessionStatus = Literal["active", "idle", "ended"]
Json: TypeAlias = Any  # what JSON can say: None, bool, int, float, str, and lists and dicts of them
Moment = Annotated[datetime, Meta(tz=True)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # what every backend can hold


class Value(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A record or a piece of one."""


class Text(Value, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class JsonPart(Value, frozen=True, kw_only=True, tag_field="type", tag="json"):
    """Any JSON value."""

    value: Json


class Media(Value, frozen=True, kw_only=True):
    """Content by URL, inline, or kept as an artifact; Holdfast never fetches the URL."""

    url: str | None = None
    data: bytes | None = None
    artifact_id: str | None = None
    mime_type: str | None = None
    name: str | None = None
    detail: str | None = None


class Image(Media, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image."""


class Audio(Media, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound."""


class Video(Media, frozen=True, kw_only=True, tag_field="type", tag="video"):
    """A film."""


class File(Media, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """Any other file."""


class Code(Value, frozen=True, kw_only=True, tag_field="type", tag="code"):
    """Source code."""

    code: str
    language: str | None = None
    name: str | None = None


class ArtifactRef(Value, frozen=True, kw_only=True, tag_field="type", tag="artifact"):
    """A reference to an artifact."""

    artifact_id: str
    name: str | None = None
    mime_type: str | None = None


Part: TypeAlias = Text | JsonPart | Image | Audio | Video | File | Code | ArtifactRef


class Attachment(Value, frozen=True, kw_only=True):
    """A thing sent along with a message: text in `content`, bytes in `data`, or kept elsewhere."""

    type: Literal["image", "audio", "video", "file", "code"]
    name: str
    id: str = field(default_factory=new_id)
    mime_type: str | None = None
    content: str | None = None
    data: bytes | None = None
    url: str | None = None
    artifact_id: str | None = None
    size: Whole | None = None


class ToolCall(Value, frozen=True, kw_only=True):
    """A call the model asked for; `arguments` is the raw string where the model wrote invalid JSON."""

    id: str
    name: str
    arguments: Json = None

    @classmethod
    def parse(cls, id: str, name: str, arguments: str) -> ToolCall:
        """From a provider's form, whose arguments are text: JSON where it is JSON, kept raw where not."""
        try:
            return cls(id=id, name=name, arguments=json.loads(arguments, parse_constant=_no_json))
        except (ValueError, RecursionError):
            return cls(id=id, name=name, arguments=arguments)


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class Usage(Value, frozen=True, kw_only=True):
    """What one model call used; `usage.list` fills in the session and the message."""

    id: str = field(default_factory=new_id)
    session_id: str | None = None
    message_id: str | None = None
    provider: str | None = None
    model: str | None = None
    input: Whole = 0
    output: Whole = 0
    total: Whole = 0
    cache_read: Whole = 0
    cache_write: Whole = 0
    cost: float | None = None
    created_at: Moment = field(default_factory=now)


class Compaction(Value, frozen=True, kw_only=True):
    """What a compaction marker says: where the kept tail begins, and which compaction came before."""

    tail_start_id: str
    previous_id: str | None = None


class Redaction(Value, frozen=True, kw_only=True):
    """Why and when a message's content was destroyed."""

    reason: str
    at: Moment


class Price(Value, frozen=True, kw_only=True):
    """What a million tokens of a model cost, in any currency; `input` is what did not come from a cache."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class UsageTotal(Value, frozen=True, kw_only=True):
    """What a number of uses came to; `key` is the agent, user, model or day (UTC) they have in common.

    A use without a total counts as its input and output; `unpriced` ones have no cost and no price.
    """

    key: str | None = None
    uses: int = 0
    input: int = 0
    output: int = 0
    total: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    unpriced: int = 0


ExecutionStatus = Literal["pending", "running", "success", "failed"]


class ToolExecution(Value, frozen=True, kw_only=True):
    """A tool at work; `arguments` is the raw string where the model wrote invalid JSON.

    Its id and time are fixed when it is built, so recording it again is safe.
    """

    tool_name: str
    arguments: Json = None
    id: str = field(default_factory=new_id)
    session_id: str | None = None
    message_id: str | None = None
    call_id: str | None = None
    status: ExecutionStatus = "pending"
    result: Json = None
    error: str | None = None
    duration_ms: Whole | None = None
    created_at: Moment = field(default_factory=now)
    redacted: Redaction | None = None

    def succeeded(self, result: Json = None, *, duration_ms: int | None = None) -> ToolExecution:
        """The same execution, finished with a result."""
        return replace(self, status="success", result=result, error=None, duration_ms=duration_ms)

    def failed(self, error: str, *, duration_ms: int | None = None) -> ToolExecution:
        """The same execution, finished without one."""
        return replace(self, status="failed", result=None, error=error, duration_ms=duration_ms)


class SessionStats(Value, frozen=True, kw_only=True):
    """What a session comes to, on all its branches; the average is over all executions that took a time."""

    messages: int = 0
    tool_calls: int = 0
    succeeded: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    average_tool_ms: int = 0


class Message(Value, frozen=True, kw_only=True):
    """Something said. Its id and time are fixed when it is built, so appending it again is safe.

    The last group is filled in by the store: where the message stands is not part of what was said.
    """

    role: Role
    content: list[Part] = []
    id: str = field(default_factory=new_id)
    created_at: Moment = field(default_factory=now)
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    tool_name: str | None = None
    reasoning: str | None = None
    attachments: list[Attachment] = []
    metadata: dict[str, Json] | None = None
    is_compaction: bool = False
    is_summary: bool = False
    compaction: Compaction | None = None
    usage: Usage | None = None

    session_id: str | None = None
    branch: int | None = None
    seq: int | None = None
    parent_id: str | None = None
    pruned: bool = False
    redacted: Redaction | None = None

    @property
    def text(self) -> str:
        """The plain view: the text and code parts, a line apart."""
        return "\n".join(_plain(part) for part in self.content if isinstance(part, Text | Code))

    @classmethod
    def user(cls, *content: str | Part, **fields: Any) -> Message:
        """What a person said."""
        return cls(role="user", content=parts(*content), **fields)

    @classmethod
    def assistant(cls, *content: str | Part, **fields: Any) -> Message:
        """What the model said; calls go into `tool_calls=`."""
        return cls(role="assistant", content=parts(*content), **fields)

    @classmethod
    def system(cls, *content: str | Part, **fields: Any) -> Message:
        """What the developer said."""
        return cls(role="system", content=parts(*content), **fields)

    @classmethod
    def tool_result(cls, call_id: str, *content: str | Part, **fields: Any) -> Message:
        """What a tool answered to the call with this id; `tool_name=` says which tool."""
        return cls(role="tool", tool_call_id=call_id, content=parts(*content), **fields)


def _plain(part: Text | Code) -> str:
    return part.text if isinstance(part, Text) else part.code


def parts(*content: str | Part) -> list[Part]:
    """Parts as given, with bare strings made into text."""
    if len(content) == 1 and type(content[0]) is str:
        return [Text(text=content[0])]
    return [Text(text=part) if isinstance(part, str) else _part(part) for part in content]


def _part(given: Part) -> Part:
    if not isinstance(given, Part):
        raise InvalidInput(f"content is made of strings and parts, not {type(given).__name__}; str(…) makes it a text")
    return given


class Agent(Value, frozen=True, kw_only=True):
    """What an agent is. Each save makes a revision, and all of them are kept."""

    id: str
    name: str
    kind: str = ""
    system_prompt: str | None = None
    capabilities: list[str] = []
    config: dict[str, Json] = {}
    state: dict[str, Json] = {}
    metadata: dict[str, Json] | None = None
    schema_version: Whole = 1
    created_at: Moment | None = None
    modified_at: Moment | None = None
    revision: int | None = None
    active_sessions: int = 0


class Head(Value, frozen=True, kw_only=True):
    """Where a session stands: the newest message of its active branch, None while it is empty."""

    branch: int
    seq: int
    message_id: str | None = None


class Session(Value, frozen=True, kw_only=True):
    """A conversation: a named pointer into a history."""

    id: str
    agent_id: str | None = None
    user_id: str | None = None
    title: str | None = None
    model: str | None = None
    metadata: dict[str, Json] | None = None
    tags: list[str] = []
    archived: bool = False
    status: SessionStatus = "active"
    max_context_tokens: Whole | None = None
    detached_by: str | None = None
    created_at: Moment
    updated_at: Moment
    last_message_at: Moment | None = None
    head: Head


class BranchView(Value, frozen=True, kw_only=True):
    """One branch in a tree: it leaves `parent` after position `fork_seq` and reaches to `seq`."""

    id: int
    parent: int | None
    fork_seq: int
    fork_message_id: str | None
    seq: int
    active: bool


class Tree(Value, frozen=True, kw_only=True):
    """The branches a session reaches, oldest first, and the messages after which it has parted."""

    session_id: str
    head: Head
    branches: list[BranchView]
    branch_points: list[str | None]


class Change(Value, frozen=True, kw_only=True):
    """One thing that differs between two values; `path` begins with the field's name."""

    path: tuple[str, ...]
    kind: Literal["added", "changed", "removed"]
    before: Json = None
    after: Json = None


CheckpointKind = Literal["automatic", "manual", "pre_operation", "recovery"]
CHECKPOINT_KINDS: tuple[CheckpointKind, ...] = ("automatic", "manual", "pre_operation", "recovery")
CheckpointStatus = Literal["in_progress", "completed", "failed", "halted"]


class Checkpoint(Value, frozen=True, kw_only=True):
    """A point to go back to. It refers to an agent's revision and to session heads, and copies neither.

    `session_id` is None for one of a whole agent. `size_bytes` and `checksum` are the stored record's own;
    `damaged` says what is wrong with it, None if nothing is.
    """

    id: str
    agent_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    kind: CheckpointKind = "manual"
    step: int | None = None
    status: CheckpointStatus = "completed"
    reason: str | None = None
    name: str | None = None
    protected: bool = False
    description: str | None = None
    metadata: dict[str, Json] | None = None
    partial_results: list[Json] = []
    tool_calls: list[ToolCall] = []
    extra: Json = None
    parent_id: str | None = None
    created_at: Moment
    expires_at: Moment | None = None
    revision: int | None = None
    head: Head | None = None
    size_bytes: int = 0
    checksum: str = ""
    damaged: str | None = None


class Restored(Value, frozen=True, kw_only=True):
    """What a restore did; restoring the `recovery` checkpoint undoes it."""

    checkpoint: Checkpoint
    recovery: Checkpoint
    agent: Agent | None = None
    sessions: list[str] = []
    detached: list[str] = []
    missing: list[str] = []


class SessionDiff(Value, frozen=True, kw_only=True):
    """How a session differs between two checkpoints; they agree up to position `common`."""

    session_id: str
    kind: Literal["added", "changed", "removed"]
    common: int = 0
    added: list[Message] = []
    removed: list[Message] = []


class CheckpointDiff(Value, frozen=True, kw_only=True):
    """What changed from one checkpoint to another: the agent field by field, each session by its messages."""

    agent: list[Change] = []
    sessions: list[SessionDiff] = []


RunStatus = Literal["running", "completed", "failed", "halted"]
EventKind = Literal[
    "started", "resumed", "append", "begun", "retried", "done", "failed", "partial", "checkpoint", "ended"
]


class Run(Value, frozen=True, kw_only=True):
    """One drive of an agent on a session."""

    id: str
    session_id: str
    agent_id: str | None
    status: RunStatus
    reason: str | None
    key: str | None
    started_at: Moment
    ended_at: Moment | None
    epoch: int
    events: int


class Event(Value, frozen=True, kw_only=True):
    """Something that happened in a run; `seq` counts from 1."""

    seq: int
    kind: EventKind
    at: Moment
    call: str | None = None
    name: str | None = None
    value: Json = None


class InFlight(Value, frozen=True, kw_only=True):
    """A call whose beginning is on record and whose end is not: it may or may not have had its effect.

    With `error` it has ended so, and the run with it.
    """

    call: str
    name: str
    arguments: Json
    error: str | None = None


class Artifact(Value, frozen=True, kw_only=True):
    """Bytes with a name, without the bytes; `digest` is their SHA-256 in hex."""

    id: str
    session_id: str | None = None
    name: str
    version: int
    content_type: str | None = None
    size: int
    digest: str
    metadata: dict[str, Json] | None = None
    created_at: Moment


class Found(Value, frozen=True, kw_only=True):
    """A message that a search has found in a session, a piece of its text, and how well it fits."""

    message: Message
    snippet: str
    score: float
    session_id: str


class Collected(Value, frozen=True, kw_only=True):
    """What a garbage collection did: deletions it finished, rows of old checkpoints and blobs it removed."""

    sweeps: int
    captures: int
    blobs: int = 0


class Progress(Value, frozen=True, kw_only=True):
    """How far a copy, an export or an import has come: so many of so many of one kind, and bytes of everything."""

    what: str
    done: int
    total: int
    bytes: int


class Copied(Value, frozen=True, kw_only=True):
    """What a copy came to: so many records are there, for which so many were written or removed, and blobs put."""

    records: int
    written: int
    blobs: int
    bytes: int


class Exported(Value, frozen=True, kw_only=True):
    """What an export has in it; `digest` is that of its manifest, and the same for the same content."""

    records: int
    blobs: int
    bytes: int
    digest: str


class Imported(Value, frozen=True, kw_only=True):
    """What an import came to: so many records are there, for which so many were written or removed, and blobs put."""

    records: int
    written: int
    blobs: int
    bytes: int


class StorageStats(Value, frozen=True, kw_only=True):
    """How much a namespace holds; `bytes` are the stored bodies and blobs."""

    agents: int
    sessions: int
    checkpoints: int
    messages: int
    bytes: int


class Page(Sequence[T], Generic[T]):
    """Some results, and the cursor that continues after them (None at the end)."""

    def __init__(self, items: list[T], cursor: str | None) -> None:
        self.items = items
        self.cursor = cursor

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Page({self.items!r}, cursor={self.cursor!r})"


class Embedding(Value, frozen=True, kw_only=True):
    """A vector that stands for something; its numbers are float32 values once it is stored."""

    id: str
    vector: list[float]
    session_id: str | None = None
    model: str = ""
    metadata: dict[str, Json] | None = None
    created_at: Moment = field(default_factory=now)


class Neighbour(Value, frozen=True, kw_only=True):
    """An embedding that a search found, and the cosine of its vector with the one that was looked for."""

    embedding: Embedding
    score: float


TITLE_LENGTH = 50


def title_from(text: str) -> str | None:
    """A title made of a first message: whole up to 50 characters, else cut to 47 and `...`; None if blank."""
    title = " ".join(text.split())
    if len(title) > TITLE_LENGTH:
        return title[: TITLE_LENGTH - 3] + "..."
    return title or None
