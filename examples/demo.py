"""Holdfast in a minute: an agent is killed in the middle of its work, comes back, and nothing is lost.

Run it with `make demo`. It needs no network and leaves nothing behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

import holdfast
from holdfast import Agent, Holdfast, Message, ToolCall

PLAN = ["look up the weather", "find a ryokan", "compare prices", "check the trains", "book a table", "write it up"]
KILLED_AFTER = 7
SCRIPT = Path(__file__)


def say(text: str = "") -> None:
    print(text, flush=True)


def heading(number: int, text: str) -> None:
    say(f"\n\033[1m{number}. {text}\033[0m" if sys.stdout.isatty() else f"\n{number}. {text}")


# the agent: one process, told a store, that plans, calls tools, and checkpoints each step


def work(url: str) -> None:
    """Go on with the trip from wherever the record says it stands; say what has been acknowledged."""
    with holdfast.open(url) as hf:
        if hf.agents.get("scout") is None:
            hf.agents.save(Agent(id="scout", name="Scout", kind="scripted", state={"done": []}))
            hf.sessions.create(id="kyoto", agent_id="scout")
            hf.sessions.append("kyoto", Message.user("Plan three days in Kyoto for two", id="ask"))
        on_record = {message.id for message in hf.sessions.messages("kyoto")}
        for step, task in enumerate(PLAN):
            take_step(hf, step, task, on_record)
        hf.sessions.append("kyoto", Message.assistant("Your three days are planned. Have a good trip!", id="answer"))
        print("finished", flush=True)


def take_step(hf: Holdfast, step: int, task: str, on_record: set[str]) -> None:
    """Ask for a tool and keep its result with a checkpoint, each unless it is on record already."""
    call = ToolCall(id=f"call-{step}", name=task, arguments={"city": "Kyoto"})
    if f"step-{step}" not in on_record:
        hf.sessions.append("kyoto", Message.assistant(f"Next I {task}.", tool_calls=[call], id=f"step-{step}"))
        print("acknowledged: asked to", task, flush=True)
    if f"result-{step}" not in on_record:
        text = f"{task}: done. " + "details " * 60
        answer = Message.tool_result(call.id, text, tool_name=task, id=f"result-{step}")
        hf.checkpoints.create(session_id="kyoto", messages=[answer], step=step)
        print("acknowledged: result of", task, flush=True)


# the demonstration: starts the agent, kills it, looks at what is left


def run(url: str, kill_after: int | None) -> list[str]:
    """Run the agent; kill it with SIGKILL after so many acknowledgements."""
    seen: list[str] = []
    with subprocess.Popen([sys.executable, str(SCRIPT), "--work", url], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        for line in agent.stdout:
            seen.append(line.strip())
            say(f"   {line.strip()}")
            if len(seen) == kill_after:
                os.kill(agent.pid, signal.SIGKILL)
                say(f"   *** kill -9 {agent.pid} ***")
                break
    return seen


def draw(hf: Holdfast, session_id: str) -> None:
    """The tree of a session, a line for each run of messages."""
    tree = hf.sessions.tree(session_id)
    for branch in tree.branches:
        own = [message for message in hf.sessions.messages(session_id, branch=branch.id) if message.branch == branch.id]
        start = "●" if branch.parent is None else f"│{'   ' * (branch.id - 2)}└─ from message {branch.fork_seq}:"
        mark = "  ← active" if branch.active else ""
        say(f"   {start} branch {branch.id}, {len(own)} messages, to “{own[-1].text[:32]}”{mark}")


def copied_bytes(hf: Holdfast) -> int:
    """What the same checkpoints would take if each held a copy of the conversation."""
    return sum(
        len(msgspec.json.encode(list(hf.checkpoints.messages(one.id))))
        for one in hf.checkpoints.list(session_id="kyoto")
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agents.db"
        url = f"sqlite:///{path}"
        heading(1, "An agent works, and is killed in the middle")
        seen = run(url, KILLED_AFTER)
        heading(2, "What the record holds after the kill")
        with holdfast.open(url) as hf:
            kept = [message for message in hf.sessions.messages("kyoto") if message.role != "user"]
            verdict = "sound" if hf.verify().ok else "DAMAGED"
            say(f"   acknowledged {len(seen)}, on record {len(kept)}, verify: {verdict}")
        heading(3, "The agent starts again and goes on where the record stands")
        run(url, None)
        with holdfast.open(url) as hf:
            heading(4, "Back to step 2, and another way from there")
            back = next(one for one in hf.checkpoints.list(session_id="kyoto") if one.step == 2)
            restored = hf.checkpoints.restore(back.id)
            hf.sessions.append("kyoto", Message.user("Make it two days, and cheaper"), Message.assistant("Gladly."))
            draw(hf, "kyoto")
            diff = hf.checkpoints.diff(back.id, restored.recovery.id).sessions[0]
            say(f"   put aside by the restore: {len(diff.added)} messages, all still on branch 1")
            heading(5, "What it takes")
            stats, copies = hf.stats(), copied_bytes(hf)
            say(f"   {stats.messages} messages and {stats.checkpoints} checkpoints: {stats.bytes:,} bytes on record")
            say(f"   the same checkpoints as copies of the conversation: {copies:,} bytes more")
    say("\nNext: read README.md, run `make test`, or open a store of your own:")
    say('   import holdfast; hf = holdfast.open("sqlite:///agents.db")')


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2])
    else:
        main()
