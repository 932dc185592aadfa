"""Reading a store that may not be written: an interrupted commit is finished in memory, over the files."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.backends._file.disk import Disk
from holdfast.backends._file.journal import Step


class ReadOnlyDisk(Disk):
    """Files as they would be after some steps, none of which is taken."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._over: dict[str, bytes | None] = {}

    def lay_over(self, steps: Iterable[Step]) -> None:
        """Show the files as these steps would leave them."""
        self._over = {}
        for step in steps:
            self._over[step.path] = self._after(step)

    def _after(self, step: Step) -> bytes | None:
        before = self.read(step.path) or b""
        if step.do == "append":
            return before[: step.offset] + step.content
        if step.do == "blank":
            for offset, length in step.spans:
                before = before[:offset] + b" " * length + before[offset + length :]
            return before
        if step.do == "move":
            moved = self.read(step.source)
            return before if moved is None else moved
        return step.content if step.do == "replace" else None

    def read(self, name: str) -> bytes | None:
        return self._over[name] if name in self._over else super().read(name)

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        if name not in self._over:
            return super().read_part(name, offset, length)
        content = self._over[name] or b""
        return content[offset:] if length < 0 else content[offset : offset + length]

    def names(self, folder: str) -> list[str]:
        found = set(super().names(folder))
        for path, content in self._over.items():
            name = path.removeprefix(f"{folder}/").partition("/")[0] if path.startswith(f"{folder}/") else ""
            if content is not None and name:
                found.add(name)
            elif path == f"{folder}/{name}":
                found.discard(name)
        return sorted(found)
