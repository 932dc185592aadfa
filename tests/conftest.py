"""Fixtures of several files; and one folder for the servers of a test run, made and emptied by who began it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from cli_runs import home, shell, talk
from servers import FOLDER, stop_all

__all__ = ["home", "shell", "talk"]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="holdfast-servers-")
        os.chmod(folder, 0o755)  # a server that refuses to be root reads its own folder under here
        os.environ[FOLDER] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        stop_all(Path(os.environ.pop(FOLDER)))
