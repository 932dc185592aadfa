"""A damaged store: what is damaged is named, the advice can be followed, and the exit code is 3."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from cli_runs import TALK, Shell

from holdfast import Message
from holdfast import open as open_store
from holdfast.cli.damage import concerned
from holdfast.cli.main import main
from holdfast.kinds import CHECKPOINTS, MESSAGES
from holdfast.testing.damage import spoilt
from holdfast.testing.records import dump

OTHER = {"id": "osaka", "messages": [{"role": "user", "content": "Find a hotel"}]}


@pytest.fixture
def altered(home: Path) -> Shell:
    """A store in which one message of one session is no longer what was written."""
    shell = Shell("file:///agents")
    for given in (TALK, OTHER):
        shell.says("session", "save", "-", given=given)
    (path,) = [one for one in home.rglob("messages.*") if b"ryokan" in one.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b"ryokan", b"hostel"))
    return shell


def test_damage_names_the_session_and_asks_for_a_backup(altered: Shell) -> None:
    for command in ("verify", "doctor"):
        result = altered.run(command)
        assert (result.exit_code, "kyoto" in result.output, "osaka" in result.output) == (3, True, False)
        assert "estore a backup" in result.output
        assert "holdfast copy" not in result.output


def test_a_damaged_checkpoint_can_be_deleted(home: Path) -> None:
    shell = Shell("sqlite:///agents.db")
    shell.says("session", "save", "-", given=TALK)
    made = shell.json("checkpoint", "create", "--session", "kyoto", "--json")["id"]
    with closing(apsw.Connection(str(home / "agents.db"))) as con:
        con.execute("UPDATE checkpoints SET body = x'00'")
    assert "DAMAGED" in shell.says("checkpoint", "list")
    assert main(["--store", shell.store, "checkpoint", "restore", made, "--yes"]) == 3
    shell.says("checkpoint", "delete", made, "--yes")
    assert shell.run("verify").exit_code == 0


def test_a_damaged_checkpoint_concerns_its_session_and_no_fork_of_it() -> None:
    with open_store("memory:") as hf:
        hf.sessions.append(hf.sessions.create(id="kyoto").id, Message.user("Find a ryokan"))
        made = hf.checkpoints.create(session_id="kyoto")
        hf.checkpoints.fork(made.id, id="osaka")
        (kept,) = (record for record in dump(hf._store) if record.kind is CHECKPOINTS)
        (said,) = (record for record in dump(hf._store) if record.kind is MESSAGES)
        for record, sessions in ((kept, "kyoto"), (said, "kyoto, osaka")):
            with spoilt(hf._store, record):
                assert concerned(hf, hf.verify().problems) == f"Sessions concerned: {sessions}."


@pytest.mark.parametrize("command", [["log"], ["log", "--json"], ["log", "--last", "2"], ["session", "load"]])
def test_a_message_that_was_altered_is_marked_as_damaged(altered: Shell, command: list[str]) -> None:
    result = altered.run(*command, "kyoto")
    assert (result.exit_code, "hostel" in result.stdout) == (3, True)
    assert "DAMAGED: message 1 of session kyoto" in result.stderr
    assert "DAMAGED: message 2" not in result.stderr
    assert altered.run(*command, "osaka").stderr == ""
    assert altered.run("log", "kyoto", "--last", "1").exit_code == 0


def test_a_sound_session_of_a_damaged_store_is_taken_over_as_advised(altered: Shell) -> None:
    assert main(["copy", altered.store, "file:///copied"]) == 3
    fresh = Shell("sqlite:///new.db")
    fresh.says("session", "save", "-", given=altered.says("session", "load", "osaka"))
    assert [one["role"] for one in fresh.lines("log", "osaka", "--json")] == ["user"]


@pytest.mark.usefixtures("home")
def test_a_database_that_was_cut_off_is_damage(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell("sqlite:///agents.db")
    shell.says("session", "save", "-", given=TALK)
    os.truncate("agents.db", 20_000)
    for command in ("verify", "doctor"):
        assert main(["--store", shell.store, command]) == 3
        said = "".join(capsys.readouterr())
        assert ("restore a backup" in said, "save something" in said) == (True, False)
