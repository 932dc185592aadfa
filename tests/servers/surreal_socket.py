"""The engine of SurrealDB's wheel behind a WebSocket: each frame of a client is handed to it as it came.

That is how a server answers its clients, except for users and sessions: all connections are in one database.
"""

from __future__ import annotations

import sys

from surrealdb._surrealdb_ext import SyncEmbeddedDB
from surrealdb.data.cbor import decode, encode
from websockets import Subprotocol
from websockets.sync.server import ServerConnection, serve


def main(port: int, url: str) -> None:
    engine = SyncEmbeddedDB(url)
    engine.connect()

    def answer(connection: ServerConnection) -> None:
        for frame in connection:
            assert isinstance(frame, bytes)
            connection.send(_answer(engine, frame))

    with serve(answer, "127.0.0.1", port, subprotocols=[Subprotocol("cbor")], max_size=None) as server:
        server.serve_forever()


def _answer(engine: SyncEmbeddedDB, frame: bytes) -> bytes:
    """What the engine answers; what it raises, as a server tells its clients of it."""
    try:
        return bytes(engine.execute(frame))
    except RuntimeError as refusal:
        return encode({"id": decode(frame)["id"], "error": {"code": -32000, "message": str(refusal)}})


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
