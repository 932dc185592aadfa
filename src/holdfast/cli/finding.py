"""Finding what an argument names: a whole id, the unique beginning of one, or a title."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.cli.printing import one_line
from holdfast.errors import CorruptData, IntegrityError, InvalidInput, NotFound

if TYPE_CHECKING:  # or the help of a command would load the whole library
    from holdfast import Agent, Artifact, Holdfast, Session
    from holdfast.model import Checkpoint, Page, Run

_PAGE = 1_000
_SHOWN = 8


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T")
Named = TypeVar("Named", bound=_HasId)


def pages(read: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Everything of a list, page by page."""
    page = read(None)
    yield from page
    while page.cursor is not None:
        page = read(page.cursor)
        yield from page


def agent(hf: Holdfast, text: str) -> Agent:
    """The agent that is meant."""
    everything = pages(lambda cursor: hf.agents.list(limit=_PAGE, cursor=cursor))
    return _meant("agent", text, hf.agents.get(text), everything, lambda one: one.name)


def session(hf: Holdfast, text: str) -> Session:
    """The session that is meant; a detached one only by its whole id."""
    everything = pages(lambda cursor: hf.sessions.list(limit=_PAGE, cursor=cursor, order="created"))
    return _meant("session", text, hf.sessions.get(text), everything, lambda one: one.title)


def checkpoint(hf: Holdfast, text: str) -> Checkpoint:
    """The checkpoint that is meant."""
    everything = pages(lambda cursor: hf.checkpoints.list(limit=_PAGE, cursor=cursor))
    try:
        exact = hf.checkpoints.get(text)
    except (IntegrityError, CorruptData):  # it is listed all the same, and may be deleted
        exact = None
    return _meant("checkpoint", text, exact, everything, lambda one: one.name)


def artifact(hf: Holdfast, text: str) -> Artifact:
    """The artifact that is meant."""
    everything = pages(lambda cursor: hf.artifacts.list(limit=_PAGE, cursor=cursor))
    return _meant("artifact", text, hf.artifacts.get(text), everything, lambda one: one.name)


def run(hf: Holdfast, text: str) -> Run:
    """The run that is meant, of whatever session."""
    sessions = pages(lambda cursor: hf.sessions.list(limit=_PAGE, cursor=cursor, order="created"))
    everything = (run for one in sessions for run in hf.runs.list(one.id, limit=_PAGE))
    return _meant("run", text, hf.runs.get(text), everything, lambda one: one.key)


def _meant(
    what: str, text: str, exact: Named | None, everything: Iterable[Named], name_of: Callable[[Named], str | None]
) -> Named:
    if exact is not None:
        return exact
    found = [one for one in everything if one.id.startswith(text) or _is(name_of(one), text)]
    if not found:
        listed = "holdfast run list SESSION" if what == "run" else f"holdfast {what} list"
        raise NotFound(f"there is no {what} {text!r}; `{listed}` shows those there are")
    if len(found) > 1:
        candidates = "".join(f"\n  {one.id}  {one_line(name_of(one) or '')}".rstrip() for one in found[:_SHOWN])
        more = f"\n  … and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InvalidInput(f"{text!r} may be any of {len(found)} {what}s; give more of the id:{candidates}{more}")
    return found[0]


def _is(name: str | None, text: str) -> bool:
    return name is not None and name.casefold() == text.casefold()
