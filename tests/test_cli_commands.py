"""The commands of agents, sessions and checkpoints, on each embedded backend, for people and for programs."""

from __future__ import annotations

import io
import json
import socket
import sys
from typing import Any

import pytest
from cli_runs import AGENT, TALK, Shell
from click.testing import CliRunner
from rich.console import Console

from holdfast import Conflict, Message, NotFound
from holdfast import open as open_store
from holdfast.cli import doctor
from holdfast.cli.drawing import draw_tree
from holdfast.cli.main import cli
from holdfast.model import Image, ToolCall
from holdfast.testing.damage import spoilt
from holdfast.testing.records import dump

# agents


def test_an_agent_that_is_saved_is_loaded_and_listed(shell: Shell) -> None:
    assert "saved agent scout, revision 1" in shell.says("agent", "save", "-", given=AGENT)
    found = shell.json("agent", "load", "scout")
    assert (found["state"], found["revision"]) == ({"budget": 400}, 1)
    assert "Scout" in shell.says("agent", "list")
    assert [one["id"] for one in shell.lines("agent", "list", "--json")] == ["scout"]


def test_what_agent_load_prints_agent_save_reads(talk: Shell) -> None:
    loaded = talk.says("agent", "load", "scout")
    other = Shell("sqlite:///other.db")
    assert other.json("agent", "save", "-", "--json", given=loaded)["revision"] == 1
    assert other.json("agent", "load", "scout")["state"] == {"budget": 400}


def test_saving_an_agent_again_makes_a_revision(talk: Shell) -> None:
    changed = {**AGENT, "state": {"budget": 40}}
    assert talk.json("agent", "save", "-", "--json", given=changed)["revision"] == 2
    assert talk.json("agent", "load", "scout", "--revision", "1")["state"] == {"budget": 400}
    assert [one["revision"] for one in talk.lines("agent", "revisions", "scout", "--json")] == [2, 1]
    assert isinstance(talk.error("agent", "load", "scout", "--revision", "9"), NotFound)


def test_a_save_can_refuse_to_overwrite_another(talk: Shell) -> None:
    loaded = talk.says("agent", "load", "scout")
    talk.says("agent", "save", "-", "--if-unchanged", given=loaded)
    assert isinstance(talk.run("agent", "save", "-", "--if-unchanged", given=loaded).exception, Conflict)


def test_an_agent_is_deleted_with_its_sessions(talk: Shell) -> None:
    assert "deleted agent scout" in talk.says("agent", "delete", "scout", "--yes")
    assert (talk.lines("agent", "list", "--json"), talk.lines("session", "list", "--json")) == ([], [])


# sessions


def test_a_session_that_is_saved_is_loaded_and_listed(shell: Shell) -> None:
    assert "saved session kyoto: 2 messages, branch 1" in shell.says("session", "save", "-", given=TALK)
    found = shell.json("session", "load", "kyoto")
    assert [part["text"] for one in found["messages"] for part in one["content"]] == ["Find a ryokan", "Two look good."]
    assert "Trip to Kyoto" in shell.says("session", "list")
    assert [one["title"] for one in shell.lines("session", "list", "--json")] == ["Trip to Kyoto"]


def test_a_bare_list_of_messages_is_a_new_session(shell: Shell) -> None:
    saved = shell.json("session", "save", "-", "--json", given=TALK["messages"])
    assert (saved["title"], saved["head"]["seq"]) == ("Find a ryokan", 2)


def test_what_session_load_prints_session_save_reads(shell: Shell) -> None:
    large = Image(data=b"\x00\xff" * 200_000, mime_type="image/png")
    said = [
        Message.user("look", large, metadata={"n": 42.0}),
        Message.assistant("hm", tool_calls=[ToolCall(id="c", name="f", arguments="{not json")], reasoning="why"),
        Message.tool_result("c", "done", tool_name="f"),
    ]
    with open_store(shell.store) as hf:
        hf.sessions.save({"id": "s", "tags": ["x"], "metadata": {}}, said)
    loaded, other = shell.says("session", "load", "s"), Shell("file:///other")
    other.says("session", "save", "-", given=loaded)
    again = other.json("session", "load", "s")
    assert {**again, "updated_at": 0} == {**json.loads(loaded), "updated_at": 0}


def test_saving_what_is_there_changes_nothing_and_an_edit_is_a_branch(talk: Shell) -> None:
    loaded = talk.json("session", "load", "kyoto")
    assert "2 messages, branch 1" in talk.says("session", "save", "-", given=loaded)
    loaded["messages"][1]["content"] = "None, sorry."
    assert "2 messages, branch 2" in talk.says("session", "save", "-", given=loaded)
    assert talk.json("session", "load", "kyoto", "--branch", "1")["messages"][1]["content"][0]["text"] == TALK_ENDS


