"""`hf.usage`: the tokens and the money that model calls took, by agent, user, model or day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import fsum, isfinite
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from holdfast import codec, history
from holdfast import usage_records as records
from holdfast.commits import commit
from holdfast.contracts import Reader, Write
from holdfast.errors import InvalidInput
from holdfast.filters import Filter
from holdfast.history import Pointer
from holdfast.ids import check_id, micros
from holdfast.model import Price, Usage, UsageTotal
from holdfast.nouns import Ground, Noun

By: TypeAlias = Literal["agent", "user", "model", "day"]
_Use: TypeAlias = tuple[Pointer, Usage]

_KEYS: Mapping[By, Callable[[Pointer, Usage], str | None]] = {
    "agent": lambda pointer, _: pointer.agent_id,
    "user": lambda pointer, _: pointer.user_id,
    "model": lambda _, usage: usage.model,
    "day": lambda _, usage: usage.created_at.astimezone(UTC).date().isoformat(),
}
_MILLION = 1_000_000


class Usages(Noun):
    """`hf.usage`: record, list and add up what model calls used."""

    def __init__(self, ground: Ground, prices: Mapping[str, Price]) -> None:
        super().__init__(ground)
        self._prices = check_prices(prices)

    def record(self, session_id: str, usage: Usage, *, timeout: float | None = None) -> Usage:
        """Add a use that belongs to no message; safe to repeat, AlreadyExists if its id has other content.

        A message's own usage is appended with it, or set with `sessions.update_usage`.
        """
        check_id(session_id, "session id")
        if not isinstance(usage, Usage):
            raise InvalidInput(f"usage is a Usage, not {type(usage).__name__}")
        check_id(usage.id, "usage id")
        codec.encode_value(usage, Usage, "usage")
        if usage.message_id is not None:
            raise InvalidInput("the usage of a message is set with sessions.update_usage; leave out message_id")
        if usage.session_id not in (None, session_id):
            raise InvalidInput(f"usage {usage.id!r} is of session {usage.session_id!r}, not {session_id!r}")
        recorded: list[Usage] = []

        def place(reader: Reader) -> list[Write]:
            writes, added = records.add(reader, history.must_see(reader, session_id).pointer, usage)
            recorded[:] = [added]
            return writes

        with self._within(timeout):
            commit(self._store, place)
            return recorded[-1]

    def totals(
        self,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        model: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        by: By | None = None,
        timeout: float | None = None,
    ) -> list[UsageTotal]:
        """What was used in all, as one total, or one for each agent, user, model or day (UTC), by key.

        From `since` on and before `until`. A message that sessions share counts once, for the one that wrote it;
        with a `session_id`, all that this session holds counts. Detached sessions count only by their id.
        """
        if by is not None and by not in get_args(By):
            raise InvalidInput(f"by is one of {', '.join(get_args(By))}, not {by!r}")
        if model is not None and not isinstance(model, str):
            raise InvalidInput(f"model is a string, not {type(model).__name__}")
        low = None if since is None else micros(since, "since")
        high = None if until is None else micros(until, "until")
        owners = {"agent_id": agent_id, "user_id": user_id}
        where = [Filter(name, "=", check_id(value, name)) for name, value in owners.items() if value is not None]
        with self._within(timeout):
            uses = self._uses(session_id, tuple(where))
            chosen = (use for use in uses if _is_chosen(use[1], model, low, high))
            return add_up(chosen, by, self._prices)

    def _uses(self, session_id: str | None, where: tuple[Filter, ...]) -> Iterator[_Use]:
        if session_id is None:
            return records.spent(self._store, where)
        seen = history.look_up(self._store, check_id(session_id, "session id"))
        pointers = [seen.pointer] if seen is not None and _passes(seen.pointer, where) else []
        return ((pointer, usage) for pointer in pointers for usage in records.spent_in(self._store, pointer))

    def list(self, session_id: str, *, timeout: float | None = None) -> list[Usage]:
        """Everything a session used, in the order it was written; nothing for an unknown session."""
        with self._within(timeout):
            seen = history.look_up(self._store, check_id(session_id, "session id"))
            return [] if seen is None else records.listed(self._store, seen.pointer)


def _passes(pointer: Pointer, where: Iterable[Filter]) -> bool:
    return all(getattr(pointer, one.field) == one.value for one in where)


def _is_chosen(usage: Usage, model: str | None, low: int | None, high: int | None) -> bool:
    if model is not None and usage.model != model:
        return False
    at = micros(usage.created_at)
    return (low is None or at >= low) and (high is None or at < high)


# adding up


class _Sum(Struct):
    uses: int = 0
    input: int = 0
    output: int = 0
    total: int = 0
    cache_read: int = 0
    cache_write: int = 0
    unpriced: int = 0


def add_up(uses: Iterable[_Use], by: By | None, prices: Mapping[str, Price]) -> list[UsageTotal]:
    """The totals of some uses: one, or one for each key, those without a key last."""
    key_of = (lambda *_: None) if by is None else _KEYS[by]
    sums: dict[str | None, tuple[_Sum, list[float]]] = {} if by is not None else {None: (_Sum(), [])}
    for pointer, usage in uses:
        total, costs = sums.setdefault(key_of(pointer, usage), (_Sum(), []))
        _add(total, usage)
        cost = cost_of(usage, prices)
        if cost is None:
            total.unpriced += 1
        else:
            costs.append(cost)
    ordered = sorted(sums.items(), key=lambda pair: (pair[0] is None, pair[0] or ""))
    return [_total(key, total, fsum(costs)) for key, (total, costs) in ordered]


def _add(total: _Sum, usage: Usage) -> None:
    total.uses += 1
    total.input += usage.input
    total.output += usage.output
    total.total += records.tokens_of(usage)
    total.cache_read += usage.cache_read
    total.cache_write += usage.cache_write


def _total(key: str | None, total: _Sum, cost: float) -> UsageTotal:
    return UsageTotal(key=key, cost=cost, **{name: getattr(total, name) for name in _Sum.__struct_fields__})


def cost_of(usage: Usage, prices: Mapping[str, Price]) -> float | None:
    """What a use cost: what it says, else what its model's price makes it; None where nobody knows."""
    if usage.cost is not None:
        return usage.cost
    price = None if usage.model is None else prices.get(usage.model)
    if price is None:
        return None
    counted = (
        (usage.input, price.input),
        (usage.output, price.output),
        (usage.cache_read, price.cache_read),
        (usage.cache_write, price.cache_write),
    )
    return fsum(tokens * each for tokens, each in counted) / _MILLION


def check_prices(prices: Mapping[str, Price]) -> dict[str, Price]:
    """The prices by model, or InvalidInput if they are none."""
    if not isinstance(prices, Mapping):
        raise InvalidInput(f"prices are a dict of model names to Price, not {type(prices).__name__}")
    for model, price in prices.items():
        if not isinstance(model, str) or not isinstance(price, Price):
            raise InvalidInput(f"the price of {model!r} is a Price(input=…, output=…), not {price!r}")
        for name in Price.__struct_fields__:
            each = getattr(price, name)
            if isinstance(each, bool) or not isinstance(each, int | float) or not (isfinite(each) and each >= 0):
                raise InvalidInput(f"the {name} price of {model!r} is a number from 0, not {each!r}")
    return dict(prices)
