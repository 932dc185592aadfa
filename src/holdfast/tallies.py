"""What a session comes to: its messages, its tool calls, its tokens."""

from __future__ import annotations

from holdfast import history
from holdfast.branching import Branching
from holdfast.commits import get
from holdfast.contracts import Reader
from holdfast.execution_records import tally
from holdfast.history import Pointer
from holdfast.ids import check_id
from holdfast.kinds import SESSIONS
from holdfast.model import SessionStats
from holdfast.usage_records import spent_in, tokens_of


class Tallies(Branching):
    """The figures of sessions."""

    def stats(self, session_id: str, *, timeout: float | None = None) -> SessionStats:
        """What a session comes to, on all its branches; zeros for an unknown session."""
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            if seen is None:
                return SessionStats()
            calls = tally(self._store, seen.pointer.uid)
            spent = list(spent_in(self._store, seen.pointer))
            return SessionStats(
                messages=_messages(self._store, seen.pointer),
                tool_calls=calls.calls,
                succeeded=calls.succeeded,
                failed=calls.failed,
                input_tokens=sum(usage.input for usage in spent),
                output_tokens=sum(usage.output for usage in spent),
                total_tokens=sum(map(tokens_of, spent)),
                average_tool_ms=calls.ms // calls.calls if calls.calls else 0,
            )


def _messages(reader: Reader, pointer: Pointer) -> int:
    """How many messages a session reaches: positions on a branch are gapless, so their ends tell."""
    session = get(reader, SESSIONS, pointer.session_id)
    branches = history.branches_of(reader, pointer.history)
    reached = {} if session is None else history.reach_from(session, branches)
    ends = ((branches[at], history.end_of(reader, branches[at]) if end is None else end) for at, end in reached.items())
    return sum(max(0, end - branch.fork_seq) for branch, end in ends)
