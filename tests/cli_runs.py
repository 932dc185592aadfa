"""Running commands in tests: in this process where only words matter, as a process where pipes and signals do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.main import cli
from holdfast.errors import HoldfastError

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
STORES = ["sqlite:///agents.db", "file:///agents"]
AGENT = {"id": "scout", "name": "Scout", "kind": "gpt-5", "state": {"budget": 400}}
TALK = {
    "id": "kyoto",
    "agent_id": "scout",
    "title": "Trip to Kyoto",
    "messages": [
        {"role": "user", "content": "Find a ryokan"},
        {"role": "assistant", "content": "Two look good."},
    ],
}


class Shell:
    """Commands on one store."""

    def __init__(self, store: str) -> None:
        self.store = store

    def run(self, *arguments: str, given: object = None) -> Result:
        """Run a command, whatever comes of it; a value is given to it as JSON."""
        text = given if isinstance(given, str) else json.dumps(given)
        return CliRunner().invoke(cli, ["--store", self.store, *arguments], input=text)

    def says(self, *arguments: str, given: object = None) -> str:
        """What a command that must succeed prints."""
        result = self.run(*arguments, given=given)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def json(self, *arguments: str, given: object = None) -> Any:
        """What it prints as one JSON document."""
        return json.loads(self.says(*arguments, given=given))

    def lines(self, *arguments: str) -> list[Any]:
        """What it prints as JSON lines."""
        return [json.loads(line) for line in self.says(*arguments).splitlines()]

    def error(self, *arguments: str) -> HoldfastError:
        """The error that a command ends in."""
        found = self.run(*arguments).exception
        assert isinstance(found, HoldfastError), found
        return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and an environment without anybody's settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


@pytest.fixture(params=STORES, ids=["sqlite", "file"])
def shell(request: pytest.FixtureRequest, home: Path) -> Shell:
    """Commands on an empty store, of each embedded backend."""
    assert home.is_dir()
    return Shell(request.param)


@pytest.fixture
def talk(shell: Shell) -> Shell:
    """The same with an agent and a conversation."""
    shell.says("agent", "save", "-", given=AGENT)
    shell.says("session", "save", "-", given=TALK)
    return shell


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command as a process of its own."""
    return subprocess.run([HOLDFAST, *arguments], capture_output=True, text=True, timeout=60, **options)
