"""What the tests of importers share: where the samples are, and how what came of them is counted."""

from __future__ import annotations

from pathlib import Path

from holdfast import Holdfast
from holdfast.importers import Taken

FIXTURES = Path(__file__).parent / "fixtures"
SAMPLES = FIXTURES / "samples"
IMPORTS = FIXTURES / "imports"
TRANSCRIPT = IMPORTS / "0b5c1f5e-8a57-4c0e-9f0a-5d5f4f1c2a01.jsonl"
TIDES = TRANSCRIPT.stem


def counts(taken: Taken) -> tuple[int, ...]:
    return (taken.agents, taken.sessions, taken.messages, taken.checkpoints, taken.executions, taken.usages)


def stored(hf: Holdfast) -> tuple[int, ...]:
    """What a store holds, counted in the order of the table."""
    stats = hf.stats()
    sessions = [one.id for one in hf.sessions.list()]
    said = {
        (one.id, message.id): message
        for one in hf.sessions.list()
        for branch in hf.sessions.tree(one.id).branches
        for message in hf.sessions.messages(one.id, branch=branch.id)
    }
    calls = sum(len(message.tool_calls) for message in said.values())
    executions = sum(len(hf.executions.list(one)) for one in sessions)
    usages = sum(len(hf.usage.list(one)) for one in sessions)
    return (stats.agents, stats.sessions, stats.messages, stats.checkpoints, calls, executions, usages)


def said_by(taken: Taken) -> str:
    return "\n".join(f"{note.where}: {note.what}" for note in taken.notes)
