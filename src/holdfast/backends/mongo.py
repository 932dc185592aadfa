"""Records and blobs in a MongoDB database, shared by any number of processes on any number of machines.

Commits are atomic without transactions: one document per namespace takes the whole batch by one conditional update,
which is the commit, and the batch is then applied to the records, by whoever finds it if its writer is gone
(see `_mongo/space.py`). So a single server without a replica set will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pymongo import MongoClient, ReadPreference
from pymongo.errors import ConfigurationError, InvalidURI, OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from holdfast.backends._mongo import blobs
from holdfast.backends._mongo.answers import answering, patiently
from holdfast.backends._mongo.commits import Commit
from holdfast.backends._mongo.documents import Document, everything, indexes
from holdfast.backends._mongo.reading import MongoReader
from holdfast.backends._mongo.space import Space
from holdfast.backends._mongo.turns import Turns
from holdfast.backends._opened import Opened
from holdfast.backends._paging import in_pages
from holdfast.contracts import Inspection, Key, Query, Rebase, Record, Sharing, Write
from holdfast.deadlines import DEFAULT_TIMEOUT_S, within
from holdfast.errors import BackendError, InvalidInput
from holdfast.kinds import Kind

DATABASE = "holdfast"
WRITES = {"full": WriteConcern(w="majority", j=True), "normal": WriteConcern(w=1)}
READS = {"full": ReadConcern("majority"), "normal": ReadConcern("local")}
SAYS = {"full": "a majority of the servers has written it to disk", "normal": "the primary has it in memory"}


class MongoStore:
    """A record store in a MongoDB database."""

    sharing: Sharing = "processes"

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "",
        timeout: float = DEFAULT_TIMEOUT_S,
        durability: Literal["full", "normal"] = "full",
        read_only: bool = False,
    ) -> None:
        self._client = _client(url)
        self._durability = durability
        self._namespace = namespace
        self._database = self._client.get_default_database(
            DATABASE,
            read_preference=ReadPreference.PRIMARY,  # what two secondaries say is not of one instant
            write_concern=WRITES[durability],
            read_concern=READS[durability],
        )
        self._records = self._database["records"]
        self._space = Space(self._database["spaces"], namespace)
        self._reader = MongoReader(self._records, namespace)
        self._turns = Turns(self._space, self._records, namespace, read_only=read_only)
        self._opened = Opened(read_only)
        try:
            with within(timeout):
                patiently(self._space.read if read_only else self._prepare)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        with answering():
            self._records.create_indexes(indexes())
            self._database["blobs"].create_indexes(list(blobs.INDEXES))
            self._database["pieces"].create_indexes([blobs.PIECE_INDEX])
        self._space.create()

    # reading

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        self._opened.to_read()
        if not keys:
            return []
        return self._turns.consistently(lambda: self._reader.get(kind, keys))

    def scan(self, query: Query) -> Iterator[Record]:
        self._opened.to_read()
        return in_pages(query, self._page)

    def _page(self, query: Query) -> list[Record]:
        self._opened.to_read()
        return self._turns.consistently(lambda: self._reader.page(query))

    def count(self, query: Query) -> int:
        self._opened.to_read()
        return self._turns.consistently(lambda: self._reader.count(query))

    # writing

    def commit(self, writes: Sequence[Write] | None, rebase: Rebase | None = None) -> Sequence[Write]:
        self._opened.to_write()
        return Commit(self._turns, self._reader, writes, rebase).carry_out()

    # the store as a whole

    def blobs(self) -> blobs.MongoBlobs:
        """The blobs of this namespace."""
        return blobs.MongoBlobs(self._database, self._namespace, self._opened)

    def inspect(self, measure: bool = False, check: bool = False) -> Inspection:
        self._opened.to_read()
        with answering():
            info = self._client.admin.command("buildInfo")
        return Inspection(
            backend="mongo",
            version=str(info["version"]),
            durability=f"{self._durability}: {SAYS[self._durability]}",
            bytes=self._turns.consistently(self._measure) if measure else None,
            problems=tuple(self._problems()) if check else (),
        )

    def _measure(self) -> int:
        pipeline: list[Document] = [
            {"$match": {"key": everything(self._namespace)}},
            {"$group": {"_id": None, "bytes": {"$sum": "$size"}}},
        ]
        with answering():
            return sum(int(row["bytes"]) for row in self._records.aggregate(pipeline))

    def _problems(self) -> Iterator[str]:
        """What the server's own check of the records finds."""
        try:
            with answering():
                found = self._database.command("validate", "records")
        except BackendError as failure:
            if not isinstance(failure.__cause__, OperationFailure):
                raise
            yield f"the server refuses to check itself: {failure.__cause__}"
            return
        if not found.get("valid", True):
            yield from map(str, found.get("errors") or ["the server calls its records invalid"])

    def close(self) -> None:
        if self._opened.close():
            self._client.close()


def _client(url: str) -> MongoClient[Document]:
    try:
        return MongoClient(url, appname="holdfast", tz_aware=True)
    except (ConfigurationError, InvalidURI, ValueError) as cause:
        raise InvalidInput(f"the address of the store is not one that MongoDB knows: {cause}") from cause


def open_url(
    url: str,
    *,
    namespace: str = "",
    timeout: float = DEFAULT_TIMEOUT_S,
    durability: Literal["full", "normal"] = "full",
    read_only: bool = False,
) -> MongoStore:
    """Open the database that the address names behind its slash, or `holdfast`."""
    return MongoStore(url, namespace=namespace, timeout=timeout, durability=durability, read_only=read_only)
