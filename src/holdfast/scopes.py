"""A scope around a risky operation: a checkpoint at its beginning, and a way back."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from holdfast.errors import InvalidInput
from holdfast.model import Checkpoint, Restored
from holdfast.threads import to_thread


class Scope:
    """`with hf.checkpoints.before("deleting files", session_id=…) as scope:`; also with `async with`."""

    def __init__(
        self, take: Callable[[], Checkpoint], restore: Callable[[str], Restored], rollback_on_error: bool
    ) -> None:
        self._take = take
        self._restore = restore
        self._rollback_on_error = rollback_on_error
        self._checkpoint: Checkpoint | None = None
        self.restored: Restored | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint taken at the beginning."""
        if self._checkpoint is None:
            raise InvalidInput("the scope has not begun; use it as `with … as scope:`")
        return self._checkpoint

    def rollback(self) -> Restored:
        """Go back to the beginning of the scope; a second call changes nothing more."""
        if self.restored is None:
            self.restored = self._restore(self.checkpoint.id)
        return self.restored

    def __enter__(self) -> Scope:
        self._checkpoint = self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._rollback_on_error:
            self.rollback()

    async def arollback(self) -> Restored:
        """`rollback`, awaited."""
        return await to_thread(self.rollback)

    async def __aenter__(self) -> Scope:
        return await to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_thread(self.__exit__, kind, error, trace)
