"""The agent of the demonstration: it plans a trip, calls three tools, and can be killed at any moment.

Its model is scripted, so that it needs no network; its loop is the one of docs/runs.md. The tools write into files,
so that anybody can count how often they were really called.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast import Agent, Holdfast, Message, ToolCall
from holdfast.driver import Driver
from holdfast.strategies import Strategy

AGENT, SESSION, KEY = "scout", "kyoto", "plan-kyoto"
TASK = "Plan two days in Kyoto, with a ryokan and a good dinner; book both."
THINKING_S = 0.25
BOOKINGS = "bookings.txt"

TURNS = [
    ("A plan: weather first, then a ryokan, then dinner, then a summary.", "look_up", {"what": "weather in Kyoto"}),
    ("Rain on Tuesday, so the gardens go first. Now a place to stay.", "look_up", {"what": "ryokan near Gion"}),
    ("Two look good; the quiet one has a garden. I book it.", "book", {"what": "Ryokan Sawa, 2 nights", "yen": 52_000}),
    (
        "Dinner: a kaiseki counter with two seats left. I book that, too.",
        "book",
        {"what": "Kaiseki Ume", "yen": 18_000},
    ),
    ("All is booked. I write the itinerary down.", "write_down", {"title": "Two days in Kyoto"}),
    ("Your two days are planned: gardens, tea, Ryokan Sawa, and dinner at Ume. Have a good trip!", None, {}),
]
FACTS = {
    "weather in Kyoto": "Monday sunny, 21 degrees; Tuesday rain from noon on. " * 6,
    "ryokan near Gion": "Ryokan Sawa: quiet, garden, 26,000 yen a night. Ryokan Hana: lively, 31,000 yen. " * 6,
}


class Tools:
    """What the agent can do; each leaves a line in a file of the world outside."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def look_up(self, what: str) -> str:
        """Read something up."""
        return FACTS[what]

    def book(self, what: str, yen: int) -> str:
        """Book something, which must not happen twice."""
        with open(self._folder / BOOKINGS, "a", encoding="utf-8") as book:
            book.write(f"{what}, {yen:,} yen\n")
        return f"Confirmed: {what} for {yen:,} yen."

    def write_down(self, title: str) -> str:
        """Write the itinerary."""
        (self._folder / "itinerary.txt").write_text(f"{title}\n", encoding="utf-8")
        return f"Wrote “{title}”."

    def named(self, name: str) -> Callable[..., str]:
        """The tool that a call names."""
        tools: dict[str, Callable[..., str]] = {
            "look_up": self.look_up,
            "book": self.book,
            "write_down": self.write_down,
        }
        return tools[name]


def think(turn: int) -> Message:
    """What a model would answer, after the time that it takes."""
    time.sleep(THINKING_S)
    text, tool, arguments = TURNS[turn]
    calls = [] if tool is None else [ToolCall(id=f"call-{turn}", name=tool, arguments=arguments)]
    return Message.assistant(text, tool_calls=calls)


def loop(run: Driver, tools: Tools) -> None:
    """Ask the model and call its tools until it is done; after a crash the same lines replay what is on record."""
    run.append(Message.user(TASK))
    for turn in range(len(TURNS)):
        run.iteration()
        answer = run.step("model", think, turn)
        run.append(answer)
        for call in answer.tool_calls:
            replayed = run.replaying
            result = run.tool(call.name, tools.named(call.name), call_id=call.id, **call.arguments)
            run.append(Message.tool_result(call.id, result, tool_name=call.name))
            tell("on record" if replayed else "done", call)


def tell(how: str, call: ToolCall) -> None:
    """Say to whoever watches what has been acknowledged."""
    print(f"{how}\t{call.name}\t{call.arguments.get('what') or call.arguments.get('title')}", flush=True)


def work(hf: Holdfast, folder: Path) -> None:
    """Begin the work, or go on with it."""
    if hf.agents.get(AGENT) is None:
        hf.agents.save(Agent(id=AGENT, name="Scout", kind="scripted", state={"budget": 100_000}))
        hf.sessions.create(id=SESSION, agent_id=AGENT, title="Two days in Kyoto")
    with hf.runs.start(SESSION, key=KEY, strategy=Strategy.every_iterations(1)) as run:
        loop(run, Tools(folder))


if __name__ == "__main__":
    with holdfast.open(sys.argv[1]) as opened:
        work(opened, Path(sys.argv[2]))
