"""Holdfast: the memory of record for AI agents.

Names are loaded when they are first used, so that `import holdfast` costs a program nothing until then.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.aio import AsyncHoldfast, aopen
    from holdfast.appends import ROOT
    from holdfast.client import Holdfast, copy
    from holdfast.client import open as open  # not in __all__: `import *` must not hide the builtin
    from holdfast.errors import (
        AccessDenied,
        AlreadyExists,
        BackendError,
        Busy,
        Conflict,
        ConnectionFailed,
        CorruptData,
        HoldfastError,
        InFlightCall,
        IntegrityError,
        InvalidId,
        InvalidInput,
        MigrationError,
        NotFound,
        SerializationError,
        ToolFailed,
        Unsupported,
    )
    from holdfast.model import (
        Agent,
        Artifact,
        Attachment,
        Copied,
        Embedding,
        Exported,
        Imported,
        Message,
        Price,
        Progress,
        Session,
        ToolCall,
        ToolExecution,
        Usage,
    )
    from holdfast.providers import to_chat

__all__ = [
    "ROOT",
    "AccessDenied",
    "Agent",
    "AlreadyExists",
    "Artifact",
    "AsyncHoldfast",
    "Attachment",
    "BackendError",
    "Busy",
    "Conflict",
    "ConnectionFailed",
    "Copied",
    "CorruptData",
    "Embedding",
    "Exported",
    "Holdfast",
    "HoldfastError",
    "Imported",
    "InFlightCall",
    "IntegrityError",
    "InvalidId",
    "InvalidInput",
    "Message",
    "MigrationError",
    "NotFound",
    "Price",
    "Progress",
    "SerializationError",
    "Session",
    "ToolCall",
    "ToolExecution",
    "ToolFailed",
    "Unsupported",
    "Usage",
    "aopen",
    "copy",
    "to_chat",
]

_HOMES = ("errors", "model", "providers", "client", "aio", "appends")


if not TYPE_CHECKING:  # or a type checker would believe in any name

    def __getattr__(name: str) -> object:
        for home in _HOMES if name in (*__all__, "open") else ():
            module = import_module(f"holdfast.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "open"})