TALK_ENDS = "Two look good."


@pytest.mark.parametrize("command", [("session", "search"), ("search",)], ids=" ".join)
def test_a_search_finds_words(talk: Shell, command: tuple[str, ...]) -> None:
    assert "Find a ryokan" in talk.says(*command, "RYOKAN")
    assert [one["session_id"] for one in talk.lines(*command, "ryokan", "--in", "kyoto", "--json")] == ["kyoto"]
    assert talk.lines(*command, "yoka", "--json") == []
    assert len(talk.lines(*command, "yoka", "--substring", "--agent", "Scout", "--json")) == 1


def test_a_session_is_forked_switched_and_counted(talk: Shell) -> None:
    assert talk.json("session", "fork", "kyoto", "--id", "f", "--json")["id"] == "f"
    talk.says("session", "save", "-", given={**TALK, "messages": [{"role": "user", "content": "No"}]})
    assert talk.json("session", "switch", "kyoto", "1", "--json")["head"]["seq"] == 2
    assert talk.json("session", "stats", "kyoto", "--json")["messages"] == 3
    assert "messages  3" in talk.says("session", "stats", "kyoto")


def test_a_session_is_deleted(talk: Shell) -> None:
    assert "deleted session kyoto" in talk.says("session", "delete", "kyoto", "--yes")
    assert isinstance(talk.error("session", "load", "kyoto"), NotFound)


def test_json_is_taken_by_load_and_delete_too(talk: Shell) -> None:
    talk.says("checkpoint", "create", "scout", "--name", "point")
    for noun, name, own in (("checkpoint", "point", None), ("session", "kyoto", "kyoto"), ("agent", "scout", "scout")):
        found = talk.json(noun, "load", name, "--json")["id"]
        assert own in (None, found)
        assert talk.json(noun, "delete", name, "--yes", "--json") == {"deleted": found}


# checkpoints


def test_a_checkpoint_is_created_listed_restored_and_undone(talk: Shell) -> None:
    assert "of agent scout" in talk.says("checkpoint", "create", "scout", "--name", "before")
    talk.says("session", "save", "-", given={**TALK, "messages": []})
    done = talk.json("checkpoint", "restore", "before", "--yes", "--json")
    assert len(talk.json("session", "load", "kyoto")["messages"]) == 2
    assert "to undo" in talk.says("checkpoint", "restore", done["recovery"]["id"], "--yes")
    assert talk.json("session", "load", "kyoto")["messages"] == []
    assert "before" in talk.says("checkpoint", "list", "scout")


def test_a_checkpoint_of_a_session_is_its_own(talk: Shell) -> None:
    made = talk.json("checkpoint", "create", "--session", "kyoto", "--json")
    assert talk.lines("checkpoint", "list", "scout", "--json") == []
    assert [one["id"] for one in talk.lines("checkpoint", "list", "--session", "kyoto", "--json")] == [made["id"]]
    assert talk.json("checkpoint", "load", made["id"])["session_id"] == "kyoto"
    assert talk.json("checkpoint", "fork", made["id"], "--id", "f", "--json")["id"] == "f"


def test_a_checkpoint_is_deleted(talk: Shell) -> None:
    made = talk.json("checkpoint", "create", "scout", "--json")
    assert "deleted checkpoint" in talk.says("checkpoint", "delete", made["id"], "--yes")
    assert talk.lines("checkpoint", "list", "--json") == []


# the store


def test_stats_count(talk: Shell) -> None:
    found = talk.json("stats", "--json")
    assert (found["agents"], found["sessions"], found["messages"], found["checkpoints"]) == (1, 1, 2, 0)
    assert "messages  2" in talk.says("stats")


def test_a_prune_says_what_would_go_and_then_takes_it(talk: Shell) -> None:
    made = [talk.json("checkpoint", "create", "scout", "--json")["id"] for _ in range(3)]
    would = talk.lines("prune", "scout", "--keep", "1", "--dry-run", "--json")
    assert [one["id"] for one in would] == [made[1], made[0]]
    assert len(talk.lines("checkpoint", "list", "--json")) == 3
    talk.says("prune", "scout", "--keep", "1", "--yes")
    assert [one["id"] for one in talk.lines("checkpoint", "list", "--json")] == [made[2]]


def test_verify_gc_and_doctor_find_a_sound_store_sound(talk: Shell) -> None:
    assert talk.says("verify").startswith("sound: ")
    assert talk.json("verify", "--json")["ok"] is True
    assert talk.json("gc", "--json") == {"sweeps": 0, "captures": 0, "blobs": 0}
    findings: list[Any] = talk.lines("doctor", "--json")
    assert {one["state"] for one in findings} <= {"ok", "note"}
    assert all(words in talk.says("doctor") for words in ("free space", "extra adk: google-adk: "))


