"""The sections, each run by a process of its own, so that one may fail alone.

python benchmarks/sections.py NAME OUTPUT [--quick]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anatomy
import append
import artifacts
import checkpoints
import large
import many_agents
import msgspec
import postgresql
import processes
import reading
import search
import sharding
import slow_disk
import starting
import steps
import vectors
from figures import Section

SECTIONS: dict[str, Callable[[bool], Section]] = {
    "append": append.results,
    "anatomy": anatomy.results,
    "agents": many_agents.results,
    "steps": steps.results,
    "slow_disk": slow_disk.results,
    "checkpoints": checkpoints.results,
    "reading": reading.results,
    "processes": processes.results,
    "search": search.results,
    "vectors": vectors.results,
    "artifacts": artifacts.results,
    "large": large.results,
    "postgresql": postgresql.results,
    "sharding": sharding.results,
    "starting": starting.results,
}


STOPS_S = 20.0  # for a section that is interrupted to stop what it has started


def apart(name: str, quick: bool) -> Section:
    """A section by its own process; one that fails says so on the page, and its figures are missing."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "section.json")
        command = [sys.executable, __file__, name, str(output), *(["--quick"] if quick else [])]
        with subprocess.Popen(command) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:  # which it has got as well
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOPS_S)
                process.kill()
                raise
        if code:
            said = [f"Could not be measured: its process ended with {code}, and has said why."]
            return Section(title=name, failed=True, lines=said)
        return msgspec.json.decode(output.read_bytes(), type=Section)


if __name__ == "__main__":
    try:
        Path(sys.argv[2]).write_bytes(msgspec.json.encode(SECTIONS[sys.argv[1]]("--quick" in sys.argv)))
    except KeyboardInterrupt:
        sys.exit(130)
