"""Torn, hostile and foreign input: it is named, nothing of it runs, and the rest is taken."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from importing import IMPORTS, SAMPLES, TIDES, TRANSCRIPT, counts, said_by

import holdfast
from holdfast import CorruptData, Holdfast, InvalidInput, Message, NotFound, importers

ODD: tuple[Any, ...] = (None, 5, -1, 2.5, "", "odd", "\x00", [], {}, [5], [[]], {"odd": 5}, True, 10**30)
ODD_CELLS = (5, "odd", b"\xc1\x80", "[5]", '{"odd": 1}', "[[]]", b"\x81\xa2ts\xa1x", "", "null", -7)


@pytest.fixture
def hf() -> Holdfast:
    return holdfast.open("memory:")


def chat(tmp_path: Path, *lines: str | bytes) -> Path:
    source = tmp_path / "chat.jsonl"
    source.write_bytes(b"".join((one.encode() if isinstance(one, str) else one) + b"\n" for one in lines))
    return source


HELLO = '{"role":"user","content":"Hello","timestamp":"2026-01-01T00:00:00Z"}'
HI = '{"role":"assistant","content":"Hi","timestamp":"2026-01-01T00:00:01Z"}'


# what cannot be read at all


def test_what_is_not_there_is_not_found(hf: Holdfast, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        importers.read(hf, tmp_path / "none")


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 500, b"Dear diary\n", b"[1, 2]\n"])
def test_a_format_that_is_not_known_is_refused(hf: Holdfast, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InvalidInput, match="no format that is known"):
        importers.read(hf, tmp_path / "file")
    with pytest.raises(InvalidInput, match="format is one of aethershell"):
        importers.read(hf, tmp_path / "file", format="word")


@pytest.mark.parametrize(("path", "format"), [("aethershell", "behest"), ("behest/behest.db", "ares")])
def test_a_folder_is_no_file(hf: Holdfast, path: str, format: str) -> None:
    with pytest.raises(InvalidInput, match="is read from a"):
        importers.read(hf, SAMPLES / path, format=format)


@pytest.mark.parametrize("size", [40, 3000])
@pytest.mark.parametrize("format", ["behest", "smooth", "langgraph", "openai"])
def test_a_torn_database_is_corrupt_and_says_which(hf: Holdfast, tmp_path: Path, format: str, size: int) -> None:
    source = tmp_path / "torn.db"
    source.write_bytes((SAMPLES / "behest" / "behest.db").read_bytes()[:size])
    with pytest.raises(CorruptData, match=r"torn\.db"):
        importers.read(hf, source, format=format)


# what can be read in part


@pytest.mark.parametrize(
    "line",
    [
        '{"role":"user"',
        "null",
        '{"content":"who?"}',
        '{"role":["user"],"content":""}',
        b"\xff\xfe",
        "[" * 100_000,
        '{"role":"user","time":1,"content":' + '{"a":' * 300 + "1" + "}" * 300 + "}",
    ],
    ids=["torn", "null", "no role", "a list as role", "no UTF-8", "too deep to read", "too deep to store"],
)
def test_a_line_that_cannot_be_taken_is_named_and_the_rest_is_taken(
    hf: Holdfast, tmp_path: Path, line: str | bytes
) -> None:
    source = chat(tmp_path, HELLO, line, HI)
    taken = importers.read(hf, source)
    assert taken.messages == 2
    assert [note.where for note in taken.notes] == [f"{source}:2"]
    [session] = hf.sessions.list()
    assert [one.text for one in hf.sessions.messages(session.id)] == ["Hello", "Hi"]


def test_numbers_and_text_that_cannot_be_stored_are_kept_as_text(hf: Holdfast, tmp_path: Path) -> None:
    odd = '{"role":"user","content":"a \\ud800 b","timestamp":1,"nan":NaN,"big":123456789012345678901234567890}'
    taken = importers.read(hf, chat(tmp_path, odd))
    [session] = hf.sessions.list()
    [said] = hf.sessions.messages(session.id)
    assert said.text == "a \ufffd b"
    assert said.metadata == {"imported": {"fields": {"nan": "NaN", "big": "123456789012345678901234567890"}}}
    assert len(taken.notes) == 1


def test_two_messages_of_one_id_are_both_taken(hf: Holdfast, tmp_path: Path) -> None:
    source = chat(tmp_path, *(json.dumps({"role": "user", "content": said, "id": "m", "time": 1}) for said in "ab"))
    assert (importers.read(hf, source).messages, importers.read(hf, source).messages) == (2, 0)
    [session] = hf.sessions.list()
    first, second = hf.sessions.messages(session.id)
    assert (first.id, second.text, second.metadata) == ("m", "b", {"imported": {"id": "m"}})


def test_an_empty_and_a_torn_file_leave_the_rest(hf: Holdfast, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "aethershell", tmp_path / "a")
    for file in [*(tmp_path / "a" / "agents").iterdir(), *(tmp_path / "a" / "conversations").iterdir()][:3]:
        file.write_bytes(file.read_bytes()[:100] if "planner" in file.name else b"")
    taken = importers.read(hf, tmp_path / "a")
    assert counts(taken) == (2, 3, 11, 3, 4, 0)  # the checkpoints hold the same
    assert len(taken.notes) == 4


# what is hostile


def test_names_of_modules_are_read_and_never_called(hf: Holdfast, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    source = tmp_path / "graph.sqlite"
    shutil.copyfile(IMPORTS / "langgraph.sqlite", source)
    named = msgspec.msgpack.encode(["os", "system", f"touch {marker}"])
    values = {"messages": [], "bad": msgspec.msgpack.Ext(0, named)}
    told = msgspec.msgpack.encode({"v": 4, "ts": "2026-01-01T00:00:00Z", "id": "x", "channel_values": values})
    thread(source, "hostile", "msgpack", told)
    importers.read(hf, source)
    [checkpoint] = hf.checkpoints.list(session_id="hostile")
    assert checkpoint.extra["channel_values"]["bad"] == {"class": "os.system", "value": f"touch {marker}"}
    assert not marker.exists()


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return (Path.touch, (self.marker,))


@pytest.mark.parametrize("kind", ["pickle", "msgpack", "json"])
def test_a_pickle_is_not_read(hf: Holdfast, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "graph.sqlite"
    shutil.copyfile(IMPORTS / "langgraph.sqlite", source)
    thread(source, "hostile", kind, pickle.dumps(Bomb(tmp_path / "ran")))
    taken = importers.read(hf, source)
    assert (taken.checkpoints, len(taken.notes)) == (20, 1)
    assert not (tmp_path / "ran").exists()


def thread(source: Path, name: str, kind: str, body: bytes) -> None:
    database = apsw.Connection(str(source))
    row = "INSERT INTO checkpoints (thread_id, checkpoint_id, type, checkpoint, metadata) VALUES (?, 'x', ?, ?, '{}')"
    database.execute(row, (name, kind, body))
    database.close()


def test_constructors_in_json_are_messages_and_nothing_else(hf: Holdfast, tmp_path: Path) -> None:
    source = tmp_path / "graph.sqlite"
    shutil.copyfile(IMPORTS / "langgraph.sqlite", source)
    path = ["langchain", "schema", "messages", "HumanMessage"]
    said = {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": "Hello", "id": "h"}}
    told = {"ts": "2026-01-01T00:00:00Z", "channel_values": {"messages": [said]}}
    thread(source, "old", "json", json.dumps(told).encode())
    importers.read(hf, source)
    assert [(one.role, one.text) for one in hf.sessions.messages("old")] == [("user", "Hello")]


# what is somebody else's


def test_a_session_of_another_origin_is_left_alone(hf: Holdfast) -> None:
    hf.sessions.create(id=TIDES)
    hf.sessions.append(TIDES, Message.user("mine"))
    taken = importers.read(hf, TRANSCRIPT)
    assert [one.text for one in hf.sessions.messages(TIDES)] == ["mine"]
    assert "not of this import" in said_by(taken)
    assert taken.messages == 2  # the sidechain's


def test_what_was_said_here_since_stays(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "ares")
    hf.sessions.append("sess1", Message.user("and now?"))
    assert counts(importers.read(hf, SAMPLES / "ares")) == (0,) * 6
    assert [one.text for one in hf.sessions.messages("sess1", last=1)] == ["and now?"]


# whatever a field says


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("format", ["aethershell", "ares", "smooth"])
def test_whatever_a_field_of_a_file_says_the_import_ends_well(
    hf: Holdfast, tmp_path: Path, format: str, seed: int
) -> None:
    chance = random.Random(seed)
    shutil.copytree(SAMPLES / format, tmp_path / format)
    for file in sorted((tmp_path / format).rglob("*.json")):
        try:
            told = json.loads(file.read_text())
        except ValueError:
            continue
        for _ in range(2):
            told = changed(told, chance.choice([*places(told)]), chance.choice(ODD))
        file.write_text(json.dumps(told))
    taken = importers.read(hf, tmp_path / format, format=format)
    assert taken.notes
    assert hf.verify().ok


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("source", [TRANSCRIPT, IMPORTS / "chat.jsonl"], ids=["claude_code", "chat"])
def test_whatever_a_field_of_a_line_says_the_import_ends_well(
    hf: Holdfast, tmp_path: Path, source: Path, seed: int
) -> None:
    chance = random.Random(seed)
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    odd = [json.dumps(changed(one, chance.choice([*places(one)]), chance.choice(ODD))) for one in lines]
    (tmp_path / source.name).write_text("\n".join(odd))
    format = "chat" if source.name.startswith("chat") else "claude_code"
    importers.read(hf, tmp_path / source.name, format=format)
    assert hf.verify().ok


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    ("format", "path"),
    [
        ("behest", SAMPLES / "behest" / "behest.db"),
        ("smooth", SAMPLES / "smooth" / "checkpoints.db"),
        ("langgraph", IMPORTS / "langgraph.sqlite"),
        ("openai", IMPORTS / "openai.db"),
    ],
    ids=["behest", "smooth", "langgraph", "openai"],
)
def test_whatever_a_row_says_the_import_ends_well(
    hf: Holdfast, tmp_path: Path, format: str, path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    source = tmp_path / "source.db"
    shutil.copyfile(path, source)
    database = apsw.Connection(str(source))
    database.execute("PRAGMA ignore_check_constraints = 1")
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in [one for one in tables if not one.startswith(("_", "sqlite"))]:
        columns = [name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        for (row,) in [*database.execute(f"SELECT rowid FROM {table}")]:
            odd = chance.choice(
                [5, "odd", b"\xc1\x80", "[5]", '{"odd": 1}', "[[]]", b"\x81\xa2ts\xa1x", "", "null", -7]
            )
            ignored = f"UPDATE OR IGNORE {table} SET {chance.choice(columns)} = ? WHERE rowid = ?"
            with suppress(apsw.MismatchError):  # a whole number as key stays one
                database.execute(ignored, (odd, row))
    database.close()
    assert importers.read(hf, source, format=format).notes
    assert hf.verify().ok


def test_what_is_only_in_the_write_ahead_log_is_taken_too(hf: Holdfast, tmp_path: Path) -> None:
    source = tmp_path / "openai.db"
    shutil.copyfile(IMPORTS / "openai.db", source)
    database = apsw.Connection(str(source))
    database.execute("PRAGMA journal_mode = WAL")
    row = "INSERT INTO agent_messages (session_id, message_data) VALUES ('second', ?)"
    database.execute(row, ('{"role": "assistant", "content": "Salut"}',))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert importers.read(hf, source).messages == 12
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    database.close()
