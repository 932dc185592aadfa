"""`copy`, `export` and `import`: whole, repeatable, and whole or unseen when they are interrupted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import Shell

import holdfast
from holdfast import InvalidInput, Message
from holdfast.cli.main import INTERRUPTED

INTERRUPTED_AT = """
import os, signal, sys
import holdfast
from holdfast.cli.main import main

plain, told = holdfast.copy, 0

def copy(*given, progress, **named):
    def tell(made):
        global told
        told += 1
        if told == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGINT)
        progress(made)
    return plain(*given, progress=tell, **named)

holdfast.copy = copy
sys.exit(main(["copy", "sqlite:///agents.db", "file:///copied"]))
"""


def messages(shell: Shell, session: str = "kyoto") -> list[str]:
    return [part["text"] for one in shell.json("session", "load", session)["messages"] for part in one["content"]]


def test_a_copy_has_everything_and_a_second_one_writes_nothing(talk: Shell) -> None:
    talk.says("checkpoint", "create", "scout", "--name", "point")
    other = "file:///copied" if talk.store.startswith("sqlite") else "sqlite:///copied.db"
    assert "copied" in talk.says("copy", talk.store, other)
    assert messages(Shell(other)) == messages(talk)
    assert Shell(other).json("verify", "--json")["ok"] is True
    assert talk.json("copy", talk.store, other, "--json")["written"] == 0


def test_a_copy_goes_to_another_tenant(talk: Shell) -> None:
    talk.says("copy", talk.store, talk.store, "--to-namespace", "acme")
    assert [one["id"] for one in talk.lines("--namespace", "acme", "session", "list", "--json")] == ["kyoto"]


@pytest.mark.parametrize("path", ["agents.zip", "folder"])
def test_an_export_is_imported_again(talk: Shell, path: str) -> None:
    assert talk.json("export", path, "--json")["records"] > 0
    other = Shell("sqlite:///other.db")
    assert "imported" in other.says("import", path)
    assert messages(other) == messages(talk)


def test_what_another_system_has_stored_is_imported(shell: Shell) -> None:
    Path("chat.jsonl").write_text('{"role": "user", "content": "Find a ryokan"}\n')
    assert shell.json("import", "chat.jsonl", "--format", "chat", "--json")["messages"] == 1
    assert shell.json("import", "chat.jsonl", "--json")["messages"] == 0
    assert len(shell.lines("search", "ryokan", "--json")) == 1


@pytest.mark.parametrize("path", ["agents.zip", "exported"])
def test_what_is_not_in_the_format_named_is_refused_and_leaves_nothing(talk: Shell, path: str) -> None:
    talk.says("export", path)
    other = Shell("sqlite:///other.db")
    refused = other.run("import", path, "--format", "chat")
    assert (refused.exit_code, type(refused.exception)) == (1, InvalidInput)
    assert other.lines("session", "list", "--json") == []


@pytest.mark.parametrize("moment", [1, 3])
def test_ctrl_c_in_a_copy_leaves_nothing_half_written(home: Path, moment: int) -> None:
    with holdfast.open("sqlite:///agents.db") as hf:
        for number in range(4):
            hf.sessions.save({"id": f"s{number}"}, [Message.user(f"{one}") for one in range(1_500)])
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, str(moment)], capture_output=True, text=True, timeout=60, cwd=home
    )
    assert (done.returncode, "Traceback" in done.stderr) == (INTERRUPTED, False), done.stderr
    assert "run the same command again to finish it" in done.stderr
    copied = Shell("file:///copied")
    assert copied.lines("session", "list", "--json") == []
    copied.says("copy", "sqlite:///agents.db", "file:///copied")
    assert copied.json("stats", "--json")["messages"] == 6_000
    assert copied.json("verify", "--json")["ok"] is True