@pytest.mark.usefixtures("home")
def test_doctor_is_content_before_the_first_save_but_not_with_a_store_that_is_named_and_missing() -> None:
    fresh = CliRunner().invoke(cli, ["doctor"])
    assert (fresh.exit_code, "there is no store at" in fresh.output) == (0, True)
    named = Shell("sqlite:///agents.db").run("doctor")
    assert (named.exit_code, "there is no store at" in named.output) == (1, True)


@pytest.mark.usefixtures("home")
def test_doctor_fails_where_the_store_needs_a_driver_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.backends.postgres", None)
    result = Shell("postgresql://127.0.0.1:1/x").run("doctor")
    assert (result.exit_code, "pip install 'holdfast[postgres]'" in result.output) == (1, True)


def test_artifacts_are_put_listed_read_and_deleted(talk: Shell) -> None:
    with open("map.bin", "wb") as file:
        file.write(bytes(range(256)))
    kept = talk.json("artifact", "put", "map.bin", "--session", "kyoto", "--json")
    assert talk.run("artifact", "get", "map.bin").stdout_bytes == bytes(range(256))
    assert "map.bin" in talk.says("artifact", "list", "--session", "kyoto")
    assert "256 B" in talk.says("artifact", "get", kept["id"], "-o", "copy.bin")
    talk.says("artifact", "delete", kept["id"], "--yes")
    assert talk.lines("artifact", "list", "--json") == []


def test_runs_are_listed_told_and_halted(talk: Shell) -> None:
    with open_store(talk.store) as hf:
        with hf.runs.start("kyoto", key="book-1") as run:
            run.append(Message.user("Book it"))
    assert [one["key"] for one in talk.lines("run", "list", "kyoto", "--json")] == ["book-1"]
    assert talk.json("run", "show", "book-1")["status"] == "completed"
    assert [one["kind"] for one in talk.lines("run", "events", "book-1", "--json")] == ["started", "append", "ended"]
    assert [one["seq"] for one in talk.lines("run", "events", "book-1", "--after", "2", "--follow", "--json")] == [3]
    assert "completed" in talk.says("run", "halt", "book-1", "--yes")


def test_a_tree_tells_checkpoints_of_one_moment_apart() -> None:
    out = io.StringIO()
    with open_store("memory:") as hf:
        hf.sessions.append(hf.sessions.create(id="s").id, Message.user("Find a ryokan"))
        made = [hf.checkpoints.create(session_id="s").id for _ in range(20)]
        session = hf.sessions.get("s")
        assert session is not None
        draw_tree(Console(file=out, width=200), hf, session)
    shown = [line.split()[-1] for line in out.getvalue().splitlines() if "◆" in line]
    assert [sum(id.startswith(short) for id in made) for short in shown] == [1] * 20


def test_a_tree_says_how_many_checkpoints_are_damaged() -> None:
    out = io.StringIO()
    with open_store("memory:") as hf:
        session = hf.sessions.create(id="s")
        made = [hf.checkpoints.create(session_id="s").id for _ in range(3)]
        newest = next(record for record in dump(hf._store) if made[-1] in record.fields)
        with spoilt(hf._store, newest):
            draw_tree(Console(file=out, width=200), hf, session)
    assert out.getvalue().count("◆") == 2
    assert "1 damaged checkpoint not drawn" in out.getvalue()


def test_log_tree_and_diff_are_drawn(talk: Shell) -> None:
    talk.says("checkpoint", "create", "--session", "kyoto", "--name", "first")
    talk.says("session", "save", "-", given={**TALK, "messages": [{"role": "user", "content": "Osaka then"}]})
    talk.says("checkpoint", "create", "--session", "kyoto", "--name", "second")
    assert "Osaka then" in talk.says("log", "kyoto")
    assert len(talk.lines("log", "kyoto", "--at", "first", "--json")) == 2
    assert [one["role"] for one in talk.lines("log", "kyoto", "--branch", "1", "--last", "1", "--json")] == [
        "assistant"
    ]
    drawn = talk.says("tree", "kyoto")
    assert all(words in drawn for words in ("branch 1", "◆ first", "└─ ● branch 2", "← head"))
    assert len(talk.json("tree", "kyoto", "--json")["branches"]) == 2
    assert "+ 1 user: Osaka then" in talk.says("diff", "first", "second")
    assert talk.json("diff", "first", "second", "--json")["sessions"][0]["kind"] == "changed"


def test_doctor_says_which_servers_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        (found,) = doctor.servers({"Some": (port, "some://localhost")})
    (gone,) = doctor.servers({"Some": (port, "some://localhost")})
    assert (found.state, found.do) == ("ok", "holdfast --store some://localhost doctor")
    assert (gone.state, gone.do) == ("note", None)
