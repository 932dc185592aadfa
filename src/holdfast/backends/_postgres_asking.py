"""Statements that answer yes or no, or write rows or none, sent below the driver's cursors: one trip, one transaction.

A cursor takes a good quarter of the processor time that a commit takes on this side, and many agents lack nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg import generators
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from holdfast.backends._sql_reading import Statement

MOST_PREPARED = 100  # that one connection keeps at the server; others are sent as text each time

Dumped: TypeAlias = tuple[str, Sequence[Buffer | None], Sequence[int] | None]


class Asking:
    """Asks on one connection, and knows what it has prepared there; how long it waits is the connection's matter."""

    def __init__(self, con: psycopg.Connection[Any], *, prepare: bool) -> None:
        self._con = con
        self._most = MOST_PREPARED if prepare else 0
        self._transformer = Transformer(con)
        self._prepared: dict[str, bytes] = {}
        self._own = os.urandom(6).hex()  # so that no other client's statement can be taken for ours
        self._names = 0

    def __call__(self, statements: Sequence[Statement]) -> list[bool]:
        """What each answers, in one transaction; an error of one is raised, and then none has done anything."""
        dumped = [self._dumped(*statement) for statement in statements]  # which may fail, so before anything is sent
        try:
            return self._asked(dumped)
        except InvalidSqlStatementName:  # the server was told to forget what is prepared, by a pooler or by the driver
            self._prepared.clear()
            return self._asked(dumped)

    def _asked(self, statements: Sequence[Dumped]) -> list[bool]:
        if len(statements) > 1 or statements[0][0] not in self._prepared:
            return self._ask_together(statements)
        text, values, formats = statements[0]
        pgconn = self._con.pgconn
        pgconn.send_query_prepared(self._prepared[text], values, formats)
        # What has gone out whole need not be waited for once more.
        going = generators.execute if pgconn.flush() else generators.fetch_many
        return [_answer(one) for one in self._con.wait(going(pgconn))]

    def _dumped(self, text: str, values: Sequence[Any]) -> Dumped:
        to = self._transformer
        return text, to.dump_sequence(values, [PyFormat.AUTO] * len(values)), to.formats

    def _ask_together(self, statements: Sequence[Dumped]) -> list[bool]:
        pgconn = self._con.pgconn
        names: dict[str, bytes] = {}
        pgconn.enter_pipeline_mode()
        for text, values, formats in statements:
            name = self._prepared.get(text) or names.get(text)
            if name is None and len(self._prepared) + len(names) < self._most:
                name = names[text] = self._new_name()
                pgconn.send_prepare(name, _numbered(text))
            if name is None:
                pgconn.send_query_params(_numbered(text), values, None, formats)
            else:
                pgconn.send_query_prepared(name, values, formats)
        pgconn.pipeline_sync()
        found = self._con.wait(_up_to_sync(pgconn, len(statements) + len(names)))
        pgconn.exit_pipeline_mode()
        answers = [_answer(one) for one in found if not _is_prepared(one)]
        self._prepared |= names
        return answers

    def _new_name(self) -> bytes:
        """One that was never used: whether a statement of a failed trip is there is not known."""
        self._names += 1
        return f"holdfast_{self._own}_{self._names}".encode()


def _up_to_sync(pgconn: PGconn, expected: int) -> PQGen[list[PGresult]]:
    """All results of a transaction; its end may add an error to those that are expected."""
    yield from generators.send(pgconn)
    found: list[PGresult] = []
    for _ in range(expected + 2):
        results = yield from generators.fetch_many(pgconn)
        if results and results[0].status == ExecStatus.PIPELINE_SYNC:
            return found
        found += results
    raise psycopg.OperationalError("the server has not said how the transaction ended")


def _is_prepared(result: PGresult) -> bool:
    """Whether it only says that a statement was prepared."""
    return result.status == ExecStatus.COMMAND_OK and result.command_tuples is None


def _answer(result: PGresult) -> bool:
    """What a statement has answered, or whether it has written a row."""
    if result.status == ExecStatus.COMMAND_OK:
        return bool(result.command_tuples)
    if result.status != ExecStatus.TUPLES_OK:
        raise error_from_result(result)
    return result.get_value(0, 0) == b"t"


@lru_cache(maxsize=1000)
def _numbered(text: str) -> bytes:
    """A statement with its parameters as the server has them."""
    first, *rest = text.split("%s")
    return "".join([first, *(f"${number}{part}" for number, part in enumerate(rest, 1))]).encode()
