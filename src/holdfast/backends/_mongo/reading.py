"""Reading documents as records, with no promise that they are of one instant: that is for whoever asks to check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pymongo.collection import Collection

from holdfast.backends._mongo.answers import answering
from holdfast.backends._mongo.documents import Document, condition, ordering, place_of, record_of
from holdfast.backends._paging import in_pages
from holdfast.contracts import Key, Query, Record
from holdfast.kinds import Kind

SOME = 500  # keys that one question names


class MongoReader:
    """Reads what the documents say now; inside a commit it is handed to `rebase`."""

    def __init__(self, records: Collection[Document], namespace: str) -> None:
        self._records = records
        self.namespace = namespace

    def get(self, kind: Kind, keys: Sequence[Key]) -> list[Record | None]:
        places = [place_of(self.namespace, kind, key) for key in keys]
        found = self.at(dict.fromkeys(places, kind))
        return [found.get(place) for place in places]

    def at(self, places: dict[str, Kind]) -> dict[str, Record]:
        """The records at these places, of whichever kinds."""
        names, found = list(places), {}
        for start in range(0, len(names), SOME):
            for one in self._found({"_id": _any_of(names[start : start + SOME])}):
                if "key" in one:  # else it is a tombstone
                    found[one["_id"]] = record_of(places[one["_id"]], one)
        return found

    def claimed(self, claims: dict[str, Kind]) -> dict[str, Record]:
        """The records that have these unique values."""
        names, found = list(claims), {}
        for start in range(0, len(names), SOME):
            for one in self._found({"claim": _any_of(names[start : start + SOME])}):
                found[one["claim"]] = record_of(claims[one["claim"]], one)
        return found

    def scan(self, query: Query) -> Iterator[Record]:
        return in_pages(query, self.page)

    def page(self, query: Query) -> list[Record]:
        """Everything that matches, up to the limit."""
        if query.limit == 0:
            return []
        wanted = condition(self.namespace, query)
        with answering():
            cursor = self._records.find(wanted, sort=ordering(query), limit=query.limit or 0)
            return [record_of(query.kind, one) for one in cursor]

    def count(self, query: Query) -> int:
        with answering():
            found = self._records.count_documents(condition(self.namespace, query))
        return found if query.limit is None else min(found, query.limit)

    def _found(self, wanted: Document) -> Iterable[Document]:
        with answering():
            return list(self._records.find(wanted))


def _any_of(names: list[str]) -> object:
    return names[0] if len(names) == 1 else {"$in": names}
