"""A follower in a process of its own: it opens the store as the kit does, and says each event that it sees."""

from __future__ import annotations

import pickle
import sys

from holdfast.client import Holdfast
from holdfast.testing.writer import Job

COMMAND = [sys.executable, "-c", "from holdfast.testing.follower import main; main()"]


def main() -> None:
    """Read a job and the id of a run, follow it to its end, and say the seq and the kind of each event."""
    job: Job = pickle.load(sys.stdin.buffer)
    run_id = sys.stdin.buffer.readline().decode().strip()
    with Holdfast(job.open()) as hf:
        for event in hf.runs.follow(run_id):
            print(event.seq, event.kind, flush=True)
