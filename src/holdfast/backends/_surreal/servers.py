"""An engine at a server, over a WebSocket that is opened again after it broke.

The driver waits for answers without end, so its socket is given one whose waits end with the present call.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from surrealdb.connections.blocking_ws import BlockingWsSurrealConnection
from surrealdb.errors import NotAllowedError, SurrealError
from websockets import Subprotocol
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from holdfast.backends._addresses import parts_of
from holdfast.backends._surreal.engine import Engine
from holdfast.contracts import Sharing
from holdfast.deadlines import deadline
from holdfast.errors import AccessDenied, BackendError, ConnectionFailed, InvalidInput

CLOSE_S = 1.0
_NOT_LET_IN = "problem with authentication"  # from a server that has no code for it


class Socket:
    """What the driver talks through; TimeoutError at the deadline of the present call."""

    def __init__(self, url: str, limit_s: float) -> None:
        self._limit_s = limit_s
        self._socket: ClientConnection = connect(
            url,
            max_size=None,
            subprotocols=[Subprotocol("cbor")],
            open_timeout=self._left(),
            close_timeout=CLOSE_S,
        )

    def _left(self) -> float:
        return max(0.001, deadline(self._limit_s) - time.monotonic())

    def send(self, frame: bytes) -> None:
        """Send a question."""
        self._socket.send(frame)

    def recv(self) -> bytes | str:
        """The answer to it."""
        return self._socket.recv(timeout=self._left())

    def close(self) -> None:
        """End the connection, for which the server has a moment."""
        self._socket.close()


class Server(Engine):
    """A database of a server, such as `ws://user:secret@host:8000/namespace/database`."""

    sharing: Sharing = "processes"

    def __init__(self, url: str, read_only: bool, limit_s: float) -> None:
        super().__init__()
        self._limit_s = limit_s
        parts = parts_of(url)
        if not parts.hostname:
            raise InvalidInput(
                f"the address names no server; write {parts.scheme}://user:secret@host:8000/namespace/database"
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
            self._drop(connection)
            raise ConnectionFailed(f"the connection to {self.name} broke: {cause or 'no answer in time'}") from cause
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

    def _drop(self, connection: BlockingWsSurrealConnection) -> None:
        """Use a connection no more: what it says late would be taken for an answer to something else."""
        with self._connecting:
            if self._connection is connection:
                self._connection = None
        with suppress(OSError, WebSocketException):
            connection.close()

    def _connect(self) -> BlockingWsSurrealConnection:
        connection = BlockingWsSurrealConnection(self.name)
        try:
            connection.socket = Socket(connection.raw_url, self._limit_s)  # type: ignore[assignment]
            if self._user is not None:
                connection.signin({"username": self._user[0], "password": self._user[1]})
            connection.use(self._space, self._database)
        except (OSError, WebSocketException) as cause:
            connection.close()
            raise ConnectionFailed(f"{self.name} cannot be reached: {cause or 'no answer in time'}") from cause
        except SurrealError as cause:
            connection.close()
            raise self._refused(cause) from cause
        return connection

    def _refused(self, cause: SurrealError) -> BackendError:
        if isinstance(cause, NotAllowedError) or _NOT_LET_IN in str(cause):
            return AccessDenied(
                f"{self.name} does not let us in; check the user and the password of the address: {cause}"
            )
        return BackendError(f"{self.name} failed: {cause}")

    def version(self) -> str:
        return self._connected().version()

    def close(self) -> None:
        """Give the connection back."""
        with self.writing:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
