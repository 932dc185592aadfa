"""First tries of commits: those that wait for each other share one trip, one transaction and one sync.

They wait for no row that another holds, so nobody is held up by what his neighbours meet: a try that is refused, or
whose trip failed, is followed up by whoever wanted it, and a submitted one by a thread of its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeAlias

from holdfast.backends._group import GroupCommit, Request, expired
from holdfast.backends._insist import Commit, Outcome, Tries
from holdfast.backends._postgres_hasty import is_append
from holdfast.contracts import Planned, Rebase, Write
from holdfast.deadlines import deadline, within
from holdfast.errors import ConnectionFailed, HoldfastError

PATIENCE_S = 0.5  # for a trip, after which the next begins beside it: its connection may have gone silent
FOLLOWERS = 64  # threads at most, for submitted commits whose first try was not the last

Trip: TypeAlias = Callable[[Sequence[Sequence[Write]]], list[Outcome]]


class Refused(Exception):
    """A first try has answered that it did not fit; nothing was written."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


Failure: TypeAlias = Refused | HoldfastError


class FirstTries:
    """The queue in front of a store's first tries.

    A `trip` carries out appends, each wholly or not at all. An error of it says that none was carried out, but for
    ConnectionFailed, which says itself what is known.
    """

    def __init__(self, trip: Trip, tries: Tries, timeout: float) -> None:
        self._trip = trip
        self._timeout = timeout
        self._tries = tries
        self._group = GroupCommit(self._alone, self._together, timeout, PATIENCE_S)
        self._followers = ThreadPoolExecutor(FOLLOWERS, "holdfast-commit")

    def commit(self, writes: Sequence[Write], rebase: Rebase | None) -> Sequence[Write]:
        """Carry out a commit to its end, the first try with those of others that wait at the same time."""
        try:
            return self._group.commit(writes, None)
        except (Refused, HoldfastError) as failure:
            return Commit(_Tried(self._tries, failure), writes, rebase).carry_out(deadline(self._timeout))

    def write(self, writes: Sequence[Write]) -> Outcome:
        """Try a commit, with those of others that wait at the same time."""
        try:
            self._group.commit(writes, None)
        except Refused as refusal:
            return refusal.outcome
        return "done"

    def submit(self, plans: Sequence[Planned]) -> list[Future[Sequence[Write]]]:
        """Carry out commits to their ends, without a thread of the caller's."""
        tried = iter(self._group.submit([plan for plan in plans if _is_append(plan)]))
        return [next(tried) if _is_append(plan) else self._carry_out(plan) for plan in plans]

    def _carry_out(self, plan: Planned) -> Future[Sequence[Write]]:
        return self._followers.submit(_carried_out, Commit(self._tries, plan.writes, plan.rebase), plan.until)

    def close(self) -> None:
        """Carry out what was submitted and stop."""
        self._group.close(lambda: None)
        self._followers.shutdown()

    def _alone(self, writes: Sequence[Write] | None, _: Rebase | None) -> Sequence[Write]:
        assert writes is not None
        (outcome,) = self._trip([writes])
        if outcome != "done":
            raise Refused(outcome)
        return writes

    def _together(self, batch: list[Request]) -> None:
        """Carry a trip out on a thread of its own, which may take longer than others should wait."""
        try:
            going = self._followers.submit(self._carry, batch)
        except RuntimeError:  # there are no more threads, or Python is about to end
            self._carry(batch)
        else:
            for request in batch:
                request.elsewhere = True
            wait([going], PATIENCE_S)

    def _carry(self, batch: list[Request]) -> None:
        waiting = deque(sorted((one for one in batch if not _gave_up(one)), key=lambda one: one.deadline))
        try:
            for failure in self._tried(list(waiting)):
                self._answer(waiting.popleft(), failure)
        except BaseException as cause:  # whatever it is, the thread that serves all must not die of it
            for request in waiting:
                self._answer(request, ConnectionFailed(f"a shared trip was broken off: {cause!r}", outcome="unknown"))
            if not isinstance(cause, Exception):
                raise

    def _tried(self, batch: list[Request]) -> Iterator[Failure | None]:
        """How each came out, in order."""
        if not batch:
            return
        try:
            with within(min(request.deadline for request in batch) - time.monotonic()):
                outcomes = self._trip([request.writes or () for request in batch])
        except ConnectionFailed as failure:
            yield from (type(failure)(str(failure), outcome=failure.outcome) for _ in batch)
        except HoldfastError:  # one of them has failed them all, or has reached its limit
            yield from map(self._tried_alone, batch)
        else:
            yield from (None if outcome == "done" else Refused(outcome) for outcome in outcomes)

    def _tried_alone(self, request: Request) -> Failure | None:
        try:
            with within(request.deadline - time.monotonic()):
                self._alone(request.writes, None)
        except (Refused, HoldfastError) as failure:
            return failure
        return None

    def _answer(self, request: Request, failure: Failure | None) -> None:
        """Tell how a try came out; whoever has submitted it hears how its commit did."""
        if failure is None:
            request.finish(request.writes or ())
        elif request.future is None:
            request.finish(error=failure)
        else:
            try:
                self._followers.submit(self._follow_up, request, failure)
            except RuntimeError:  # as above; by itself, which takes longer
                self._follow_up(request, failure)

    def _follow_up(self, request: Request, failure: Failure) -> None:
        try:
            commit = Commit(_Tried(self._tries, failure), request.writes, request.rebase)
            request.finish(_carried_out(commit, request.deadline))
        except BaseException as cause:  # noqa: BLE001 — whatever it is, it is the caller's
            request.finish(error=cause)


def _is_append(plan: Planned) -> bool:
    return plan.writes is not None and is_append(plan.writes)


def _gave_up(request: Request) -> bool:
    """Answer a request that has waited past its limit: with it, the others' trip would be late before it began."""
    late = request.deadline <= time.monotonic()
    if late:
        request.finish(error=expired())
    return late


def _carried_out(commit: Commit, until: float) -> Sequence[Write]:
    with within(until - time.monotonic()):
        return commit.carry_out(until)


class _Tried:
    """The tries of a commit whose first one has been made."""

    def __init__(self, tries: Tries, failure: Failure) -> None:
        self._failure: Failure | None = failure
        self._tries = tries
        self.plan = tries.plan

    def write(self, writes: Sequence[Write]) -> Outcome:
        failure, self._failure = self._failure, None
        if failure is None:
            return self._tries.write(writes)
        if isinstance(failure, Refused):
            return failure.outcome
        raise failure
