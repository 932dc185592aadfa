"""The line to the server: calls that end at the deadline, sent again when a connection breaks, errors translated.

Everything sent here may be sent twice: reads, pieces under names of their own, and commits that carry a number by which
the server knows them again.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.backends._addresses import parts_of
from holdfast.backends._redis.scripts import Script
from holdfast.deadlines import deadline
from holdfast.errors import AccessDenied, BackendError, Busy, ConnectionFailed, HoldfastError, InvalidInput

Command: TypeAlias = tuple[bytes | str | int, ...]
PATIENCE_S = 10.0  # how long a server may be away before a call gives up
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.2
CONNECT_S = 5.0
_NO_RIGHT = re.compile("NOPERM|ACL failure")  # the latter from inside of a script
LAST_LOOK_S = 0.5  # for a read that begins at the limit: whoever waits for something looks once more before giving up


class Line:
    """Connections to one server, one for each call that is under way."""

    def __init__(self, url: str, timeout: float) -> None:
        self._timeout = timeout
        _check(url)
        self.pool: Any  # the driver's connections are not typed
        self.waits_for_disk = False
        try:
            self.pool = redis.ConnectionPool.from_url(
                "redis:" + url.removeprefix("valkey:") if url.startswith("valkey:") else url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_connect_timeout=min(timeout, CONNECT_S),
                socket_timeout=timeout,
                socket_keepalive=True,
            )
        except (ValueError, TypeError) as cause:
            raise InvalidInput(f"{_shown(url)!r} is no address of a server: {cause}") from cause

    def close(self) -> None:
        """Give the connections back."""
        self.pool.disconnect()

    def ask(self, command: Command, *more: Command, patience_s: float = PATIENCE_S, writes: bool = False) -> list[Any]:
        """Send commands in one go and return what the server says to each, an error among it if it refused one.

        While there is no connection it is tried again, up to the deadline or for as long as patience lasts.
        """
        began = time.monotonic()
        until = min(deadline(self._timeout), began + self._timeout)
        if not writes:
            until = max(until, began + LAST_LOOK_S)
        attempt = _Attempt(self.pool, (command, *more))
        pause, patience = FIRST_PAUSE_S, None
        while True:
            if until <= time.monotonic():
                raise attempt.given_up(writes)
            try:
                return attempt.once(until)
            except redis.AuthenticationError as cause:
                raise attempt.refused(cause, writes) from cause
            except redis.ResponseError as cause:  # to how the connection began: those to commands are answers
                refusal = AccessDenied if isinstance(cause, redis.exceptions.NoPermissionError) else BackendError
                raise refusal(f"the server refuses what the address asks for: {cause}") from cause
            except (redis.ConnectionError, redis.TimeoutError) as cause:
                attempt.failure = cause
            present = time.monotonic()
            patience = patience or present + patience_s
            if min(patience, until) <= present:
                raise attempt.given_up(writes)
            time.sleep(min(random.uniform(0, pause), max(0.0, until - present)))
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def run(
        self,
        script: Script,
        keys: Sequence[bytes],
        args: Sequence[bytes | str | int],
        *,
        writes: bool = False,
        durably: bool = False,
    ) -> Any:
        """What a script returns, its error raised; `durably` waits for the disk where that has to be asked for."""
        rest: Command = (len(keys), *keys, *args)
        waits = (("WAITAOF", 1, 0, self._left_ms()),) if durably and self.waits_for_disk else ()
        answers = self.ask(("EVALSHA", script.sha, *rest), *waits, writes=writes or durably)
        if isinstance(answers[0], redis.exceptions.NoScriptError):
            answers = self.ask(("EVAL", script.text, *rest), *waits, writes=writes or durably)
        if waits and _checked(answers[1])[0] < 1:
            raise ConnectionFailed("the server has written it, but has not synced it to its disk in time", "unknown")
        return _checked(answers[0])

    def _left_ms(self) -> int:
        return max(1, int((deadline(self._timeout) - time.monotonic()) * 1000))

    def say(self, *command: bytes | str | int) -> Any:
        """What the server says to one command; its error is raised."""
        return _checked(self.ask(command)[0])


class _Attempt:
    """Commands on their way: whether they have ever been sent, and what went wrong last."""

    def __init__(self, pool: Any, commands: Sequence[Command]) -> None:
        self._pool = pool
        self._commands = commands
        self._sent = False
        self.failure: Exception | None = None

    def once(self, until: float) -> list[Any]:
        """Send them on some connection and read every answer; what is left unread takes the connection with it."""
        connection = self._pool.get_connection()
        try:
            self._sent = True
            connection.send_packed_command(connection.pack_commands(self._commands))
            answers = [_read(connection, until) for _ in self._commands]
            for answer in answers:
                if isinstance(answer, redis.exceptions.BusyLoadingError):
                    raise answer
            return answers
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def refused(self, cause: Exception, writes: bool) -> HoldfastError:
        """The error for one who is not let in; what was sent before a connection broke may have been carried out."""
        said = f"the server does not let us in; check the user and the password of the address: {cause}"
        if self.failure is not None and self._sent and writes:
            return ConnectionFailed(f"{said}; an earlier try may have been carried out", "unknown")
        return AccessDenied(said)

    def given_up(self, writes: bool) -> HoldfastError:
        """The error for whoever waits no longer."""
        if self.failure is None:
            return Busy("the timeout ran out before the server was asked; nothing was written")
        outcome: Literal["none", "unknown"] = "unknown" if self._sent and writes else "none"
        error = ConnectionFailed(f"the server does not answer: {self.failure}. Repeat once it is there", outcome)
        error.__cause__ = self.failure
        return error


def _read(connection: Any, until: float) -> Any:
    try:
        return connection.read_response(timeout=max(0.001, until - time.monotonic()))
    except redis.exceptions.BusyLoadingError:
        raise
    except redis.ResponseError as refusal:
        return refusal


def _checked(answer: Any) -> Any:
    if not isinstance(answer, redis.ResponseError):
        return answer
    said = str(answer)
    if isinstance(answer, redis.exceptions.OutOfMemoryError) or said.startswith("OOM"):
        raise BackendError(f"the server's memory is full, nothing was written; raise maxmemory: {said}") from answer
    if isinstance(answer, redis.exceptions.NoPermissionError) or _NO_RIGHT.search(said):
        raise AccessDenied(f"the user of the address lacks a right; grant it and repeat: {said}") from answer
    if said.startswith("BUSY"):
        raise Busy(f"the server is busy with a long script; nothing was written. Repeat: {said}") from answer
    if isinstance(answer, redis.exceptions.ReadOnlyError) or "READONLY" in said:
        raise ConnectionFailed(f"this server is a replica; give the address of its primary: {said}") from answer
    raise BackendError(f"the server refused a command: {said}") from answer


def _check(url: str) -> None:
    """InvalidInput if the address is none; the driver takes what is no number for database 0."""
    if not re.fullmatch("/?[0-9]*", parts_of(url).path):
        raise InvalidInput("databases of a server have numbers; write redis://host:6379/0")


def _shown(url: str) -> str:
    """An address without what may be a password: its user and its options."""
    parts = parts_of(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
