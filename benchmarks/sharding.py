"""How a store would spread over many nodes, simulated with its own commits.

A store in memory writes down the keys of every commit. Nodes are then imagined that share rows by the first part of
their keys behind the namespace, by a hash or by ranges: how many nodes does a commit touch, and how much more than its
share has the node that has most to do? Nothing is timed.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

from figures import Section, shown, table

import holdfast
from holdfast import Agent, Holdfast, Message
from holdfast.backends.memory import MemoryStore
from holdfast.contracts import Insert, Put, Rebase, Write

TOUCHED, HOTTEST = "nodes that a commit touches, of 16", "load of the hottest node, of its share"
NODES = (4, 16, 64)
AGENT = "scout"

Place = Callable[[str], int]  # from the first part of a key to a node


class Recording(MemoryStore):
    """A store that writes down, for each commit, the first parts of the keys it wrote to."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[set[str]] = []

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        applied = super().commit(writes, rebase)
        rows = [write.record if isinstance(write, Insert | Put) else write for write in applied]
        if rows:
            self.commits.append({str(row.key[0]) for row in rows})
        return applied


def hashed(nodes: int) -> Place:
    return lambda part: int.from_bytes(hashlib.sha256(part.encode()).digest()[:8]) % nodes


def ranged(parts: Sequence[str], nodes: int) -> Place:
    """As many of the parts on each node, in their order: what an engine that splits full ranges comes to."""
    ordered = sorted(parts)
    bounds = [ordered[len(ordered) * node // nodes] for node in range(1, nodes)]
    return lambda part: bisect_right(bounds, part)


def touched(section: Section, sessions: int) -> None:
    """How many of 16 nodes each call's commits write to, with ids that the store makes and with ids of one's own."""
    rows = []
    found = {named: _calls(named, sessions) for named in (False, True)}
    for call in found[False]:
        means = []
        for named, of_calls in found.items():
            mean = sum(of_calls[call]) / len(of_calls[call])
            means.append(shown(mean, ""))
            section.note(TOUCHED, f"{call}, ids {'given' if named else 'made by the store'}", mean, "")
        rows.append([call, *means])
    section.say("### Nodes that a commit touches, of 16, by a hash", "")
    section.say(*table(["call", "ids made by the store", "ids given"], rows))


def _calls(named: bool, sessions: int) -> dict[str, list[int]]:
    store, place = Recording(), hashed(16)
    hf = Holdfast(store)
    counts: dict[str, list[int]] = {}

    def count(call: str) -> None:
        counts.setdefault(call, []).extend(len({*map(place, parts)}) for parts in store.commits)
        store.commits.clear()

    hf.agents.save(Agent(id=AGENT, name="A"))
    store.commits.clear()
    for number in range(sessions):
        chat = hf.sessions.create(id=f"chat {number}" if named else None, agent_id=AGENT, title="t").id
        count("create a session")
        hf.sessions.append(chat, Message.user("first"))
        store.commits.clear()
        hf.sessions.append(chat, Message.user("second"))
        count("append")
        hf.checkpoints.create(session_id=chat, messages=[Message.user("third")])
        count("append + checkpoint")
        with hf.runs.start(chat, key="k") as run:
            run.append(Message.user("fourth"))
            run.tool("look", lambda: 1)
        count("a run with one call")
    kept = hf.checkpoints.create(AGENT)
    count(f"checkpoint of an agent with {sessions} sessions that changed")
    for session in hf.sessions.list(agent_id=AGENT, limit=sessions).items:
        hf.sessions.append(session.id, Message.user("fifth"))
    store.commits.clear()
    hf.checkpoints.restore(kept.id)
    count(f"restore of an agent with {sessions} sessions")
    return counts


def hottest(section: Section, sessions: int, appends: int) -> None:
    """The busiest node's appends, of the mean: when sessions are alike, when new ones are busier, when few are."""
    ids = [holdfast.ids.new_id() for _ in range(sessions)]
    chance = random.Random(1)
    famous = [1 / rank for rank in range(1, sessions + 1)]
    chance.shuffle(famous)
    busy = {
        "all sessions alike": [1.0] * sessions,
        "the newest tenth does nine tenths": [1.0] * (sessions - sessions // 10) + [81.0] * (sessions // 10),
        "the n-th busiest does 1/n of the busiest": famous,
    }
    rows = []
    for activity, weights in busy.items():
        drawn = Counter(chance.choices(ids, cum_weights=[*itertools.accumulate(weights)], k=appends))
        for how in ("by a hash", "by ranges"):
            shares = [_hottest(drawn, hashed(n) if how == "by a hash" else ranged(ids, n), n) for n in NODES]
            section.curve(HOTTEST, f"{activity}, {how}", "×", zip(NODES, shares, strict=True))
            rows.append([activity, how, *(shown(share, "×") for share in shares)])
    section.say(f"### Load of the hottest node, of its share: {sessions:,} sessions, {appends:,} appends", "")
    section.say(*table(["activity", "placed", *(f"{nodes} nodes" for nodes in NODES)], rows))


def _hottest(drawn: Counter[str], place: Place, nodes: int) -> float:
    loads: Counter[int] = Counter()
    for session, appends in drawn.items():
        loads[place(session)] += appends
    return max(loads.values()) * nodes / drawn.total()


def results(quick: bool) -> Section:
    section = Section(title="Spread over nodes, simulated")
    touched(section, 20 if quick else 200)
    hottest(section, 1_000 if quick else 100_000, 5_000 if quick else 1_000_000)
    return section
