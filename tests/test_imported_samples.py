"""What each of the four sample formats says is said again here."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import apsw
import pytest
from importing import SAMPLES, said_by

import holdfast
from holdfast import Holdfast, importers
from holdfast.model import Attachment


@pytest.fixture
def hf() -> Holdfast:
    return holdfast.open("memory:")


# aethershell


def test_shell_values_stay_what_they_are(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "aethershell")
    agent = hf.agents.get("agent-planner")
    assert agent is not None
    state = agent.state
    assert [state[name] for name in ("counter", "counter_as_float", "counter_as_text")] == [42, 42.0, "42"]
    assert [type(state[name]) for name in ("counter", "counter_as_float")] == [int, float]
    assert (state["big"], state["nothing"], state["queue"]) == (9007199254740993, None, [1, "two", None])
    assert (state["profile"], state["mapper"]) == ({"city": "Zürich", "since": 2019}, {"Builtin": {"name": "map"}})
    assert agent.config["endpoint"] == {"Uri": "https://models.example/v1"}
    assert (agent.kind, agent.schema_version, agent.metadata["team"]) == ("planner", 1, "storage")  # type: ignore[index]


def test_a_branch_in_the_source_is_a_branch_here(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "aethershell")
    kelp = next(one for one in hf.sessions.list(tag="kelp"))
    tree = hf.sessions.tree(kelp.id)
    paths = [[message.text for message in hf.sessions.messages(kelp.id, branch=one.id)] for one in tree.branches]
    assert paths == [["Find kelp data", "", "3 hits"], ["Find kelp data", "Another answer", "Take the second"]]
    assert (kelp.head.branch, kelp.archived, kelp.tags) == (2, True, ["kelp", "海藻"])


def test_attachments_and_outcomes_come_over(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "aethershell")
    kelp = next(one for one in hf.sessions.list(tag="kelp"))
    first = next(hf.sessions.messages(kelp.id))
    image, *_, code = first.attachments
    assert isinstance(image, Attachment)
    assert (image.type, image.data, image.size) == ("image", b"GIF89a\x01\x00\x01\x00\x00\x00\x00,", 14)
    assert (code.type, code.content, first.attachments[1].url) == (
        "code",
        "print('kelp')\n",
        "https://files.example/tide.ogg",
    )
    outcomes = [(one.tool_name, one.status, one.result, one.error) for one in hf.executions.list(kelp.id)]
    assert outcomes == [
        ("search", "success", "3 hits", None),
        ("fetch", "failed", None, "timed out"),
        ("index", "running", None, None),
        ("notify", "pending", None, None),
    ]


def test_a_checkpoint_with_a_wrong_sum_is_taken_and_flagged(hf: Holdfast) -> None:
    taken = importers.read(hf, SAMPLES / "aethershell")
    [note] = taken.notes
    assert note.where.endswith("wrong-checksum.json")
    made = {one.id: one for one in hf.checkpoints.list("agent-planner")}
    assert "damaged" in made["wrong-checksum"].metadata["imported"]  # type: ignore[index]
    sound = made["f1346a5f-917a-46a1-ae6e-f2e0355cf443"]
    assert "damaged" not in sound.metadata["imported"]  # type: ignore[index]
    assert (sound.kind, sound.name) == ("manual", "before refactor")
    assert {head.seq for head in hf.checkpoints.heads(sound.id).values()} == {3, 4}


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_sum_is_over_the_text_in_the_files_order(hf: Holdfast, tmp_path: Path, algorithm: str) -> None:
    shutil.copytree(SAMPLES / "aethershell", tmp_path / "a")
    state = '{"name":"n","agent_id":"z","custom_state":{"x":{"Float":1e16},"b":{"Str":"a \\u0041 : , b"}}}'
    checksum = hashlib.new(algorithm, f"[{state},[]]".encode()).hexdigest()
    spaced = state.replace('"name":"n",', '"name": "n",\n  ')
    body = f'{{"id":"c","agent_id":"z","agent_state": {spaced},"conversations":[ ],"created_at":1,'
    body += f'"checksum":"{checksum}"}}'
    (tmp_path / "a" / "checkpoints" / "c.json").write_text(body)
    taken = importers.read(hf, tmp_path / "a")
    assert "wrong-checksum.json" in said_by(taken)
    assert len(taken.notes) == 1


# smooth


def test_each_checkpoint_stands_where_its_conversation_ended(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "smooth")
    [session] = hf.sessions.list(agent_id="smooth-researcher")
    made = hf.checkpoints.list(session_id=session.id)
    assert [(one.step, one.head and one.head.seq) for one in made] == [(2, 7), (1, 5), (None, 4)]
    assert made[2].metadata["phase"] == "execute"  # type: ignore[index]
    assert [one.role for one in hf.checkpoints.messages(made[2].id)] == ["system", "user", "assistant", "tool"]


def test_times_keep_what_finer_they_say(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "smooth")
    [session] = hf.sessions.list(agent_id="smooth-researcher")
    first = next(hf.sessions.messages(session.id))
    assert first.created_at.isoformat() == "2026-01-01T00:33:20.301000+00:00"
    assert first.metadata == {"imported": {"timestamp": "2026-01-01T00:33:20.301000903Z"}}


def test_rows_of_one_second_keep_their_order(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "smooth" / "checkpoints.db")
    [session] = hf.sessions.list(agent_id="smooth-db-burst")
    latest = hf.checkpoints.latest(session_id=session.id)
    assert latest is not None
    assert (latest.step, session.head.seq) == (4, 6)


def test_a_conversation_that_was_compacted_becomes_a_branch(hf: Holdfast, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "smooth" / "smooth-researcher", tmp_path / "smooth-researcher")
    last = json.loads((tmp_path / "smooth-researcher" / "f2fe172e-960c-4ab7-a210-c1988bcb8ce9.json").read_text())
    said = last["conversation"]["messages"]
    summary = {"id": "sum", "role": "assistant", "content": "So far", "timestamp": "2026-01-01T01:00:00Z"}
    last["conversation"]["messages"] = [said[0], summary, *said[-2:]]
    last |= {"id": "compacted", "iteration": 3, "created_at": "2026-01-01T01:00:01Z"}
    (tmp_path / "smooth-researcher" / "compacted.json").write_text(json.dumps(last))
    for _ in range(2):
        importers.read(hf, tmp_path)
        [session] = hf.sessions.list()
        assert [one.text for one in hf.sessions.messages(session.id)][1] == "So far"
        assert (hf.stats().messages, session.head.seq) == (10, 4)
        assert hf.sessions.tree(session.id).branch_points == [said[0]["id"]]
    *_, call, result = hf.sessions.messages(session.id)
    assert call.metadata["imported"]["id"] == said[-2]["id"]  # type: ignore[index]
    assert result.tool_name == "read"


# ares


def test_sessions_are_told_by_what_the_files_say_not_by_their_names(hf: Holdfast) -> None:
    taken = importers.read(hf, SAMPLES / "ares")
    assert {one.id for one in hf.sessions.list()} == {"sess1", "a", "a_b", "latest-1"}
    assert "corrupt_0.json" in said_by(taken)
    assert "corrupt_latest.json" in said_by(taken)
    ends = {one.id: (one.status, one.reason) for one in hf.checkpoints.list()}
    assert ends["a-0"] == ("failed", "OOM")
    assert ends["a_b-0"] == ("halted", "loop detected")
    assert (ends["latest-1-0"], ends["sess1-2"]) == (("in_progress", None), ("completed", None))


def test_calls_of_steps_are_recorded_once(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "ares")
    found, read = hf.executions.list("sess1")
    assert (found.tool_name, found.arguments, found.result, found.status) == ("search", "query", "found it", "success")
    assert (read.arguments, read.error, read.status) == ({"path": "tides.csv", "rows": 24}, None, "failed")
    newest = hf.checkpoints.get("sess1-2")
    assert newest is not None
    assert [one.id for one in newest.tool_calls] == [found.id, read.id]
    assert newest.partial_results == ["partial output", "24 rows"]


# behest


def test_a_compacted_session_reads_as_it_did(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "behest" / "behest.db")
    reef = next(one for one in hf.sessions.list() if one.title == "Reef")
    stats = hf.sessions.stats(reef.id)
    assert (stats.messages, stats.tool_calls, stats.succeeded, stats.failed) == (10, 3, 2, 1)
    assert (stats.input_tokens, stats.output_tokens, stats.total_tokens, stats.average_tool_ms) == (300, 130, 430, 200)
    view = [one.text for one in hf.sessions.context(reef.id)]
    assert view[0].startswith("The user asked about a reef")
    assert view[1:] == ["And the raw data?", "", "HTTP 503"]


def test_lost_call_ids_are_inferred_and_say_so(hf: Holdfast) -> None:
    taken = importers.read(hf, SAMPLES / "behest" / "behest.db")
    reef = next(one for one in hf.sessions.list() if one.title == "Reef")
    results = [one for one in hf.sessions.messages(reef.id) if one.role == "tool"]
    assert [(one.tool_call_id, one.tool_name) for one in results] == [
        ("call_1", "search"),
        ("call_2", "weather"),
        ("call_3", "fetch"),
    ]
    assert results[0].metadata["imported"]["inferred"] == ["tool_call_id", "tool_name"]  # type: ignore[index]
    assert said_by(taken).count("inferred") == 3


def test_null_metadata_stays_apart_from_none(hf: Holdfast) -> None:
    importers.read(hf, SAMPLES / "behest" / "behest.db")
    reef, other = sorted(hf.sessions.list(), key=lambda one: one.id)
    assert reef.metadata["nested"] == {"z": 1, "a": [True, None]}  # type: ignore[index]
    assert "metadata" not in reef.metadata["imported"]  # type: ignore[index]
    assert other.metadata["imported"]["metadata"] is None  # type: ignore[index]


def test_rows_are_ordered_by_time_and_unknown_roles_are_nobodys(hf: Holdfast, tmp_path: Path) -> None:
    source = tmp_path / "behest.db"
    shutil.copyfile(SAMPLES / "behest" / "behest.db", source)
    with apsw.Connection(str(source)) as database:
        [(session_id,)] = database.execute("SELECT id FROM sessions WHERE title = ''")
        row = "INSERT INTO messages (id, session_id, role, content, created_at) VALUES (?, ?, ?, '[]', ?)"
        database.execute(row, ("early", session_id, "user", "2026-01-01T02:08:20.100+01:00"))
        database.execute(row, ("odd", session_id, "critic", "2026-01-01T01:08:22Z"))
    database.close()
    taken = importers.read(hf, source)
    said = [one.id for one in hf.sessions.messages(session_id)]
    assert (said[0], len(said)) == ("early", 4)
    assert "'critic'" in said_by(taken)
