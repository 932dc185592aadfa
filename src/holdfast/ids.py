"""Ids and the clock. Both can be replaced: `holdfast.open(..., clock=…)`."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from uuid_utils import uuid7

from holdfast.errors import CorruptData, InvalidId, InvalidInput

Clock = Callable[[], datetime]

MAX_ID = 255
_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = 2**33 * 1_000_000  # up to here, in 2242, seconds as a float tell every microsecond apart
_from_seconds = datetime.fromtimestamp


def new_id() -> str:
    """A new UUIDv7: unique everywhere, and later ones sort after earlier ones."""
    return str(uuid7())


def new_uid() -> str:
    """A name for what people do not name, half as long as an id, since checkpoints repeat it.

    Those of a later millisecond sort after. Of a UUIDv7 it has the time, ten bits of what counts within a millisecond,
    and the 32 bits of chance: what counts goes on in a forked process as in its parent, and chance is drawn anew there.
    """
    whole = uuid7().int
    value = whole >> 80 << 42 | (whole >> 32 & 0x3FF) << 32 | whole & 0xFFFFFFFF
    return "".join(_DIGITS[value >> shift & 31] for shift in range(85, -1, -5))


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


def check_id(value: object, what: str) -> str:
    """The id itself, or InvalidId: 1 to 255 characters, no control characters, valid Unicode."""
    if type(value) is str and 0 < len(value) <= MAX_ID and value.isprintable():
        return value
    if not isinstance(value, str):
        hint = "; give its .id" if isinstance(getattr(value, "id", None), str) else ""
        raise InvalidId(f"{what} must be a string, not {type(value).__name__}{hint}")
    if not 0 < len(value) <= MAX_ID:
        raise InvalidId(f"{what} must have 1 to {MAX_ID} characters, not {len(value)}")
    if _CONTROL.search(value):
        raise InvalidId(f"{what} {value!r} has a control character; leave it out")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as cause:
            raise InvalidId(f"{what} {value!r} is not valid Unicode (a lone surrogate)") from cause
    return value


def check_whole(value: object, what: str) -> int:
    """The number itself, or InvalidInput if it is no whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"{what} is a whole number, not {value!r}")
    return value


def check_count(value: object, what: str) -> int:
    """The number itself, or InvalidInput if nothing can be counted so."""
    count = check_whole(value, what)
    if not 0 <= count < 2**31:
        raise InvalidInput(f"{what} is a whole number from 0 to {2**31 - 1}, not {value!r}")
    return count


def micros(moment: datetime, what: str = "time") -> int:
    """Whole microseconds since 1970 in UTC; a time without a zone is InvalidInput."""
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{what} is a datetime, not {type(moment).__name__}")
    if moment.tzinfo is None:
        raise InvalidInput(f"{what} {moment} has no time zone; give it one, as in datetime.now(UTC)")
    return (moment - EPOCH) // _MICROSECOND


def moment(micros_utc: int) -> datetime:
    """The time that `micros` counted."""
    if 0 <= micros_utc < _EXACT:
        return _from_seconds(micros_utc / 1_000_000, UTC)
    try:
        return EPOCH + timedelta(microseconds=micros_utc)
    except OverflowError as cause:
        raise CorruptData(
            f"{micros_utc} is no time: it counts microseconds, and lies outside of the calendar"
        ) from cause


class Stamps:
    """Write times in microseconds that never repeat or go back within one client, whatever its clock does."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def next(self, after: int = 0) -> int:
        """The clock's time, but later than `after` and than the stamps given before."""
        clock = self._clock
        present = time.time_ns() // 1000 if clock is None else micros(clock(), "the clock's time")
        with self._lock:
            if present <= self._last:
                present = self._last + 1
            self._last = present
        return present if present > after else after + 1
