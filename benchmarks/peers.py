"""What comes with agent frameworks to keep conversations, each used as its own documentation shows it.

They are loaded by name, since only the environment of `make bench` has them. All live in one SQLite file, with the
settings they choose themselves; `sessions` conversations in it are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from rounds import TEXT

Opener = Callable[[Path, int], "Peer"]
BATCH = 500


class Peer(Protocol):
    """An open store of conversations."""

    file: Path

    async def open(self) -> None: ...

    async def append(self, session: int) -> None: ...

    async def fill(self, session: int, count: int) -> None:
        """So many messages, in the fastest way there is."""

    async def read(self, session: int) -> int:
        """The whole conversation; how many messages came."""

    async def last(self, session: int, count: int) -> int: ...

    async def close(self) -> None: ...


class OpenAI:
    """SQLiteSession and AdvancedSQLiteSession, an object for each conversation."""

    def __init__(self, advanced: bool, folder: Path, sessions: int) -> None:
        module = "agents.extensions.memory" if advanced else "agents"
        made: Any = getattr(import_module(module), "AdvancedSQLiteSession" if advanced else "SQLiteSession")
        self.file = folder / f"openai-{advanced}.db"
        more = {"create_tables": True} if advanced else {}
        self._sessions = [made(session_id=f"s{n}", db_path=str(self.file), **more) for n in range(sessions)]

    async def open(self) -> None:
        pass

    async def append(self, session: int) -> None:
        await self._sessions[session].add_items([{"role": "user", "content": TEXT}])

    async def fill(self, session: int, count: int) -> None:
        for start in range(0, count, BATCH):
            items = [{"role": "user", "content": TEXT}] * min(BATCH, count - start)
            await self._sessions[session].add_items(items)

    async def read(self, session: int) -> int:
        return len(await self._sessions[session].get_items())

    async def last(self, session: int, count: int) -> int:
        return len(await self._sessions[session].get_items(limit=count))

    async def close(self) -> None:
        for session in self._sessions:
            session.close()


class Alchemy(OpenAI):
    """SQLAlchemySession of OpenAI Agents, on an engine that all conversations share; any URL of SQLAlchemy."""

    def __init__(self, folder: Path, sessions: int, url: str = "") -> None:
        memory, engines = import_module("agents.extensions.memory"), import_module("sqlalchemy.ext.asyncio")
        self.file = folder / "alchemy.db"
        self._engine: Any = engines.create_async_engine(url or f"sqlite+aiosqlite:///{self.file}")
        made: Any = memory.SQLAlchemySession
        self._sessions = [made(f"s{n}", engine=self._engine, create_tables=True) for n in range(sessions)]

    async def open(self) -> None:
        await self._sessions[0].get_items()  # makes the tables

    async def close(self) -> None:
        await self._engine.dispose()


class Adk:
    """DatabaseSessionService of ADK; a session is an object that its events are appended to."""

    def __init__(self, folder: Path, sessions: int) -> None:
        services, self._events = import_module("google.adk.sessions"), import_module("google.adk.events")
        self._types: Any = import_module("google.genai.types")
        self._base: Any = import_module("google.adk.sessions.base_session_service")
        self.file = folder / "adk.db"
        self._service: Any = services.DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{self.file}")
        self._count = sessions
        self._sessions: list[Any] = []

    async def open(self) -> None:
        for n in range(self._count):
            made = await self._service.create_session(app_name="bench", user_id="u", session_id=f"s{n}")
            self._sessions.append(made)

    async def append(self, session: int) -> None:
        content = self._types.Content(role="user", parts=[self._types.Part(text=TEXT)])
        await self._service.append_event(self._sessions[session], self._events.Event(author="user", content=content))

    async def fill(self, session: int, count: int) -> None:
        for _ in range(count):
            await self.append(session)

    async def read(self, session: int) -> int:
        return await self._got(session, None)

    async def last(self, session: int, count: int) -> int:
        return await self._got(session, self._base.GetSessionConfig(num_recent_events=count))

    async def _got(self, session: int, config: Any) -> int:
        found = await self._service.get_session(app_name="bench", user_id="u", session_id=f"s{session}", config=config)
        return len(found.events)

    async def close(self) -> None:
        await self._service.close()


class Agno:
    """SqliteDb of Agno: a run with its one message is a row, and the session is saved with it, as an agent does."""

    def __init__(self, folder: Path, sessions: int) -> None:
        self.file = folder / "agno.db"
        self._db: Any = import_module("agno.db.sqlite").SqliteDb(db_file=str(self.file))
        self._run: Any = import_module("agno.run.agent").RunOutput
        self._message: Any = import_module("agno.models.message").Message
        self._type: Any = import_module("agno.db.base").SessionType.AGENT
        made: Any = import_module("agno.session").AgentSession
        self._sessions = [made(session_id=f"s{n}", agent_id="a") for n in range(sessions)]
        self._lengths = [0] * sessions

    async def open(self) -> None:
        for session in self._sessions:
            self._db.upsert_session(session)

    async def append(self, session: int) -> None:
        at = self._lengths[session]
        self._lengths[session] += 1
        message = self._message(role="user", content=TEXT)
        run = self._run(run_id=f"s{session}-{at}", agent_id="a", session_id=f"s{session}", messages=[message])
        self._db.upsert_run(run, session_id=f"s{session}", run_index=at)
        self._db.upsert_session(self._sessions[session])

    async def fill(self, session: int, count: int) -> None:
        for _ in range(count):
            await self.append(session)

    async def read(self, session: int) -> int:
        return self._got(session, None)

    async def last(self, session: int, count: int) -> int:
        return self._got(session, count)

    def _got(self, session: int, runs: int | None) -> int:
        found = self._db.get_session(f"s{session}", session_type=self._type, runs_limit=runs)
        return sum(len(run.messages) for run in found.runs)

    async def close(self) -> None:
        self._db.close()


class Pydantic:
    """SqliteConversationStore of Pydantic AI's harness, which takes a conversation whole."""

    def __init__(self, folder: Path, sessions: int) -> None:
        stores: Any = import_module("pydantic_ai_harness.step_persistence.conversations")
        self._messages: Any = import_module("pydantic_ai.messages")
        self.file = folder / "pydantic.db"
        self._store = stores.SqliteConversationStore(database=self.file)
        self._summaries = [stores.ConversationSummary(id=f"s{n}", workspace="w") for n in range(sessions)]
        self._said: list[list[Any]] = [[] for _ in range(sessions)]

    async def open(self) -> None:
        pass

    async def append(self, session: int) -> None:
        await self.fill(session, 1)

    async def fill(self, session: int, count: int) -> None:
        made, part = self._messages.ModelRequest, self._messages.UserPromptPart
        self._said[session] += [made(parts=[part(content=TEXT, timestamp=datetime.now(UTC))]) for _ in range(count)]
        said = self._said[session]
        self._summaries[session] = await self._store.save(summary=self._summaries[session], messages=said)

    async def read(self, session: int) -> int:
        return len((await self._store.get(conversation_id=f"s{session}")).messages)

    async def last(self, session: int, count: int) -> int:
        return min(count, await self.read(session))

    async def close(self) -> None:
        pass


PEERS: dict[str, Opener] = {
    "OpenAI SQLiteSession": partial(OpenAI, False),
    "OpenAI AdvancedSQLiteSession": partial(OpenAI, True),
    "OpenAI SQLAlchemySession": Alchemy,
    "ADK DatabaseSessionService": Adk,
    "Agno SqliteDb": Agno,
    "Pydantic AI SqliteConversationStore": Pydantic,
}
