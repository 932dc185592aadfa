"""The environment of the Claude Agent SDK has the version that the adapter is written for."""

from __future__ import annotations

from importlib.metadata import version


def test_the_framework_is_the_promised_version() -> None:
    assert version("claude-agent-sdk").startswith("0.2.")
