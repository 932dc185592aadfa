"""smooth: checkpoints that each hold the whole conversation, as `{agent}/{checkpoint}.json` or as rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.contents import call_of, image, role_of, tool_names
from holdfast.errors import CorruptData
from holdfast.importers.databases import Database, opened
from holdfast.importers.facts import given, with_facts
from holdfast.importers.reading import is_finer, moment_of, parse, parse_file, rest_of, shaped, usable_id
from holdfast.importers.snapshots import Line, Snapshots
from holdfast.importers.taking import Taker
from holdfast.model import Json, Message, Part, Text, ToolCall


class _Image(Struct):
    url: str
    detail: str | None = None


class _Call(Struct):
    id: str
    name: str
    arguments: Json = None


class _Message(Struct):
    id: str
    role: str
    timestamp: str
    content: str = ""
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_calls: list[_Call] = []
    reasoning_content: str | None = None
    images: list[_Image] = []


class _Conversation(Struct):
    id: str
    messages: list[dict[str, Json]] = []
    max_context_tokens: int | None = None


class _Checkpoint(Struct):
    id: str
    agent_id: str
    conversation: _Conversation
    iteration: int
    created_at: str | int
    metadata: dict[str, Json] | None = None


class _Place(Struct, frozen=True, order=True):
    """What the order of checkpoints is by, and where one is read."""

    agent_id: str
    created_at: float
    finest: str
    iteration: int
    source: str


def read(taker: Taker, path: Path) -> None:
    """Take a folder or a database over."""
    if path.is_dir():
        _read_folder(taker, path)
    else:
        with opened(path) as database:
            _read_table(taker, path, database)


def _read_folder(taker: Taker, path: Path) -> None:
    places = sorted(_places(taker, path))
    importing = _Importing(taker, Counter((place.agent_id, place.iteration) for place in places))
    for place in places:
        with taker.report.noting(place.source):
            importing.checkpoint(parse_file(Path(place.source), taker.report), place.source)
        taker.report.step()
    for beside in sorted(path.glob("*.db")):
        taker.report.note(str(beside), "a database lies beside the folders; import it by its own path")


def _places(taker: Taker, path: Path) -> Iterator[_Place]:
    for file in sorted(path.glob("*/*.json")):
        where = str(file)
        with taker.report.noting(where):
            told = shaped(parse_file(file, taker.report), _Checkpoint, where)
            at = moment_of(told.created_at, where).timestamp()
            yield _Place(told.agent_id, at, str(told.created_at).rstrip("Z"), told.iteration, where)


def _read_table(taker: Taker, path: Path, database: Database) -> None:
    # Within a second only the rowid gives the order in which they were saved.
    order = "ORDER BY agent_id, created_at, rowid"
    left = Counter((agent, n) for agent, n in database.rows("SELECT agent_id, iteration FROM checkpoints"))
    importing = _Importing(taker, left)
    sql = f"SELECT rowid, id, agent_id, iteration, conversation, metadata, created_at FROM checkpoints {order}"
    for row, id, agent_id, iteration, conversation, metadata, created_at in database.rows(sql):
        where = f"{path}, checkpoints row {row}"
        with taker.report.noting(where):
            raw = {"id": id, "agent_id": agent_id, "iteration": iteration, "created_at": created_at}
            raw["conversation"] = parse(conversation or b"", taker.report, where)
            raw["metadata"] = None if metadata is None else parse(metadata, taker.report, where)
            importing.checkpoint(raw, where)
        taker.report.step()


class _Importing:
    """Checkpoints of agents, oldest first; `left` counts those still to come of each agent's iterations."""

    def __init__(self, taker: Taker, left: Counter[tuple[Any, Any]]) -> None:
        self._taker = taker
        self._report = taker.report
        self._left = left
        self._open: Snapshots | None = None

    def checkpoint(self, raw: dict[str, Json], where: str) -> None:
        told = shaped(raw, _Checkpoint, where)
        # Of several with one iteration the last has the step, as it is the one to go on from.
        self._left[told.agent_id, told.iteration] -= 1
        is_last = self._left[told.agent_id, told.iteration] <= 0
        if self._taker.has_checkpoint(told.id, where):
            return
        self._taker.bare_agent(told.agent_id)
        snapshots = self._snapshots(told, where)
        if snapshots is None:
            raise CorruptData(f"{where}: its conversation could not be taken")
        last = snapshots.take(self._lines(told.conversation, where))
        with snapshots.placing.standing(last):
            self._taker.checkpoint(
                told.id,
                where,
                session_id=snapshots.placing.session_id,
                step=told.iteration if is_last and told.iteration >= 0 else None,
                metadata=told.metadata,
                facts=given(
                    created_at=_text(told.created_at, where), iteration=told.iteration, fields=rest_of(raw, _Checkpoint)
                ),
            )

    def _snapshots(self, told: _Checkpoint, where: str) -> Snapshots | None:
        session_id = usable_id(told.conversation.id, self._report, where, told.agent_id)
        if self._open is None or self._open.placing.session_id != session_id:
            placing = self._taker.session(
                session_id,
                where,
                agent_id=told.agent_id,
                max_context_tokens=told.conversation.max_context_tokens,
            )
            self._open = None if placing is None else Snapshots(placing, self._report)
        return self._open

    def _lines(self, conversation: _Conversation, where: str) -> Iterator[Line]:
        names: dict[str, str] = {}
        for n, raw in enumerate(conversation.messages, 1):
            place = f"{where}, message {n}"
            names |= tool_names(raw)
            own = raw.get("id")
            make = partial(self._message, raw, place, names)
            yield Line(id=own if isinstance(own, str) else None, raw=raw, where=place, make=make)

    def _message(self, raw: dict[str, Json], where: str, names: dict[str, str]) -> Message | None:
        told = shaped(raw, _Message, where)
        role = role_of(told.role)
        if role is None:
            self._report.note(where, f"not taken: the role {told.role!r} is not known")
            return None
        name = told.tool_name or names.get(told.tool_call_id or "")
        if name is not None and told.tool_name is None:
            self._report.note(where, f"the tool's name {name!r} was inferred from the call it answers")
        facts = given(
            timestamp=told.timestamp if is_finer(told.timestamp) else None,
            inferred=["tool_name"] if name is not None and told.tool_name is None else None,
            fields=rest_of(raw, _Message),
        )
        return Message(
            role=role,
            content=_content(told),
            created_at=moment_of(told.timestamp, where),
            tool_calls=[_call(one) for one in told.tool_calls],
            tool_call_id=told.tool_call_id,
            tool_name=name,
            reasoning=told.reasoning_content,
            metadata=with_facts(None, facts),
        )


def _text(created_at: str | int, where: str) -> str:
    return (
        created_at if isinstance(created_at, str) else moment_of(created_at, where).isoformat().replace("+00:00", "Z")
    )


def _call(told: _Call) -> ToolCall:
    return call_of(told.id, told.name, told.arguments) or ToolCall(id=told.id, name=told.name)


def _content(told: _Message) -> list[Part]:
    said: list[Part] = [Text(text=told.content)] if told.content else []
    return [*said, *(image(one.url, detail=one.detail) for one in told.images)]
