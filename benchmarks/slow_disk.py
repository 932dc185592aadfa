"""What is left of the floors' lead where a sync takes longer: the same calls while strace holds every sync up.

python benchmarks/slow_disk.py ROUNDS OUTPUT
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import append
import floors
import msgspec
import steps
from figures import Section, table
from floors import BareRows, ByHand
from rounds import DISK, awaited, burst, folder, interleaved

WORKLOAD = "where a sync takes longer"
LONGER_US = (0, 500, 1_000, 4_000)
STEP, STEP_VALUES = "append + checkpoint", f"append + checkpoint, {steps.VALUES}"
FLOORS = {
    append.OURS: append.BARE,
    append.HAND: append.BARE,
    append.OURS_AWAITED: append.BARE,
    append.HAND_AWAITED: append.BARE,
    STEP: steps.BARE,
    STEP_VALUES: steps.BARE,
}


def measured(rounds: int) -> dict[str, float]:
    """The ways on the disk, each as a multiple of its floor, and the microseconds of the two floors."""
    with folder(DISK) as at, asyncio.Runner() as runner, ExitStack() as stack:
        (at / "steps").mkdir()
        _hf, step = stack.enter_context(steps.ours(at / "steps" / "holdfast.db"))
        taken = interleaved(
            {
                append.BARE: burst(stack.enter_context(floors.bare(at))),
                append.HAND: burst(stack.enter_context(closing(ByHand(at / "hand.db"))).append),
                append.HAND_AWAITED: awaited(
                    runner, stack.enter_context(closing(ByHand(at / "loop.db"))).append_on_loop
                ),
                append.OURS: stack.enter_context(append.ours(at)),
                append.OURS_AWAITED: stack.enter_context(append.ours_awaited(at, runner)),
                steps.BARE: burst(stack.enter_context(closing(BareRows(at / "rows.db"))).step),
                STEP_VALUES: burst(stack.enter_context(closing(ByHand(at / "values.db"))).step_with_values),
                STEP: burst(step),
            },
            rounds,
        )
    ratios = {name: taken[name].of(taken[floor]) for name, floor in FLOORS.items()}
    return ratios | {floor: taken[floor].median_us for floor in (append.BARE, steps.BARE)}


def delayed(rounds: int, longer_us: int) -> dict[str, float]:
    """The same in a process whose syncs take so many microseconds longer."""
    with folder(DISK) as at:
        command = [sys.executable, __file__, str(rounds), str(at / "found.json")]
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
    found = {longer: delayed(2 if quick else 30, longer) for longer in LONGER_US}
    section.say("Every sync is held up by strace for so much longer than this disk takes; nothing else changes.", "")
    names = [append.BARE, steps.BARE, *FLOORS]
    rows = [[_shown(name), *(_value(ratios[name], name) for ratios in found.values())] for name in names]
    section.say(*table(["way", *(f"+ {longer / 1000:g} ms" for longer in LONGER_US)], rows))
    for longer, ratios in found.items():
        for name, value in ratios.items():
            section.note(WORKLOAD, f"+ {longer} µs: {_shown(name)}", value, "×" if name in FLOORS else "µs")
    return section


def _shown(name: str) -> str:
    return f"{name}, of {FLOORS[name]}" if name in FLOORS else f"{name}, µs"


def _value(value: float, name: str) -> str:
    return f"{value:.2f} ×" if name in FLOORS else f"{value:,.0f}"


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(msgspec.json.encode(measured(int(sys.argv[1]))))
