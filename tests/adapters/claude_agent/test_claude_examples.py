"""Claude Code itself, with a scripted model: killed and resumed from the store alone, and beside another framework."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import claude_agent_store as example
import pytest
import two_frameworks
from claude_agent_sdk import list_sessions_from_store, project_key_for_directory
from cli_runs import Shell
from pages import run_snippets

import holdfast
from holdfast.adapters.claude_agent import HoldfastSessionStore, session_id_of

ANSWERS = [f"I looked: high tide in {port} at {6 + len(port) % 5}:12." for port in example.PORTS]


def test_a_killed_agent_goes_on_where_it_was(tmp_path: Path) -> None:
    killed = ran(example.__file__, tmp_path, "--die-at", "4")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = lines(tmp_path)
    assert ANSWERS[0] in json.dumps(before)
    assert ANSWERS[1] not in json.dumps(before)
    resumed = ran(example.__file__, tmp_path)
    assert resumed.stdout.splitlines() == ANSWERS, resumed.stderr
    assert lines(tmp_path)[: len(before)] == before
    with opened(tmp_path) as hf:
        assert hf.verify().ok
        [listed] = asyncio.run(list_sessions_from_store(HoldfastSessionStore(hf), str(tmp_path)))
        assert (listed.session_id, listed.first_prompt) == (example.SESSION, "When is high tide in Brest?")


def test_two_frameworks_are_one_store(home: Path) -> None:
    looked = ran(two_frameworks.__file__, home)
    assert "forked: harbour-again" in looked.stdout, looked.stderr
    shell = Shell("sqlite:///chat.db")
    claude = session_id_of(key(home))
    assert {one["id"] for one in shell.lines("session", "list", "--json")} == {"harbour", "harbour-again", claude}
    found = shell.lines("search", "Roscoff", "--json")
    assert {one["session_id"] for one in found} >= {"harbour", claude}
    logs = [shell.says("log", one) for one in ("harbour", claude)]
    assert all(answer in log for answer in ANSWERS for log in logs)
    assert "system" not in logs[1]  # what Claude Code notes for itself is not part of the conversation
    assert "branch 1" in shell.says("tree", claude)


def test_a_session_that_the_command_line_forks_can_be_resumed(home: Path) -> None:
    store = f"sqlite:///{home}/chat.db"
    said = {"role": "user", "content": "Hello"}
    entry: Any = {
        "type": "user",
        "uuid": "u-1",
        "parentUuid": None,
        "timestamp": "2026-01-01T00:00:00Z",
        "message": said,
    }
    with opened(home) as hf:
        asyncio.run(HoldfastSessionStore(hf).append(key(home), [entry]))
    other = {**key(home), "session_id": "0b5c1f5e-8a57-4c0e-9f0a-5d5f4f1c2a02"}
    Shell(store).says("session", "fork", example.SESSION, "--id", session_id_of(other))
    with opened(home) as hf:
        assert asyncio.run(HoldfastSessionStore(hf).load(other)) == [entry]


def test_the_snippets_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_snippets("docs/claude-agent-sdk.md")


def ran(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example to its end, and end the Claude Code that a killed one leaves behind, which would try again."""
    command = [sys.executable, program, "sqlite:///chat.db", *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},  # a killed one leaves its scratch files
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    process.wait(timeout=240)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    said, complained = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def opened(folder: Path) -> holdfast.Holdfast:
    return holdfast.open(f"sqlite:///{folder}/chat.db")


def key(folder: Path) -> Any:
    return {"project_key": project_key_for_directory(str(folder)), "session_id": example.SESSION}


def lines(folder: Path) -> list[Any]:
    with opened(folder) as hf:
        return asyncio.run(HoldfastSessionStore(hf).load(key(folder))) or []
