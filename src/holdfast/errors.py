"""Everything Holdfast raises on purpose.

HoldfastError
├── NotFound            what must exist does not
├── AlreadyExists       the id is taken by other content
├── Conflict            somebody else changed it first
│   └── InFlightCall    … or it may or may not have happened, and the caller must decide
├── Busy                held by another for longer than the timeout; nothing was written
├── InvalidInput        the caller's value cannot be stored
│   └── InvalidId       … because it is no usable id
├── SerializationError  the value has no canonical form
├── IntegrityError      stored bytes do not match their checksum or chain
├── CorruptData         stored bytes match, but do not say anything we can read
├── ConnectionFailed    the backend could not be reached, or stopped answering
├── MigrationError      the store was written by a version this one cannot read
├── Unsupported         this backend, or this way of opening it, cannot do that
├── BackendError        the backend failed in a way of its own
│   └── AccessDenied    … it refuses the credentials, or they lack a right
└── ToolFailed          a tool or a model call of a run failed, now or on record

`retry` says whether the same call may succeed later without any change.
"""

from __future__ import annotations

from typing import ClassVar, Literal


class HoldfastError(Exception):
    """The root of every error raised by Holdfast."""

    retry: ClassVar[bool] = False


class NotFound(HoldfastError):
    """What must exist does not."""


class AlreadyExists(HoldfastError):
    """The id is taken by other content; `present` is what is there, where the store knows it."""

    def __init__(self, message: str, present: object = None) -> None:
        super().__init__(message)
        self.present = present


class Conflict(HoldfastError):
    """Somebody else changed it first; read again, decide again, write again."""


class InFlightCall(Conflict):
    """A call was begun and never ended: it may or may not have had its effect. `call` says which."""

    def __init__(self, message: str, call: object) -> None:
        super().__init__(message)
        self.call = call


class Busy(HoldfastError):
    """Held by another for longer than the timeout; nothing was written."""

    retry = True


class InvalidInput(HoldfastError):
    """The caller's value cannot be stored."""


class InvalidId(InvalidInput):
    """The caller's id cannot be used."""


class SerializationError(HoldfastError):
    """The value has no canonical form."""


class IntegrityError(HoldfastError):
    """Stored bytes do not match their checksum or their chain."""


class CorruptData(HoldfastError):
    """Stored bytes are whole, but a field says something no reader may guess at."""


class ConnectionFailed(HoldfastError):
    """The backend could not be reached or stopped answering.

    With outcome "unknown" the write may or may not have happened; repeating it with the same ids is safe.
    """

    retry = True

    def __init__(self, message: str, outcome: Literal["none", "unknown"] = "none") -> None:
        super().__init__(message)
        self.outcome = outcome


class MigrationError(HoldfastError):
    """The store was written by a version this one cannot read."""


class Unsupported(HoldfastError):
    """This backend, or this way of opening it, cannot do that."""


class BackendError(HoldfastError):
    """The backend failed in a way of its own; the cause is attached."""


class AccessDenied(BackendError):
    """The backend refuses the credentials it was given, or they lack a right; only changing that helps."""


class ToolFailed(HoldfastError):
    """A tool or a model call of a run failed; a replay fails in the same way, without calling it again.

    `kind` is the name of the exception it raised, which is the cause where it has just been raised; `call` tells
    the call from others.
    """

    def __init__(self, message: str, kind: str = "", call: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.call = call
