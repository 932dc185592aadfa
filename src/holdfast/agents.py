"""Agents: what an agent is, each save a revision, all of them kept and chained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from holdfast import codec, cursors
from holdfast.agent_records import Present, present_record, read_present, revise
from holdfast.commits import commit, get
from holdfast.contracts import Insert, Put, Query, Reader, Record, Write
from holdfast.diffs import agent_changes
from holdfast.errors import Conflict, InvalidInput, MigrationError, NotFound
from holdfast.filters import Filter
from holdfast.heads import count_heads
from holdfast.ids import check_id, check_whole
from holdfast.kinds import AGENTS, REVISIONS
from holdfast.model import Agent, Change, Json, Page
from holdfast.nouns import Ground, Noun

Migration = Callable[[dict[str, Json]], dict[str, Json]]


class Agents(Noun):
    """`hf.agents`: save, get, list, and go back to earlier revisions."""

    def __init__(self, ground: Ground, migrations: Mapping[int, Migration]) -> None:
        super().__init__(ground)
        self._migrations = dict(migrations)

    def save(self, agent: Agent, *, timeout: float | None = None) -> Agent:
        """Keep the agent as a new revision.

        With `agent.revision` None it replaces whatever is there; with a number only that revision, and
        Conflict if somebody saved meanwhile. `get` counts active sessions; what comes back here has 0.
        """
        self._check(agent)
        return self._save(agent.id, lambda _: agent, agent.revision, timeout)

    def set_state(self, agent_id: str, key: str, value: Json, *, timeout: float | None = None) -> Agent:
        """Set one key of the state, as a new revision; NotFound if there is no such agent."""
        codec.check_json({key: value}, "agent state")

        def changed(present: Agent | None) -> Agent:
            agent = _must(present, agent_id)
            return replace(agent, state={**agent.state, key: value})

        return self._save(agent_id, changed, None, timeout)

    def delete_state(self, agent_id: str, key: str, *, timeout: float | None = None) -> Agent:
        """Remove one key of the state, as a new revision; NotFound if there is no such agent."""

        def changed(present: Agent | None) -> Agent:
            agent = _must(present, agent_id)
            return replace(agent, state={k: v for k, v in agent.state.items() if k != key})

        return self._save(agent_id, changed, None, timeout)

    def restore(self, agent_id: str, revision: int, *, timeout: float | None = None) -> Agent:
        """Save an old revision's content as the newest one; NotFound if there is no such revision."""
        old = self.get(agent_id, revision=revision, timeout=timeout)
        if old is None:
            raise NotFound(f"agent {agent_id!r} has no revision {revision}")
        return self._save(agent_id, lambda _: old, None, timeout)

    def _check(self, agent: Agent) -> None:
        if not isinstance(agent, Agent):
            raise InvalidInput(f"agents.save takes an Agent, not {type(agent).__name__}")
        check_id(agent.id, "agent id")
        for name in ("config", "state", "metadata"):
            codec.check_json(getattr(agent, name), f"agent {name}")
        codec.encode_value(replace(agent, created_at=None, modified_at=None), Agent, "agent")

    def _save(
        self,
        agent_id: str,
        make: Callable[[Agent | None], Agent],
        expected: int | None,
        timeout: float | None,
    ) -> Agent:
        check_id(agent_id, "agent id")
        saved: list[Agent] = []

        def place(reader: Reader) -> list[Write]:
            agent, writes = self._place(reader, agent_id, make, expected)
            saved[:] = [agent]
            return writes

        with self._within(timeout):
            commit(self._store, place)
        return saved[-1]

    def _place(
        self, reader: Reader, agent_id: str, make: Callable[[Agent | None], Agent], expected: int | None = None
    ) -> tuple[Agent, list[Write]]:
        """The next revision of an agent, made of the present one, and the writes that add it."""
        record = get(reader, AGENTS, agent_id)
        present = None if record is None else read_present(record)
        number = 0 if present is None else present.revision
        if expected is not None and expected != number:
            raise Conflict(f"agent {agent_id!r} is at revision {number}, not {expected}; get it again and repeat")
        old = None if present is None else self._revision(reader, present, number)
        agent = make(None if old is None or present is None else self._read(old, present))
        revised = revise(agent, present, old, self._stamps.next())
        pointer = present_record(revised.present, record)
        return revised.agent, [
            Insert(revised.record),
            Insert(pointer) if record is None else Put(pointer, record.digest),
        ]

    def get(self, agent_id: str, *, revision: int | None = None, timeout: float | None = None) -> Agent | None:
        """The agent as last saved, or as of a revision; None if it is not there."""
        if revision is not None:
            check_whole(revision, "revision")
        with self._within(timeout):
            record = get(self._store, AGENTS, check_id(agent_id, "agent id"))
            if record is None:
                return None
            present = read_present(record)
            number = present.revision if revision is None else revision
            kept = self._revision(self._store, present, number) if 0 < number <= present.revision else None
            if kept is None:
                return None
            return self._read(kept, present, self._active_sessions(agent_id))

    def _revision(self, reader: Reader, present: Present, number: int) -> Record | None:
        return get(reader, REVISIONS, present.uid, number)

    def _read(self, record: Record, present: Present, active_sessions: int = 0) -> Agent:
        agent = codec.decode(record.body, Agent, f"revision {record.key[1]} of agent {present.id!r}")
        agent = replace(agent, revision=int(record.key[1]), active_sessions=active_sessions)
        return self._migrated(agent)

    def _migrated(self, agent: Agent) -> Agent:
        """The agent with its state brought up to the newest registered schema."""
        while agent.schema_version in self._migrations:
            step = self._migrations[agent.schema_version]
            try:
                state = step(dict(agent.state))
                codec.check_json(state, "migrated agent state")
            except Exception as cause:
                # User code may raise anything; the caller must learn whose code it was.
                raise MigrationError(
                    f"the migration from state schema {agent.schema_version} failed on agent {agent.id!r}: {cause}"
                ) from cause
            agent = replace(agent, state=state, schema_version=agent.schema_version + 1)
        return agent

    def migration(self, from_version: int) -> Callable[[Migration], Migration]:
        """Register a function that turns state of this schema version into the next; applied on read."""

        def register(step: Migration) -> Migration:
            if from_version in self._migrations:
                raise InvalidInput(f"a migration from schema {from_version} is registered already")
            self._migrations[from_version] = step
            return step

        return register

    def _active_sessions(self, agent_id: str) -> int:
        active = (
            Filter("agent_id", "=", agent_id),
            Filter("status", "=", "active"),
            Filter("detached_by", "=", None),
        )
        return count_heads(self._store, active)

    def list(
        self,
        *,
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> Page[Agent]:
        """All agents by id, a page at a time; the `cursor` of a page goes on behind it."""
        cursors.check_range(limit, offset)
        after = None if cursor is None else tuple(cursors.read(["agents"], cursor))
        query = Query(kind=AGENTS, after=after, limit=offset + limit + 1)
        with self._within(timeout):
            rows = list(self._store.scan(query))[offset:]
            found = [self.get(str(row.key[0])) for row in rows[:limit]]
        more = len(rows) > limit and limit > 0
        return Page(
            [agent for agent in found if agent is not None],
            cursors.make(["agents"], list(rows[limit - 1].key)) if more else None,
        )

    def revisions(
        self, agent_id: str, *, limit: int = 100, offset: int = 0, timeout: float | None = None
    ) -> Sequence[Agent]:
        """The agent's revisions, newest first; nothing for an unknown agent."""
        cursors.check_range(limit, offset)
        with self._within(timeout):
            record = get(self._store, AGENTS, check_id(agent_id, "agent id"))
            if record is None:
                return []
            present = read_present(record)
            newest = Query(kind=REVISIONS, prefix=(present.uid,), reverse=True, limit=offset + limit)
            return [self._read(row, present) for row in list(self._store.scan(newest))[offset:]]

    def diff(self, agent_id: str, before: int, after: int, *, timeout: float | None = None) -> Sequence[Change]:
        """What changed from one revision to another, field by field and state key by state key."""
        old = self.get(agent_id, revision=before, timeout=timeout)
        new = self.get(agent_id, revision=after, timeout=timeout)
        if old is None or new is None:
            raise NotFound(f"agent {agent_id!r} has no revision {before if old is None else after}")
        return [*agent_changes(old, new)]

    def delete(self, agent_id: str, *, timeout: float | None = None) -> None:
        """Remove an agent with its revisions, sessions and checkpoints; fine if there is none."""
        with self._within(timeout):
            self._ground.sweeps.delete_agent(check_id(agent_id, "agent id"))
            self._ground.sweeps.scrub()


def _must(present: Agent | None, agent_id: str) -> Agent:
    if present is None:
        raise NotFound(f"there is no agent with the id {agent_id!r}; save it first")
    return present
