"""OpenAI Agents: the items of `SQLiteSession` files, tables `agent_sessions` and `agent_messages`."""

from __future__ import annotations

from pathlib import Path

from holdfast.appends import ROOT
from holdfast.errors import CorruptData
from holdfast.importers.databases import Database, opened
from holdfast.importers.facts import given
from holdfast.importers.openai_items import Items
from holdfast.importers.reading import derive, moment_of, parse, usable_id
from holdfast.importers.taking import Taker
from holdfast.model import Json, Message

_BRANCHES = "message_structure"


def read(taker: Taker, path: Path) -> None:
    """Take a database over, session by session; each item becomes one message."""
    with opened(path) as database:
        if _BRANCHES in database.tables():
            taker.report.note(str(path), "branches of an advanced session are not taken; its items follow one another")
        sql = (
            "SELECT session_id, created_at, updated_at FROM agent_sessions UNION ALL"
            " SELECT DISTINCT session_id, NULL, NULL FROM agent_messages"
            " WHERE session_id NOT IN (SELECT session_id FROM agent_sessions)"
        )
        for session_id, created_at, updated_at in [*database.rows(sql)]:
            where = f"{path}, session {session_id!r}"
            with taker.report.noting(where):
                facts = given(created_at=created_at, updated_at=updated_at, session_id=session_id)
                _take(taker, path, database, str(session_id), where, facts)
            taker.report.step()


def _take(taker: Taker, path: Path, database: Database, named: str, where: str, facts: dict[str, Json]) -> None:
    session_id = usable_id(named, taker.report, where)
    placing = taker.session(session_id, where, facts=facts)
    if placing is None:
        return
    at = ROOT
    items = Items()
    sql = "SELECT id, message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id"
    for row, text, created_at in database.rows(sql, (named,)):
        place = f"{path}, agent_messages row {row}"
        with taker.report.noting(place):
            item = parse(text, taker.report, place)
            if not isinstance(item, dict):
                raise CorruptData(f"{place}: no item")
            fields = items.fields_of(item, place)
            own = derive(session_id, "item", str(row))
            at = placing.put(Message(id=own, created_at=moment_of(created_at, place), **fields), at, place)
    placing.flush()
