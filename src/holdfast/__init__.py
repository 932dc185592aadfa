"""Holdfast: the memory of record for AI agents."""

from holdfast.aio import AsyncHoldfast, aopen
from holdfast.appends import ROOT
from holdfast.client import Holdfast
from holdfast.client import open as open  # not in __all__: `import *` must not hide the builtin
from holdfast.errors import (
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
    Embedding,
    Message,
    Price,
    Session,
    ToolCall,
    ToolExecution,
    Usage,
)

__all__ = [
    "ROOT",
    "Agent",
    "AlreadyExists",
    "Artifact",
    "AsyncHoldfast",
    "Attachment",
    "BackendError",
    "Busy",
    "Conflict",
    "ConnectionFailed",
    "CorruptData",
    "Embedding",
    "Holdfast",
    "HoldfastError",
    "InFlightCall",
    "IntegrityError",
    "InvalidId",
    "InvalidInput",
    "Message",
    "MigrationError",
    "NotFound",
    "Price",
    "SerializationError",
    "Session",
    "ToolCall",
    "ToolExecution",
    "ToolFailed",
    "Unsupported",
    "Usage",
    "aopen",
]
