"""LangGraph and OpenAI Agents write into one store, and the commands show both, search both, and fork one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import langgraph_agent
import openai_agents_chat
import pytest
from agents import Runner, set_tracing_disabled
from agents.agent import Agent
from cli_runs import Shell
from langchain_core.messages import HumanMessage

import holdfast
from holdfast.adapters.openai_agents import HoldfastSession

STORE = "sqlite:///agents.db"


@pytest.fixture
def shell(home: Path) -> Shell:
    """A store with a thread of LangGraph, which waits, and a conversation of OpenAI Agents."""
    assert home.is_dir()
    set_tracing_disabled(True)
    agent = Agent(name="Harbour master", model=openai_agents_chat.Scripted(), tools=[openai_agents_chat.high_tide])
    with holdfast.open(STORE) as hf:
        asked = {"messages": [HumanMessage("Find me a room in Kyoto, or in Brest")]}
        langgraph_agent.build(hf).invoke(asked, langgraph_agent.CONFIG)
        asyncio.run(Runner.run(agent, "When is high tide in Brest?", session=HoldfastSession(hf, "harbour")))
    return Shell(STORE)


def test_both_are_listed_shown_and_drawn(shell: Shell) -> None:
    assert {one["id"] for one in shell.lines("session", "list", "--json")} == {"kyoto", "harbour"}
    assert 'book({"room":7})' in shell.says("log", "kyoto")
    assert 'high_tide({"port":"Brest"})' in shell.says("log", "harbour")
    assert all("branch 1" in shell.says("tree", one) for one in ("kyoto", "harbour"))


def test_one_search_finds_both(shell: Shell) -> None:
    found = shell.lines("search", "brest", "--json")
    assert {one["session_id"] for one in found} == {"kyoto", "harbour"}


def test_a_fork_of_one_goes_on_in_its_framework(shell: Shell) -> None:
    shell.says("session", "fork", "harbour", "--id", "again")
    with holdfast.open(STORE) as hf:
        fork, origin = HoldfastSession(hf, "again"), HoldfastSession(hf, "harbour")
        asyncio.run(fork.add_items([{"role": "user", "content": "And in Roscoff?"}]))
        assert asyncio.run(fork.get_items())[:-1] == asyncio.run(origin.get_items())
        assert len(list(hf.sessions.messages("kyoto"))) == 2
        assert hf.verify().ok
