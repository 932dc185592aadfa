"""Two frameworks in one store: OpenAI Agents and the Claude Agent SDK talk, and Holdfast sees both.

    python examples/two_frameworks.py sqlite:///harbour.db
    holdfast --store sqlite:///harbour.db search Roscoff

It runs offline: both models are scripted.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile

import claude_agent_store
import openai_agents_chat
from agents import set_tracing_disabled

import holdfast


def talk(store: str) -> None:
    """A conversation of each framework."""
    asyncio.run(openai_agents_chat.chat(store))
    with holdfast.open(store) as hf, claude_agent_store.scripted(None) as model:
        with tempfile.TemporaryDirectory() as scratch:
            asyncio.run(claude_agent_store.chat(hf, model, scratch))


def look(store: str) -> None:
    """Both conversations, a search through both, and a fork of one."""
    with holdfast.open(store) as hf:
        for session in hf.sessions.list():
            print(f"{session.id}: {hf.sessions.stats(session.id).total_tokens} tokens")
        for found in hf.search("Roscoff", role="assistant"):
            print(f"{found.session_id}: {found.snippet}")
        fork = hf.sessions.fork("harbour", id="harbour-again", title="Another try")
        print(f"forked: {fork.id} from message {fork.head.seq} on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("store", help="where both are kept, such as sqlite:///harbour.db")
    given = parser.parse_args()
    set_tracing_disabled(True)
    talk(given.store)
    look(given.store)


if __name__ == "__main__":
    main()
