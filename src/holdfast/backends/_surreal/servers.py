"""An engine at a server, over a WebSocket that is opened again after it broke."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import unquote, urlsplit

from surrealdb.connections.blocking_ws import BlockingWsSurrealConnection
from surrealdb.errors import SurrealError
from websockets.exceptions import WebSocketException

from holdfast.backends._surreal.engine import Engine
from holdfast.contracts import Sharing
from holdfast.errors import BackendError, ConnectionFailed, InvalidInput


class Server(Engine):
    """A database of a server, such as `ws://user:secret@host:8000/namespace/database`."""

    sharing: Sharing = "processes"

    def __init__(self, url: str, read_only: bool) -> None:
        super().__init__()
        parts = urlsplit(url)
        if not parts.hostname:
            raise InvalidInput(
                f"{url!r} names no server; write {parts.scheme}://user:secret@host:8000/namespace/database"
            )
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._user = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        path = [unquote(part) for part in parts.path.split("/") if part]
        self._space, self._database = [*path, *["holdfast"] * 2][:2]
        self._connection: BlockingWsSurrealConnection | None = None
        self._connecting = threading.Lock()
        self.prepare(read_only)

    def send(self, text: str, variables: dict[str, Any]) -> dict[str, Any]:
        connection = self._connected()
        try:
            return connection.query_raw(text, variables)
        except (OSError, WebSocketException) as cause:
            self._connection = None
            raise ConnectionFailed(f"the connection to {self.name} broke: {cause}") from cause
        except SurrealError as cause:
            raise BackendError(f"SurrealDB failed: {cause}") from cause

    def rows(self, text: str, variables: dict[str, Any] | None = None) -> list[Any]:
        try:
            return super().rows(text, variables)
        except ConnectionFailed:
            return super().rows(text, variables)  # on a new connection: what only reads may be repeated

    def _connected(self) -> BlockingWsSurrealConnection:
        with self._connecting:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection

    def _connect(self) -> BlockingWsSurrealConnection:
        connection = BlockingWsSurrealConnection(self.name)
        try:
            if self._user is not None:
                connection.signin({"username": self._user[0], "password": self._user[1]})
            connection.use(self._space, self._database)
        except (OSError, WebSocketException) as cause:
            raise ConnectionFailed(f"{self.name} cannot be reached: {cause}") from cause
        except SurrealError as cause:
            raise BackendError(f"{self.name} does not let us in: {cause}") from cause
        return connection

    def version(self) -> str:
        return self._connected().version()

    def close(self) -> None:
        """Give the connection back."""
        with self.writing:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
