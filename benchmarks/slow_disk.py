"""What is left of the floors' lead where a sync takes longer: the same calls while strace holds every sync up.

python benchmarks/slow_disk.py ROUNDS BEHIND OUTPUT
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import append
import many_agents
import msgspec
import steps
from figures import Section, table
from rounds import DISK, folder, interleaved

WORKLOAD = "where a sync takes longer"
LONGER_US = (0, 500, 2_000)


def measured(rounds: int, behind: int) -> dict[str, float]:
    """What each way takes on the disk, of its floor; of many agents the rate; and the microseconds of a bare commit."""
    with folder(DISK) as at, append.floors_and_ours(at, behind) as ways:
        said = interleaved(ways, rounds)
    with folder(DISK) as at, steps.floors_and_ours(at, behind) as ways:
        kept = interleaved(ways, rounds)
    with folder(DISK) as at, many_agents.floors_and_ours(at, behind // many_agents.AGENTS) as many:
        rates = many_agents.taken(many, max(1, rounds // 3), each=4)
    found = {f"{append.BARE}, µs": said[append.BARE].median_us}
    for name in (append.OURS, append.OURS_AWAITED, append.HAND, append.ONE_ROW):
        found[f"append: {name}, of {append.BARE}"] = said[name].of(said[append.BARE])
    for name in (steps.OURS, steps.VALUES):
        found[f"append + checkpoint: {name}, of {steps.BARE}"] = kept[name].of(kept[steps.BARE])
    for name in (many_agents.OURS, many_agents.TASKS):
        ratio = rates[name].of(rates[many_agents.BARE])
        assert ratio is not None
        found[f"32 agents: {name}, of the rate of {many_agents.BARE}"] = ratio
    return found


def delayed(rounds: int, behind: int, longer_us: int) -> dict[str, float]:
    """The same in a process whose syncs take so many microseconds longer."""
    with folder(DISK) as at:
        command = [sys.executable, __file__, str(rounds), str(behind), str(at / "found.json")]
        if longer_us:
            held_up = ["-e", "trace=fdatasync,fsync", "-e", f"inject=fdatasync,fsync:delay_exit={longer_us}"]
            command = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", *held_up, *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"syncs that take {longer_us} µs longer: {done.stderr[-2000:]}")
        return msgspec.json.decode((at / "found.json").read_bytes(), type=dict[str, float])


def results(quick: bool) -> Section:
    section = Section(title="A disk with slower syncs, SQLite")
    if shutil.which("strace") is None:
        section.say("Could not be measured: there is no strace.")
        return section
    rounds, behind = (2, 20) if quick else (30, append.BEHIND)
    found = {longer: delayed(rounds, behind, longer) for longer in LONGER_US}
    section.say(
        "Every sync is held up by strace for so much longer than this disk takes, and a little more by strace itself;",
        "the first row tells how much that is. Medians of few rounds, on which no promise rests.",
        "",
    )
    rows = [[name, *(_shown(ratios[name], name) for ratios in found.values())] for name in found[0]]
    section.say(*table(["way", *(f"+ {longer / 1000:g} ms" for longer in LONGER_US)], rows))
    for longer, ratios in found.items():
        for name, value in ratios.items():
            section.note(WORKLOAD, f"+ {longer} µs: {name}", value, "µs" if name.endswith("µs") else "×")
    return section


def _shown(value: float, name: str) -> str:
    return f"{value:,.0f}" if name.endswith("µs") else f"{value:.2f} ×"


if __name__ == "__main__":
    Path(sys.argv[3]).write_bytes(msgspec.json.encode(measured(int(sys.argv[1]), int(sys.argv[2]))))
