"""An adapter without its framework, and the kit without pytest, says what brings it."""

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
for missing in "agents claude_agent_sdk google langchain_core langgraph pydantic pydantic_ai pytest".split():
    sys.modules[missing] = None
try:
    import holdfast.{module}
except ImportError as error:
    print(error, type(error.__cause__).__name__, error.name == error.__cause__.name, sep="; ")
"""


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_without_its_framework_says_what_installs_it(adapter: str) -> None:
    extra = adapter.replace("_", "-")
    told = f"holdfast.adapters.{adapter} needs its framework; pip install 'holdfast[{extra}]'"
    assert said_without(f"adapters.{adapter}") == f"{told}; ModuleNotFoundError; True\n"
    assert extra in EXTRAS


def test_the_kit_without_pytest_says_what_installs_it() -> None:
    told = "holdfast.testing needs pytest and hypothesis; pip install 'holdfast[testing]'"
    assert said_without("testing") == f"{told}; ModuleNotFoundError; True\n"
    assert "testing" in EXTRAS


def said_without(module: str) -> str:
    """What the import of a module says where nothing is installed that an extra brings."""
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(module=module)], capture_output=True, text=True)
    return done.stdout + done.stderr
