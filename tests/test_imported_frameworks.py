"""What agent frameworks and plain chats hold is said again here; the databases were written by the frameworks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import apsw
import pytest
from importing import IMPORTS, TIDES, TRANSCRIPT, counts, said_by, stored

import holdfast
from holdfast import Holdfast, importers
from holdfast.model import Image


@pytest.fixture
def hf() -> Holdfast:
    return holdfast.open("memory:")


def test_a_thread_that_was_forked_has_a_branch_and_all_its_checkpoints(hf: Holdfast) -> None:
    importers.read(hf, IMPORTS / "langgraph.sqlite")
    assert [one.id for one in hf.sessions.messages("tides")][5:] == ["human-3", "ai-5", "tool-call_5", "ai-6"]
    assert hf.sessions.tree("tides").branch_points == ["ai-2"]
    latest = hf.checkpoints.latest(session_id="tides", order="step")
    assert latest is not None
    assert (latest.step, [one.id for one in hf.checkpoints.messages(latest.id)][-1]) == (8, "ai-6")
    assert latest.extra["channel_values"]["plan"] == {"step": 6, "done": True}
    assert latest.extra["channel_values"]["seen"] == {"class": "builtins.set", "value": ["Brest"]}
    answer = hf.sessions.message("tides", "ai-1")
    assert answer is not None
    assert answer.usage is not None
    assert (answer.usage.total, answer.usage.cache_read, answer.usage.model) == (27, 4, "scripted-1")
    assert answer.tool_calls[0].arguments == {"port": "Brest", "days": 2}


def test_items_of_an_openai_session_become_messages(hf: Holdfast) -> None:
    importers.read(hf, IMPORTS / "openai.db")
    said = list(hf.sessions.messages("harbour"))
    assert [one.role for one in said[:6]] == ["system", "user", "assistant", "assistant", "tool", "assistant"]
    assert (said[2].reasoning, said[3].tool_calls[0].arguments) == ("Look it up.", {"port": "Brest", "days": 2})
    assert (said[4].tool_call_id, said[4].tool_name, said[4].text) == ("call_1", "tides", "06:12, 18:40")
    assert (said[5].text, said[8].tool_calls[0].arguments) == ("At 06:12. 潮", "{not json")
    assert isinstance(said[6].content[1], Image)
    first = next(hf.sessions.messages("second"))
    assert (first.role, first.metadata) == ("system", {"imported": {"role": "developer"}})


def test_a_transcript_keeps_its_tree_its_sidechain_and_its_calls(hf: Holdfast) -> None:
    importers.read(hf, TRANSCRIPT)
    said = list(hf.sessions.messages(TIDES))
    assert [one.id for one in said] == ["u-1", "a-1", "a-2", "a-3", "r-1", "r-2", "a-4", "u-3", "a-6"]
    assert [(one.tool_call_id, one.tool_name) for one in said[4:6]] == [("toolu_1", "Read"), ("toolu_2", "Task")]
    assert hf.sessions.tree(TIDES).branch_points == ["a-4"]
    assert [one.text for one in hf.sessions.messages(f"{TIDES}/s-1")] == ["Check the moon", "It is full."]
    assert hf.sessions.get(TIDES).title == "Tides in Brest"  # type: ignore[union-attr]
    assert said[1].reasoning == "Two tables to read."


def test_an_answer_of_several_lines_is_counted_once_and_by_its_last_line(hf: Holdfast) -> None:
    importers.read(hf, TRANSCRIPT)
    first, *_ = hf.usage.list(TIDES)
    assert (first.message_id, first.output, first.total) == ("a-1", 42, 172)
    assert sum(one.output for one in hf.usage.list(TIDES)) == 42 + 9 + 4 + 5


def test_a_transcript_that_has_grown_adds_what_is_new(hf: Holdfast, tmp_path: Path) -> None:
    lines = TRANSCRIPT.read_text().splitlines(keepends=True)
    source = tmp_path / TRANSCRIPT.name
    source.write_text("".join(lines[:9]))
    importers.read(hf, source)
    source.write_text("".join(lines) + '{"type":"user","uuid":"torn')
    taken = importers.read(hf, source)
    assert (taken.sessions, taken.messages) == (0, 6)
    assert f"{source}:{len(lines) + 1}: not taken: no whole JSON" in said_by(taken)
    assert stored(hf)[:3] == (0, 2, 13)


def test_a_chat_keeps_what_it_does_not_know(hf: Holdfast) -> None:
    taken = importers.read(hf, IMPORTS / "chat.jsonl")
    [session] = hf.sessions.list()
    *_, call, result, answer = hf.sessions.messages(session.id)
    assert (call.tool_calls[0].arguments, result.tool_call_id) == ({"port": "Brest"}, "c1")
    assert (answer.id, answer.role, answer.metadata) == (
        "answer",
        "assistant",
        {"imported": {"role": "ai", "fields": {"score": 0.5}}},
    )
    assert "'critic'" in said_by(taken)
    assert "4 messages have no time" in said_by(taken)


def test_a_line_can_hold_a_whole_chat(hf: Holdfast, tmp_path: Path) -> None:
    chats = [
        {"messages": [{"role": "user", "content": f"Hello {n}"}, {"role": "assistant", "content": "Hi"}]}
        for n in (1, 2)
    ]
    source = tmp_path / "chats.jsonl"
    source.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    assert counts(importers.read(hf, source)) == (0, 2, 4, 0, 0, 0)
    assert counts(importers.read(hf, source)) == (0,) * 6


def test_a_long_chat_is_taken_in_batches(hf: Holdfast, tmp_path: Path) -> None:
    source = tmp_path / "long.jsonl"
    source.write_text("".join(json.dumps({"role": "user", "content": f"{n}"}) + "\n" for n in range(1001)))
    assert importers.read(hf, source).messages == 1001
    [session] = hf.sessions.list()
    assert [one.text for one in hf.sessions.messages(session.id)] == [str(n) for n in range(1001)]
    assert len(hf.sessions.tree(session.id).branches) == 1


def test_a_folder_of_transcripts_is_taken_with_its_agents(hf: Holdfast, tmp_path: Path) -> None:
    shutil.copyfile(TRANSCRIPT, tmp_path / TRANSCRIPT.name)
    agents = tmp_path / TIDES / "subagents"
    agents.mkdir(parents=True)
    said = {"role": "user", "content": "Look around"}
    line = {"type": "user", "uuid": "g", "parentUuid": None, "sessionId": TIDES, "message": said, "isSidechain": True}
    (agents / "agent-7f.jsonl").write_text(json.dumps({**line, "agentId": "7f", "timestamp": "2026-01-01T00:00:00Z"}))
    assert importers.read(hf, tmp_path).sessions == 3
    assert [one.text for one in hf.sessions.messages(f"{TIDES}/7f")] == ["Look around"]


def test_what_follows_a_compaction_begins_with_the_summary(hf: Holdfast, tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    at = {"sessionId": TIDES, "timestamp": "2026-01-01T04:00:00Z"}
    summary = {"type": "user", "uuid": "s", "parentUuid": "b", "isCompactSummary": True}
    said = {"role": "user", "content": "So far: tides."}
    added = [{**boundary, "logicalParentUuid": "a-6", **at}, {**summary, "message": said, **at}]
    source = tmp_path / TRANSCRIPT.name
    source.write_text(TRANSCRIPT.read_text() + "".join(json.dumps(one) + "\n" for one in added))
    importers.read(hf, source)
    [first] = hf.sessions.messages(TIDES)
    assert (first.text, first.is_summary, hf.stats().messages) == ("So far: tides.", True, 14)


def test_a_channel_stored_as_changes_is_named_and_not_taken(hf: Holdfast, tmp_path: Path) -> None:
    source = tmp_path / "graph.sqlite"
    shutil.copyfile(IMPORTS / "langgraph.sqlite", source)
    told = {"ts": "2026-01-01T00:00:00Z", "channel_values": {}, "channel_versions": {"messages": "2"}}
    database = apsw.Connection(str(source))
    row = "INSERT INTO checkpoints (thread_id, checkpoint_id, type, checkpoint) VALUES ('changes', 'x', 'json', ?)"
    database.execute(row, (json.dumps(told).encode(),))
    database.close()
    taken = importers.read(hf, source)
    assert (taken.checkpoints, hf.checkpoints.has("x")) == (20, False)
    assert "stored as changes" in said_by(taken)
