"""OpenAI Agents: `HoldfastSession`, its `Session` protocol on a session of Holdfast, with branches, usage and search.

An item is one message, so that transcript, search, usage and tree work on it; what a message has no field for stays
beside it. Nothing is deleted: popping and clearing move the head, and what was there remains on its branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.adapters._extras import needing

with needing("openai-agents"):
    from agents.items import ModelResponse, TResponseInputItem
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
    from agents.result import RunResultBase

from holdfast import history
from holdfast.adapters._awaited import Awaited
from holdfast.adapters._openai_items import are_short, items_of, messages_of
from holdfast.adapters._together import lots
from holdfast.aio import AsyncHoldfast
from holdfast.appends import ROOT
from holdfast.client import Holdfast
from holdfast.commits import commit
from holdfast.contracts import Reader, Write
from holdfast.errors import AlreadyExists, Busy, NotFound
from holdfast.holds import check_free
from holdfast.ids import check_count, check_id
from holdfast.model import Found, Message, Session, Tree, Usage, UsageTotal

__all__ = ["HoldfastSession", "Turn"]

_BATCH = 400  # items of one commit
_ATTEMPTS = 100  # to pop what is the last item, while others write
_LOOK_BACK = 64  # messages in which a call or an answer of late is looked for


class Turn(Struct, frozen=True, kw_only=True):
    """What a person said and all that came of it, with what the model calls in it used."""

    number: int
    message_id: str
    text: str
    usage: UsageTotal


class HoldfastSession:
    """A conversation of OpenAI Agents in a store: `Runner.run(agent, "Hi", session=HoldfastSession(hf, "kyoto"))`.

    The session is made by the first item. Any number of these may stand for the same one, in any process.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        hf: Holdfast | AsyncHoldfast,
        session_id: str,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = check_id(session_id, "session id")
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._agent_id, self._user_id = agent_id, user_id
        self._given = hf
        self._store = Awaited(hf)
        self._hf = self._store.hf

    # the protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items a model sees, or the latest `limit` of them, in chronological order."""
        most = resolve_session_limit(limit, self.session_settings)
        found = await self._store.call(self._items if most is None else self._latest, most)
        return cast(list[TResponseInputItem], found)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items behind the last one; all or none of up to 400 with 4 MB."""
        if items and not await self._added_at_once(items):
            await self._store.call(self._add, items)

    async def _added_at_once(self, items: Sequence[Any]) -> bool:
        """Add items without a thread, where that takes moments; False, with nothing done, where it does not."""
        messages = messages_of(items) if are_short(items) else []
        if not messages or not _are_named(messages):
            return False
        try:
            await self._store.aio.sessions.append(self.session_id, *messages)
        except NotFound:
            return False  # it is the first
        return True

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the latest item back and return it, None if there is none; it stays in the store, on its branch."""
        return cast(TResponseInputItem | None, await self._store.call(self._pop))

    async def clear_session(self) -> None:
        """Begin anew; what was said stays in the store, on its branch. `hf.sessions.delete` destroys it."""
        await self._store.call(self._clear)

    # what Holdfast adds

    async def turns(self) -> list[Turn]:
        """The turns on the way to the head, from 1, each with what it used."""
        return await self._store.call(lambda: list(self._turns()))

    async def branch_from(self, turn: int) -> None:
        """Go back to before a turn, so that the next run answers anew on a branch of its own; NotFound without it."""
        await self._store.call(self._branch_from, turn)

    async def tree(self) -> Tree:
        """The branches and where they part; NotFound before the first item."""
        return await self._store.call(self._hf.sessions.tree, self.session_id)

    async def switch(self, branch: int) -> Session:
        """Go on at the end of another branch."""
        return await self._store.call(self._hf.sessions.switch, self.session_id, branch)

    async def fork(self, session_id: str | None = None) -> HoldfastSession:
        """A session of its own that begins with what this one has said; it shares its storage."""
        forked = await self._store.call(self._hf.sessions.fork, self.session_id, id=session_id)
        return HoldfastSession(
            self._given,
            forked.id,
            agent_id=self._agent_id,
            user_id=self._user_id,
            session_settings=self.session_settings,
        )

    async def search(self, text: str, *, substring: bool = False, limit: int = 20) -> list[Found]:
        """The messages of this session that have every word of the text, on all branches."""
        ask = self._hf.search
        return await self._store.call(ask, text, session_id=self.session_id, substring=substring, limit=limit)

    async def store_run_usage(self, result: RunResultBase) -> None:
        """Keep what each model call of a finished run used, with the message it wrote; repeating it is safe."""
        model = getattr(result.last_agent, "model", None)
        named = model if isinstance(model, str) else None
        await self._store.call(self._store_usage, result.raw_responses, named)

    # on a thread

    def _items(self, most: int | None = None) -> list[Any]:
        del most
        return self._rendered(self._hf.sessions.context(self.session_id))

    def _latest(self, most: int | None) -> list[Any]:
        wanted = count = check_count(most, "limit")
        while wanted:
            said = list(self._hf.sessions.messages(self.session_id, last=count))
            if any(one.is_summary or one.is_compaction or one.pruned for one in said):
                return self._items()[-wanted:]
            items = self._rendered(said)
            if len(items) >= wanted or len(said) < count:
                return items[-wanted:]
            count *= 2  # some messages are no items
        return []

    def _rendered(self, said: Sequence[Message]) -> list[Any]:
        return [item for message in said for item in items_of(message, self._hf.artifacts.read)]

    def _add(self, items: Sequence[Any]) -> None:
        for some in lots(self._named(messages_of(items)), _BATCH):
            self._append(some)

    def _append(self, messages: Sequence[Message]) -> None:
        try:
            self._hf.sessions.append(self.session_id, *messages)
        except NotFound:
            self._create()
            self._hf.sessions.append(self.session_id, *messages)

    def _create(self) -> None:
        try:
            self._hf.sessions.create(id=self.session_id, agent_id=self._agent_id, user_id=self._user_id)
        except AlreadyExists:
            return  # somebody else's first item came first

    def _named(self, messages: list[Message]) -> list[Message]:
        """The same, with the tools of results whose calls were stored before."""
        if _are_named(messages):
            return messages
        before = self._hf.sessions.messages(self.session_id, last=_LOOK_BACK)
        names = {call.id: call.name for one in before for call in one.tool_calls}
        return [
            replace(one, tool_name=names.get(one.tool_call_id)) if one.tool_call_id and one.tool_name is None else one
            for one in messages
        ]

    def _pop(self) -> Any:
        for _ in range(_ATTEMPTS):
            last = next(iter(self._hf.sessions.messages(self.session_id, last=1)), None)
            if last is None:
                return None
            if not self._step_back(last):
                continue
            items = items_of(last, self._hf.artifacts.read)
            if len(items) > 1:  # a message of another program's, which says several things at once
                self._append(messages_of(items[:-1]))
            if items:
                return items[-1]
        raise Busy(f"others write to session {self.session_id!r} all the time; pop when they rest")

    def _step_back(self, last: Message) -> bool:
        """Move the head in front of the last message; False if that is not the last any more."""
        store, sessions = self._hf._store, self._hf.sessions
        is_last: list[bool] = []

        def place(reader: Reader) -> list[Write]:
            seen = history.must_see(reader, self.session_id)
            is_last[:] = [seen.pointer.message_id == last.id]
            if not is_last[0]:
                return []
            check_free(reader, seen.pointer, store)
            goal = sessions._goal(reader, seen.pointer, None, last.parent_id or ROOT)
            return history.move(seen, sessions._point(reader, seen.pointer, *goal))[1]

        commit(store, place)
        self._hf._ground.heads.pop(self.session_id, None)
        return is_last[0]

    def _clear(self) -> None:
        try:
            self._hf.sessions.switch(self.session_id, at=ROOT)
        except NotFound:
            return

    def _turns(self) -> Iterator[Turn]:
        number = 0
        asked: Message | None = None
        used: list[Usage] = []
        for message in self._hf.sessions.messages(self.session_id):
            if message.role == "user" and not message.is_compaction:
                if asked is not None:
                    yield _turn(number, asked, used)
                number, asked, used = number + 1, message, []
            if message.usage is not None:
                used.append(message.usage)
        if asked is not None:
            yield _turn(number, asked, used)

    def _branch_from(self, turn: int) -> None:
        found = next((one for one in self._turns() if one.number == turn), None)
        if found is None:
            raise NotFound(f"session {self.session_id!r} has no turn {turn!r} on its present branch")
        asked = self._hf.sessions.message(self.session_id, found.message_id)
        assert asked is not None
        self._hf.sessions.switch(self.session_id, at=asked.parent_id or ROOT)

    def _store_usage(self, responses: Sequence[ModelResponse], model: str | None) -> None:
        """Give each response's usage to its last message, from the last response back: providers may repeat ids."""
        outputs = sum(len(response.output) for response in responses)
        window = self._hf.sessions.messages(self.session_id, last=2 * outputs + _LOOK_BACK)  # their tools' results, too
        said = [one for one in window if one.role == "assistant"]
        for response in reversed(responses):
            own = {name for item in response.output for name in _names(item.model_dump())}
            while said and own and not own & {name for item in self._rendered(said[-1:]) for name in _names(item)}:
                said.pop()
            if said and response.output:
                self._hf.sessions.update_usage(self.session_id, said[-1].id, _used(response, model, said[-1]))
                del said[-len(response.output) :]


def _are_named(messages: Sequence[Message]) -> bool:
    """Whether every result says which tool it is of."""
    return all(one.tool_call_id is None or one.tool_name is not None for one in messages)


def _names(item: dict[str, Any]) -> list[str]:
    return [item[name] for name in ("id", "call_id") if item.get(name) is not None]


def _turn(number: int, asked: Message, used: list[Usage]) -> Turn:
    total = UsageTotal(
        uses=len(used),
        input=sum(one.input for one in used),
        output=sum(one.output for one in used),
        total=sum(one.total for one in used),
        cache_read=sum(one.cache_read for one in used),
        cache_write=sum(one.cache_write for one in used),
    )
    return Turn(number=number, message_id=asked.id, text=asked.text, usage=total)


def _used(response: ModelResponse, model: str | None, answer: Message) -> Usage:
    """Its id and time are the answer's, so that the same is stored again."""
    used = response.usage
    cached = used.input_tokens_details.cached_tokens or 0
    return Usage(
        id=answer.id,
        provider="openai",
        model=model,
        input=used.input_tokens - cached,
        output=used.output_tokens,
        total=used.total_tokens,
        cache_read=cached,
        created_at=answer.created_at,
    )
