"""What it costs to begin: `import holdfast` beside a Python that does nothing, with bytecode, as once installed."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from figures import Section
from rounds import RAM, burst, folder, interleaved

WORKLOAD = "import holdfast"


def _python(code: str, bytecode: Path) -> None:
    """A process that finds its bytecode in a folder, or else leaves it there."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def results(quick: bool) -> Section:
    section = Section(title="Starting")
    codes = {"python -c pass": "pass", "import holdfast": "import holdfast", "first append": FIRST}
    with folder(RAM) as bytecode:  # the round that is not counted fills it
        ways = {name: burst(partial(_python, code, bytecode)) for name, code in codes.items()}
        taken = interleaved(ways, 3 if quick else 25, in_a_row=1)
    for name, way in taken.items():
        section.tell(WORKLOAD, name, way.median_us / 1000, "ms")
    section.tell(WORKLOAD, "of python -c pass", taken["import holdfast"].of(taken["python -c pass"]), "×")
    return section


FIRST = """
import holdfast
with holdfast.open("memory:") as hf:
    hf.sessions.append(hf.sessions.create().id, holdfast.Message.user("hello"))
"""
