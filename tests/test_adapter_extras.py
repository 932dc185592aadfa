"""An adapter without its framework says what brings it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from pages import ROOT

ADAPTERS = sorted(path.stem for path in (ROOT / "src/holdfast/adapters").glob("[!_]*.py"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
WITHOUT = """
import sys
for framework in "agents claude_agent_sdk google langchain_core langgraph pydantic pydantic_ai".split():
    sys.modules[framework] = None
try:
    import holdfast.adapters.{adapter}
except ImportError as error:
    print(error, type(error.__cause__).__name__, error.name == error.__cause__.name, sep="; ")
"""


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_without_its_framework_says_what_installs_it(adapter: str) -> None:
    extra = adapter.replace("_", "-")
    told = f"holdfast.adapters.{adapter} needs its framework; pip install 'holdfast[{extra}]'"
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(adapter=adapter)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{told}; ModuleNotFoundError; True\n", "")
    assert extra in EXTRAS
