"""What it costs to begin: `import holdfast` beside a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys

from figures import Section
from rounds import burst, interleaved

WORKLOAD = "import holdfast"


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def results(quick: bool) -> Section:
    section = Section(title="Starting")
    ways = {
        "python -c pass": burst(lambda: _python("pass")),
        "import holdfast": burst(lambda: _python("import holdfast")),
        "first append": burst(lambda: _python(FIRST)),
    }
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
