"""Asking a MongoDB server within the deadline of the present call, and what its errors mean."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import pymongo
from pymongo.errors import (
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from holdfast.deadlines import deadline, remaining
from holdfast.errors import AccessDenied, BackendError, Busy, ConnectionFailed, HoldfastError

R = TypeVar("R")
Outcome = Literal["none", "unknown"]

LEAST_S = 0.05  # even a call that may not wait gets an answer from a server nearby
FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.1
NOT_LET_IN = 11, 18, 8000  # no such user, wrong password, either of them by Atlas
NOT_ALLOWED = 13


@contextmanager
def answering(outcome: Outcome = "none") -> Iterator[None]:
    """Bound what is asked inside by the deadline; `outcome` is what a lost connection leaves of it."""
    try:
        with pymongo.timeout(max(LEAST_S, remaining())):
            yield
    except DuplicateKeyError:
        raise
    except PyMongoError as cause:
        raise translated(cause, outcome) from cause


def translated(cause: PyMongoError, outcome: Outcome) -> HoldfastError:
    """What an error of the driver means to the caller."""
    if isinstance(cause, ServerSelectionTimeoutError):
        return ConnectionFailed(f"MongoDB cannot be reached: {cause}")
    if isinstance(cause, ConnectionFailure | WriteConcernError | ExecutionTimeout) or cause.timeout:
        return ConnectionFailed(f"MongoDB stopped answering: {cause}", outcome=outcome)
    code = cause.code if isinstance(cause, OperationFailure) else None
    if code in NOT_LET_IN:
        return AccessDenied(f"MongoDB does not let us in; check user, password and authSource in the address: {cause}")
    if code == NOT_ALLOWED:
        return AccessDenied(f"the user of the address lacks a right; grant it and repeat: {cause}")
    return BackendError(f"MongoDB failed: {cause}")


class Pauses:
    """Waits between tries, longer each time and never the same for two, up to the deadline."""

    def __init__(self) -> None:
        self._until = deadline()
        self._pause_s = FIRST_PAUSE_S

    def wait(self, reason: HoldfastError) -> None:
        """Wait a little; at the deadline raise the reason instead."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise reason
        time.sleep(min(left, random.uniform(0, self._pause_s)))
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


def patiently(work: Callable[[], R]) -> R:
    """Do what may be repeated over again while the server cannot be reached, until the deadline."""
    pauses = Pauses()
    while True:
        try:
            return work()
        except ConnectionFailed as failure:
            pauses.wait(failure)


def overtaken() -> Busy:
    """What to say at the deadline to one whom others have not let through."""
    return Busy("other writers were faster until the timeout; nothing was written. Repeat, or raise timeout=")
